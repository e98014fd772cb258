"""A Messages stream as its clients read it: held to the protocol event by event, and joined to the message that it tells."""

from typing import Any

import msgspec


def events(stream: bytes) -> list[dict[str, Any]]:
    """Return the events of a stream, each named as its payload says."""
    assert stream.endswith(b"\n\n") or not stream
    found = []
    for each in stream.split(b"\n\n")[:-1]:
        name, _, payload = each.partition(b"\ndata: ")
        found.append(msgspec.json.decode(payload))
        assert name == b"event: " + found[-1]["type"].encode()
    return found


def joined(stream: bytes) -> dict[str, Any]:
    """Return the message of a whole stream: blocks one after the other, one end, nothing behind it."""
    first, *middle, last = events(stream)
    assert (first["type"], last) == ("message_start", {"type": "message_stop"})
    message: dict[str, Any] = first["message"]
    assert message["content"] == []
    ended = False
    pieces: list[str] | None = None
    for event in middle:
        kind = event["type"]
        if kind == "message_delta":
            assert pieces is None
            ended = True
            message |= event["delta"]
            message["usage"] |= event["usage"]
            continue
        assert not ended
        if kind == "content_block_start":
            assert (pieces, event["index"]) == (None, len(message["content"]))
            pieces = []
            message["content"].append(event["content_block"])
        elif kind == "content_block_delta":
            assert pieces is not None
            add(message["content"][event["index"]], event["delta"], pieces)
        else:
            assert (kind, event["index"]) == ("content_block_stop", len(message["content"]) - 1)
            assert pieces is not None
            if pieces:
                message["content"][-1]["input"] = msgspec.json.decode("".join(pieces))
            pieces = None
    assert ended
    return message


def add(block: dict[str, Any], delta: dict[str, Any], pieces: list[str]) -> None:
    """Add what a delta says to its block; the pieces of a call's input are read once all are there."""
    match delta["type"]:
        case "text_delta":
            block["text"] += delta["text"]
        case "thinking_delta":
            block["thinking"] += delta["thinking"]
        case "signature_delta":
            block["signature"] = delta["signature"]
        case "citations_delta":
            block["citations"].append(delta["citation"])
        case other:
            assert other == "input_json_delta"
            pieces.append(delta["partial_json"])
