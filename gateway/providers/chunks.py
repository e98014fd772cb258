"""What the gateway looks at in an OpenAI answer, complete or in chunks: typed, shallow, and tolerant of what providers add.

Counts are UTF-8 bytes of produced text: content, reasoning, refusals, tool arguments. Nothing else of an answer is output. Pure.
"""

import msgspec
from msgspec import UNSET, UnsetType

BROKEN_OFF = frozenset({"error", "abort"})
"""Finish reasons of an answer that its provider has given up: OpenRouter's, vLLM's."""


class Function(msgspec.Struct, gc=False):
    """What a tool call calls."""

    name: str | None = None
    arguments: object = None


class ToolCall(msgspec.Struct, gc=False):
    """One tool call, or a fragment of one."""

    index: int | None = None
    id: str | None = None
    function: Function | None = None
    extra_content: object = None
    """Gemini's, which it wants back with the call."""


class Said(msgspec.Struct, gc=False):
    """A message, or a delta of one."""

    content: str | list[object] | None = None
    tool_calls: list[ToolCall] | None = None
    reasoning_content: str | None = None
    reasoning: object = None
    refusal: str | None = None
    function_call: Function | None = None
    audio: object = None


class Choice(msgspec.Struct, gc=False):
    """One of the answers that were asked for."""

    index: int | None = None
    delta: Said | None = None
    finish_reason: str | None = None
    text: str | None = None
    message: Said | None = None


class Chunk(msgspec.Struct, gc=False):
    """A chunk of an answer, or a complete one. A member that is UNSET is not there."""

    choices: list[Choice] | None = None
    usage: object = None
    error: object = None
    detail: object = None
    id: object = UNSET
    service_tier: str | UnsetType | None = UNSET
    kind: str | None = msgspec.field(name="object", default=None)

    @property
    def is_error(self) -> bool:
        """Return whether this is an error, or an answer that ends in one."""
        if self.error or self.kind == "error" or (self.detail and not self.choices):
            return True
        return any(choice.finish_reason in BROKEN_OFF for choice in self.choices or ())


decode_chunk = msgspec.json.Decoder(Chunk).decode


def speaks(choice: Choice) -> bool:
    """Return whether a choice says anything: text, reasoning, a refusal, audio or a tool call."""
    said = choice.delta or choice.message
    if choice.text:
        return True
    if said is None:
        return False
    return bool(
        said.content
        or said.tool_calls
        or said.reasoning_content
        or said.reasoning
        or said.refusal
        or said.function_call
        or said.audio
    )


def output_bytes(choice: Choice) -> int:
    """Return how many bytes of text a choice says."""
    said = choice.delta or choice.message
    total = _size(choice.text)
    if said is None:
        return total
    total += _size(said.content) + _size(said.refusal)
    if said.reasoning_content or said.reasoning:
        # Some providers tell the same reasoning under both names.
        total += max(_size(said.reasoning_content), _size(said.reasoning))
    for call in said.tool_calls or ():
        total += _size(call.function and call.function.arguments)
    return total + _size(said.function_call and said.function_call.arguments)


def _size(text: object) -> int:
    """Return the bytes of a text, or of the texts in the parts that some providers send instead."""
    if text is None:
        return 0
    if isinstance(text, str):
        return len(text) if text.isascii() else len(text.encode())
    if isinstance(text, list):
        return sum(map(_size, text))
    return _size(text.get("text")) + _size(text.get("thinking")) if isinstance(text, dict) else 0
