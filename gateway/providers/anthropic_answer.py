"""A complete answer of Anthropic's as one of OpenAI's. What is no answer is left as it is, for what reads it next. Pure."""

import msgspec

from gateway.providers.anthropic_words import Figures, arguments, finish_reason

encode = msgspec.json.Encoder().encode


class Block(msgspec.Struct, gc=False):
    """A part of what is said: a text, a thought, a tool call, or what has no counterpart."""

    type: str
    text: str | None = None
    thinking: str | None = None
    id: str | None = None
    name: str | None = None
    input: msgspec.Raw = msgspec.Raw(b"{}")


class Message(msgspec.Struct, gc=False):
    """A whole answer."""

    content: list[Block]
    id: object = None
    stop_reason: str | None = None
    usage: object = None


KIND = "chatcmpl-"
"""What OpenAI's ids of chat begin with."""


class Head(msgspec.Struct, frozen=True, gc=False):
    """What an answer and every chunk of one begin with: OpenAI's id and time, which Messages has not, and what made it."""

    id: str
    created: int
    fingerprint: str

    def id_of(self, message_id: object) -> str:
        """Return the id for an answer that the provider calls so."""
        found = message_id if isinstance(message_id, str) and message_id else self.id
        return found if found.startswith(KIND) else KIND + found


decode = msgspec.json.Decoder(Message).decode


def completion(body: bytes, head: Head) -> bytes:
    """Return the body of OpenAI's that says the same; `body` itself where it is no message."""
    try:
        message = decode(body)
    except (msgspec.DecodeError, RecursionError):
        return body
    figures = Figures()
    figures.note(message.usage)
    said = _said(message.content)
    found: dict[str, object] = {
        "id": head.id_of(message.id),
        "object": "chat.completion",
        "created": head.created,
        "model": "",
        "system_fingerprint": head.fingerprint,
        "choices": [
            {"index": 0, "message": said, "logprobs": None, "finish_reason": finish_reason(message.stop_reason or "end_turn")}
        ],
    }
    if figures.tier is not None:
        found["service_tier"] = figures.tier
    usage = figures.usage()
    return encode(found if usage is None else {**found, "usage": usage})


def _said(content: list[Block]) -> dict[str, object]:
    calls = [
        {"id": block.id, "type": "function", "function": {"name": block.name, "arguments": arguments(block.input)}}
        for block in content
        if block.type == "tool_use"
    ]
    text = "".join(block.text or "" for block in content if block.type == "text")
    thought = "".join(block.thinking or "" for block in content if block.type == "thinking")
    said: dict[str, object] = {"role": "assistant", "content": text if text or not calls else None, "refusal": None}
    if thought:
        said["reasoning_content"] = thought
    return said | {"tool_calls": calls} if calls else said
