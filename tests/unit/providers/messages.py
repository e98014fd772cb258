"""Anthropic's messages, whole and in events, for the tests of the dialect."""

from collections.abc import Iterable
from typing import Any

import msgspec

from gateway.faults import Failed
from gateway.policy.catalogue import Provider, Secret, Tier
from gateway.providers import NATURES
from gateway.providers.anthropic import Anthropic
from gateway.providers.protocol import Edits, StreamReader
from gateway.wire.request import Endpoint

PROVIDER = Provider(
    name="claude",
    dialect="anthropic",
    nature=NATURES["anthropic"],
    base_url="http://up.example/v1",
    api_key=Secret("sk-upstream"),
    tiers={Tier.DEFAULT: "standard_only", Tier.PRIORITY: "auto"},
)
DIALECT = Anthropic(PROVIDER)
EDITS = Edits(
    endpoint=Endpoint.CHAT, model="public", tier="default", id="ours", created_s=17, show_usage=True, upstream_model="up-internal"
)

encode = msgspec.json.Encoder().encode


def message(*content: dict[str, Any], stop_reason: str = "end_turn", **usage: Any) -> bytes:
    """A whole answer."""
    told = {"input_tokens": 10, "output_tokens": 20, **usage}
    return encode({"id": "msg_1", "type": "message", "content": content, "stop_reason": stop_reason, "usage": told})


def event(kind: str, **members: Any) -> bytes:
    """One event of a stream."""
    return b"event: %b\ndata: %b\n\n" % (kind.encode(), encode({"type": kind, **members}))


def start(**usage: Any) -> bytes:
    """The beginning of a stream."""
    return event("message_start", message={"id": "msg_1", "usage": {"input_tokens": 10, "output_tokens": 1, **usage}})


def begin(index: int = 0, **block: Any) -> bytes:
    return event("content_block_start", index=index, content_block=block)


def add(index: int = 0, **delta: Any) -> bytes:
    return event("content_block_delta", index=index, delta={"type": "any_delta", **delta})


def stop(index: int = 0) -> bytes:
    return event("content_block_stop", index=index)


def text(said: str, index: int = 0) -> bytes:
    """A block of text."""
    return begin(index, type="text", text="") + add(index, text=said) + stop(index)


def end(stop_reason: str = "end_turn", **usage: Any) -> bytes:
    """The end of a stream."""
    told = {"output_tokens": 20, **usage}
    return event("message_delta", delta={"stop_reason": stop_reason}, usage=told) + event("message_stop")


def play(pieces: Iterable[bytes], edits: Edits = EDITS) -> tuple[StreamReader, bytes, Failed | None]:
    """Feed pieces to a fresh reader until it fails or is done; return it, what went out, and how it failed."""
    reader = DIALECT.reader(edits)
    out: list[bytes] = []
    for piece in pieces:
        step = reader.feed(piece)
        out.append(step.out)
        if step.failed is not None or reader.done:
            return reader, b"".join(out), step.failed
    step = reader.end()
    return reader, b"".join([*out, step.out]), step.failed


def chunks(out: bytes) -> list[dict[str, Any]]:
    """Return the chunks of what went out, which is nothing but them and the end mark."""
    payloads = [found.removeprefix(b"data: ") for found in out.split(b"\n\n")]
    assert payloads.pop() == b""
    return [msgspec.json.decode(payload) for payload in payloads if payload != b"[DONE]"]


def joined(out: bytes) -> dict[str, Any]:
    """Return what a client makes of a stream: the message, how it ended, and its usage."""
    said: dict[str, Any] = {"content": "", "reasoning_content": "", "tool_calls": []}
    finish, usage = None, None
    for chunk in chunks(out):
        usage = chunk.get("usage", usage)
        for choice in chunk["choices"]:
            delta, finish = choice["delta"], choice["finish_reason"] or finish
            said["content"] += delta.get("content") or ""
            said["reasoning_content"] += delta.get("reasoning_content") or ""
            for call in delta.get("tool_calls", ()):
                if "id" in call:
                    assert call["index"] == len(said["tool_calls"])
                    said["tool_calls"].append({"id": call["id"], "name": call["function"]["name"], "arguments": ""})
                said["tool_calls"][call["index"]]["arguments"] += call["function"]["arguments"]
    return {**said, "finish": finish, "usage": usage}
