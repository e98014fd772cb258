"""What a demo model says, in the shapes of OpenAI's chat and legacy completions. Deterministic, with usage that adds up. Pure."""

from itertools import cycle, islice
from typing import Annotated, Any

import msgspec

from gateway.demo.scripts import Script

LEXICON = (
    "every",
    "request",
    "has",
    "a",
    "tier",
    "and",
    "each",
    "tier",
    "keeps",
    "its",
    "word",
    "while",
    "the",
    "slow",
    "lane",
    "waits",
    "for",
    "those",
    "in",
    "a",
    "hurry",
)
DONE = b"data: [DONE]\n\n"

Json = dict[str, Any]
encode = msgspec.json.Encoder().encode


class Message(msgspec.Struct, frozen=True):
    """One message of a chat."""

    role: str
    content: str | list[Json] | None = None

    @property
    def tokens(self) -> int:
        """Return the message's length."""
        parts = [part.get("text", "") for part in self.content] if isinstance(self.content, list) else [self.content or ""]
        return sum(len(part.split()) for part in parts)


class StreamOptions(msgspec.Struct, frozen=True):
    """What a stream carries besides text."""

    include_usage: bool | None = None


class Question(msgspec.Struct, frozen=True, kw_only=True):
    """The part of a request that a demo model reads: a chat has `messages`, a legacy completion has a `prompt`."""

    model: str
    messages: Annotated[list[Message], msgspec.Meta(min_length=1)] | None = None
    prompt: str | list[str | int | list[int]] | None = None
    stream: bool | None = None
    stream_options: StreamOptions | None = None
    max_tokens: Annotated[int, msgspec.Meta(ge=1)] | None = None
    max_completion_tokens: Annotated[int, msgspec.Meta(ge=1)] | None = None
    n: Annotated[int, msgspec.Meta(ge=1, le=8)] | None = None
    service_tier: str | None = None

    @property
    def prompt_tokens(self) -> list[int]:
        """Return the length of each prompt: of the one chat, or of each element of an array of prompts."""
        if self.messages is not None:
            return [sum(message.tokens for message in self.messages)]
        one = isinstance(self.prompt, str) or not self.prompt or isinstance(self.prompt[0], int)
        return [length(self.prompt)] if one else [length(element) for element in self.prompt or []]


def length(prompt: object) -> int:
    """Return the tokens of one prompt, which is text or tokens already."""
    if isinstance(prompt, str):
        return len(prompt.split())
    return len(prompt) if isinstance(prompt, list) else 0


class Reply:
    """One answer, whole or word by word."""

    def __init__(self, question: Question, script: Script, *, provider: str, number: int, created_s: int) -> None:
        bounds = [bound for bound in (question.max_completion_tokens, question.max_tokens) if bound is not None]
        most = min([script.words, *bounds])
        opening = [question.model.partition("?")[0], "at", f"{provider}:"]
        self.words = [*opening, *islice(cycle(LEXICON), max(0, most - len(opening)))][:most]
        self._finish_reason = "length" if most < script.words else "stop"
        self._chat = question.messages is not None
        self._question = question
        self._choices = range(len(question.prompt_tokens) * (question.n or 1))
        self._head: Json = {
            "id": f"{'chatcmpl' if self._chat else 'cmpl'}-{provider}-{number}",
            "created": created_s,
            "model": question.model,
            "system_fingerprint": "fp_demo",
        }
        if question.service_tier is not None:
            self._head["service_tier"] = question.service_tier

    @property
    def usage(self) -> Json:
        """Return what the answer used."""
        prompt, completion = sum(self._question.prompt_tokens), len(self.words) * len(self._choices)
        return {"prompt_tokens": prompt, "completion_tokens": completion, "total_tokens": prompt + completion}

    def body(self) -> bytes:
        """Return the whole answer."""
        text = " ".join(self.words)
        said: Json = {"message": {"role": "assistant", "content": text}} if self._chat else {"text": text}
        choices = [{"index": index, **said, "logprobs": None, "finish_reason": self._finish_reason} for index in self._choices]
        kind = "chat.completion" if self._chat else "text_completion"
        return encode({**self._head, "object": kind, "choices": choices, "usage": self.usage})

    def opening(self) -> bytes:
        """Return the events before the first word."""
        return self._events({"delta": {"role": "assistant", "content": ""}}) if self._chat else b""

    def word(self, position: int) -> bytes:
        """Return the events that carry the word at this position, one a choice."""
        text = self.words[position] if position == 0 else f" {self.words[position]}"
        return self._events({"delta": {"content": text}} if self._chat else {"text": text})

    def closing(self) -> bytes:
        """Return the events after the last word."""
        finish = self._events({"delta": {}} if self._chat else {"text": ""}, self._finish_reason)
        return finish + (self._event([], self.usage) if self._with_usage else b"") + DONE

    @property
    def _with_usage(self) -> bool:
        options = self._question.stream_options
        return options is not None and options.include_usage is True

    def _events(self, said: Json, finish_reason: str | None = None) -> bytes:
        choices = [{"index": index, **said, "logprobs": None, "finish_reason": finish_reason} for index in self._choices]
        return b"".join(self._event([choice], None) for choice in choices)

    def _event(self, choices: list[Json], usage: Json | None) -> bytes:
        kind = "chat.completion.chunk" if self._chat else "text_completion"
        members = {**self._head, "object": kind, "choices": choices}
        if self._with_usage:
            members["usage"] = usage
        return b"data: " + encode(members) + b"\n\n"


def failure(message: str, *, kind: str = "invalid_request_error", code: str | None = None, param: str | None = None) -> bytes:
    """Return an error in OpenAI's envelope."""
    return encode({"error": {"message": message, "type": kind, "param": param, "code": code}})


def models(names: list[str], created_s: int) -> bytes:
    """Return the list of models."""
    return encode(
        {
            "object": "list",
            "data": [{"id": name, "object": "model", "created": created_s, "owned_by": "demo"} for name in names],
        }
    )
