"""A provider of OpenAI's Responses beside its chat: where a test says nothing, both say the same.

What the pieces of a response look like is here too, and what a client makes of its events.
"""

from collections.abc import Mapping
from typing import Any

import msgspec

from tests.fakes.http_server import Call, Script
from tests.fakes.openai import Models, refuses, streams

RESPONSES = "/responses"
USAGE = {
    "input_tokens": 10,
    "input_tokens_details": {"cached_tokens": 0},
    "output_tokens": 20,
    "output_tokens_details": {"reasoning_tokens": 0},
    "total_tokens": 30,
}
"""What `tests.fakes.openai.USAGE` says too."""

CALL = {"type": "function_call", "id": "fc_1", "call_id": "call_1", "name": "weather", "arguments": '{"city":"Rome"}'}

encode = msgspec.json.Encoder().encode


def text(said: str) -> dict[str, Any]:
    """An item of text."""
    return {
        "type": "message",
        "id": "msg_1",
        "role": "assistant",
        "status": "completed",
        "content": [{"type": "output_text", "text": said, "annotations": []}],
    }


def thought(said: str) -> dict[str, Any]:
    """An item of thought."""
    return {"type": "reasoning", "id": "rs_1", "summary": [{"type": "summary_text", "text": said}]}


HELLO = text("Hello")


def response(*output: Mapping[str, Any], **members: Any) -> dict[str, Any]:
    """A whole response, with members of its own."""
    return {
        "id": "resp_1",
        "object": "response",
        "created_at": 1,
        "status": "completed",
        "error": None,
        "incomplete_details": None,
        "model": "up",
        "output": list(output) or [HELLO],
        "service_tier": "default",
        "usage": USAGE,
        **members,
    }


def event(kind: str, number: int, **members: Any) -> bytes:
    """One event of a stream."""
    return b"event: %b\ndata: %b\n\n" % (kind.encode(), encode({"type": kind, "sequence_number": number, **members}))


def begins() -> tuple[bytes, bytes]:
    """The events before anything is said."""
    begun: dict[str, Any] = {"status": "in_progress", "output": [], "usage": None, "service_tier": "auto"}
    told = {**response(), **begun}
    return event("response.created", 0, response=told), event("response.in_progress", 1, response=told)


def item(place: int, said: Mapping[str, Any], number: int) -> list[bytes]:
    """The events of one item, numbered from `number` on."""
    found: list[tuple[str, dict[str, Any]]] = []
    at: dict[str, Any] = {"output_index": place, "item_id": said["id"]}
    match said["type"]:
        case "function_call":
            first, whole, kind = {**said, "arguments": ""}, said["arguments"], "function_call_arguments"
        case "reasoning":
            first, whole, kind = {**said, "summary": []}, said["summary"][0]["text"], "reasoning_summary_text"
            at["summary_index"] = 0
        case _:
            first, whole, kind = {**said, "content": []}, said["content"][0]["text"], "output_text"
            at["content_index"] = 0
            found.append(("response.content_part.added", {**at, "part": {"type": "output_text", "text": "", "annotations": []}}))
    half = len(whole) // 2
    found += [(f"response.{kind}.delta", {**at, "delta": piece}) for piece in (whole[:half], whole[half:]) if piece]
    found.append((f"response.{kind}.done", {**at, "arguments" if kind.endswith("arguments") else "text": whole}))
    added: tuple[str, dict[str, Any]] = ("response.output_item.added", {"output_index": place, "item": first})
    done = ("response.output_item.done", {"output_index": place, "item": said})
    return [event(kind, number + step, **members) for step, (kind, members) in enumerate([added, *found, done])]


def ends(number: int, *output: Mapping[str, Any], kind: str = "completed", **members: Any) -> bytes:
    """The event that ends a response."""
    return event(f"response.{kind}", number, response=response(*output, **{"status": kind, **members}))


def stream(*output: Mapping[str, Any], kind: str = "completed", **members: Any) -> list[bytes]:
    """The events of a whole response."""
    found = [*begins()]
    for place, each in enumerate(output or (HELLO,)):
        found += item(place, each, len(found))
    return [*found, ends(len(found), *output, kind=kind, **members)]


def says(*output: Mapping[str, Any], **members: Any) -> Script:
    """Make a script that says this, whole or as a stream, as it is asked."""

    async def act(call: Call) -> None:
        if msgspec.json.decode(call.request.body).get("stream"):
            await streams(*stream(*output, **members))(call)
        else:
            await refuses(200, encode(response(*output, **members)))(call)

    return act


def events(told: bytes) -> list[dict[str, Any]]:
    """Return the events of a stream, each named as its payload says, in the order of their numbers."""
    assert told.endswith(b"\n\n") or not told
    found = []
    for each in told.split(b"\n\n")[:-1]:
        name, _, payload = each.partition(b"\ndata: ")
        found.append(msgspec.json.decode(payload))
        assert name == b"event: " + found[-1]["type"].encode()
    numbers = [each["sequence_number"] for each in found]
    assert numbers == sorted(set(numbers))
    return found


def joined(told: bytes) -> dict[str, Any]:
    """Return the response of a whole stream, held to what was said before its end, where it has one; nothing is behind it."""
    *middle, last = events(told)
    assert last["type"] in ("response.completed", "response.incomplete")
    whole: dict[str, Any] = last["response"]
    assert [each["item"] for each in middle if each["type"] == "response.output_item.done"] == whole["output"]
    shown = [each["response"] for each in (*middle, last) if "response" in each]
    assert {(each["id"], each["model"]) for each in shown} == {(whole["id"], whole["model"])}
    return whole


class Answering(Models):
    """The models of one server that has Responses by its path, and OpenAI's other endpoints by theirs."""

    def usual(self, call: Call, body: Mapping[str, Any]) -> Script:
        """Return what a model does where a test says nothing."""
        return says() if call.request.path.partition("?")[0].endswith(RESPONSES) else super().usual(call, body)
