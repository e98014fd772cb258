"""One choice of a chat answer on its way to a choice of completions: whole, or delta by delta (wire contract, 5.2 and 5.3).

What a model thinks or calls is no text: a delta of it becomes an empty one, which shows the client that the answer goes on. Pure.
"""

from collections.abc import Mapping

import msgspec

from gateway.providers.chunks import Choice, Said, speaks
from gateway.providers.over_chat_logprobs import Offsets, tokens_of

FINISHES: Mapping[str, str] = {
    "length": "length",
    "max_tokens": "length",
    "model_length": "length",
    "content_filter": "content_filter",
}
"""The ends of a chat answer that completions have a word for; every other is `stop`."""

encode = msgspec.json.Encoder().encode


class ChatChoice(Choice, gc=False):
    """A choice with its log probabilities, which nothing else of the gateway looks at."""

    logprobs: object = None


class ChatChunk(msgspec.Struct, gc=False):
    """A chat answer that the dialect has found to be one, or a chunk of it."""

    choices: list[ChatChoice] | None = None
    usage: object = None
    created: object = None
    system_fingerprint: object = None
    service_tier: object = None


decode_chat = msgspec.json.Decoder(ChatChunk).decode


class Asked(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """What of a prompt and its request its choices have to show: the prompt as JSON text, and where the first token stands."""

    prompt: bytes
    echo: bool
    logprobs: bool
    offset: int


class Text:
    """The text of one choice so far."""

    __slots__ = ("_asked", "_begun", "_length", "_offsets", "_refused", "index")

    def __init__(self, asked: Asked, index: int) -> None:
        self.index = index
        self._asked = asked
        self._offsets = Offsets(asked.offset)
        self._begun = False
        self._length = 0
        self._refused = False

    def whole(self, choice: ChatChoice) -> dict[str, object]:
        """Return a complete choice."""
        found = self._translated(choice, self._finish(choice.finish_reason or "stop", choice.message))
        if self._asked.echo:
            # Two JSON strings become one where their quotes meet.
            found["text"] = msgspec.Raw(self._asked.prompt[:-1] + encode(found["text"])[1:])
        return found

    def opening(self) -> dict[str, object] | None:
        """Return the prompt, once, where it is to be echoed: it comes before all else."""
        begun, self._begun = self._begun, True
        if begun or not self._asked.echo:
            return None
        return {"text": msgspec.Raw(self._asked.prompt), "index": self.index, "logprobs": None, "finish_reason": None}

    def delta(self, choice: ChatChoice) -> dict[str, object] | None:
        """Return what a chunk adds, None where it adds nothing."""
        if not (choice.finish_reason or speaks(choice) or (self._asked.logprobs and tokens_of(choice.logprobs))):
            return None
        return self._translated(choice, self._finish(choice.finish_reason, choice.delta))

    def _translated(self, choice: ChatChoice, finish: str | None) -> dict[str, object]:
        text = said_text(choice)
        self._length += len(text)
        logprobs = None
        if self._asked.logprobs:
            tokens, is_end = tokens_of(choice.logprobs), finish is not None
            if tokens or (is_end and choice.message is None):
                logprobs = self._offsets.legacy(tokens, self._length if is_end else None)
        return {"text": text, "index": self.index, "logprobs": logprobs, "finish_reason": finish}

    def _finish(self, reason: str | None, said: Said | None) -> str | None:
        self._refused = self._refused or bool(said and said.refusal)
        finish = None if reason is None else FINISHES.get(reason, "stop")
        return "content_filter" if finish == "stop" and self._refused else finish


def said_text(choice: Choice) -> str:
    """Return what a choice says in words: its content, or its refusal."""
    said = choice.delta or choice.message
    if said is None:
        return choice.text or ""
    content = said.content
    if isinstance(content, list):
        content = "".join(filter(None, map(_part, content)))
    return (content or "") + (said.refusal or "")


def _part(part: object) -> str:
    """Return the text of one part of a content, as some providers send it."""
    text = part.get("text") if isinstance(part, dict) else part
    return text if isinstance(text, str) else ""
