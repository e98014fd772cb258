"""A provider of the Anthropic dialect beside one of OpenAI's: where a test says nothing, both say the same.

What the pieces of a Messages answer look like is here too.
"""

from collections.abc import Callable, Mapping
from typing import Any

import msgspec

from tests.fakes.http_server import Call, Script
from tests.fakes.openai import SSE, Models, refuses

MESSAGES = "/messages"
USAGE = {"input_tokens": 10, "output_tokens": 20}
"""What `tests.fakes.openai.USAGE` says too."""

encode = msgspec.json.Encoder().encode


def text(said: str) -> dict[str, Any]:
    """A block of text."""
    return {"type": "text", "text": said}


HELLO = text("Hello")


def message(*content: Mapping[str, Any], **members: Any) -> bytes:
    """A whole answer, with members of its own."""
    return encode(
        {
            "id": "msg_1",
            "type": "message",
            "role": "assistant",
            "model": "up",
            "content": content or [HELLO],
            "stop_reason": "end_turn",
            "stop_sequence": None,
            "usage": USAGE,
            **members,
        }
    )


def event(kind: str, **members: Any) -> bytes:
    """One event of a stream."""
    return b"event: %b\ndata: %b\n\n" % (kind.encode(), encode({"type": kind, **members}))


def begins(**usage: Any) -> bytes:
    """The event that begins a message."""
    told = {"input_tokens": 10, "output_tokens": 1, **usage}
    return event("message_start", message={"id": "msg_1", "type": "message", "role": "assistant", "content": [], "usage": told})


def block(index: int, said: Mapping[str, Any]) -> bytes:
    """The events of one block: of what is said in pieces those, of anything else its beginning and its end."""
    first, pieces = {**said}, list[dict[str, Any]]()
    match said["type"]:
        case "tool_use" | "server_tool_use":
            first["input"] = {}
            pieces = [{"type": "input_json_delta", "partial_json": encode(said["input"]).decode()}]
        case "thinking":
            first |= {"thinking": "", "signature": ""}
            pieces = [{"type": "thinking_delta", "thinking": said["thinking"]}]
            pieces += [{"type": "signature_delta", "signature": said["signature"]}] if said.get("signature") else []
        case "text":
            half = len(said["text"]) // 2
            first |= {"text": ""} | ({"citations": []} if "citations" in said else {})
            pieces = [{"type": "citations_delta", "citation": each} for each in said.get("citations", ())]
            pieces += [{"type": "text_delta", "text": piece} for piece in (said["text"][:half], said["text"][half:])]
        case _:
            pass  # It begins whole.
    deltas = (event("content_block_delta", index=index, delta=piece) for piece in pieces)
    begun = event("content_block_start", index=index, content_block=first)
    return begun + b"".join(deltas) + event("content_block_stop", index=index)


def ends(stop_reason: str = "end_turn", **usage: Any) -> bytes:
    """The events that end a message."""
    told = event("message_delta", delta={"stop_reason": stop_reason, "stop_sequence": None}, usage={"output_tokens": 20, **usage})
    return told + event("message_stop")


def stream(*content: Mapping[str, Any], stop_reason: str = "end_turn") -> bytes:
    """The events of a whole answer."""
    said = content or (HELLO,)
    blocks = (block(index, each) for index, each in enumerate(said))
    return begins() + event("ping") + b"".join(blocks) + ends(stop_reason)


def error(kind: str, words: str = "It did not work") -> bytes:
    """An error in the envelope of the dialect."""
    return encode({"type": "error", "error": {"type": kind, "message": words}, "request_id": "req_1"})


def failing(kind: str, words: str = "It did not work") -> bytes:
    """An error as an event."""
    return b"event: error\ndata: %b\n\n" % error(kind, words)


def says(*content: Mapping[str, Any], **members: Any) -> Script:
    """Make a script that says this, whole or as a stream, as it is asked."""

    async def act(call: Call) -> None:
        if msgspec.json.decode(call.request.body).get("stream"):
            await streamed(stream(*content, stop_reason=members.get("stop_reason", "end_turn")))(call)
        else:
            await refuses(200, message(*content, **members))(call)

    return act


def streamed(*pieces: bytes, then: Callable[[Call], None] = Call.end) -> Script:
    """Make a script that streams these pieces, each in a segment of its own, and ends as `then` has it."""

    async def act(call: Call) -> None:
        call.head(200, SSE, chunked=True)
        for piece in pieces:
            call.piece(piece)
        then(call)

    return act


class Both(Models):
    """The models of one server that speaks this dialect by its path, and OpenAI's or Azure's by theirs."""

    def asked_for(self, call: Call, body: Mapping[str, Any]) -> str:
        """Return the model that a request names, in its body or in its path."""
        _, found, rest = call.request.path.partition("/deployments/")
        return rest.partition("/")[0] if found else super().asked_for(call, body)

    def usual(self, call: Call, body: Mapping[str, Any]) -> Script:
        """Return what a model does where a test says nothing."""
        return says() if call.request.path.endswith(MESSAGES) else super().usual(call, body)
