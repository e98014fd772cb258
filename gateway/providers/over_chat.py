"""Completions by a provider that has chat alone: each prompt becomes the one message of a call, what is said becomes text.

No words are put around the prompt. What cannot be said in chat never gets here: `gateway.policy.capabilities` keeps it away. A
failure names the client's own fields. Pure.
"""

from collections.abc import Iterable, Iterator, Mapping

import msgspec
from msgspec.structs import replace

from gateway.faults import Failed, FieldError
from gateway.policy.catalogue import Deployment
from gateway.providers.chunks import output_bytes
from gateway.providers.over_chat_answer import Bill, Split, fingerprint, head
from gateway.providers.over_chat_stream import OverChatStream
from gateway.providers.over_chat_text import Asked, ChatChunk, Text, decode_chat
from gateway.providers.protocol import Answer, Call, Dialect, Edits
from gateway.wire.request import Endpoint, InferenceRequest

NOT_IN_CHAT: Mapping[str, bytes | None] = dict.fromkeys(("prompt", "echo", "suffix", "best_of", "data"))
"""Members of completions that are said otherwise in chat, or say nothing where they get here."""

OURS: Mapping[str, str] = {"messages": "prompt", "top_logprobs": "logprobs"}
"""The client's field behind one of chat."""

encode = msgspec.json.Encoder().encode
decode_texts = msgspec.json.Decoder(list[msgspec.Raw]).decode
decode_text = msgspec.json.Decoder(str).decode


class OverChat:
    """One completions request as chat, and its answers as completions (a `Translation`)."""

    def __init__(self, request: InferenceRequest, deployment: Deployment, dialect: Dialect) -> None:
        self._request = request
        self._dialect = dialect
        echo, logprobs = bool(request.fields.get("echo")), "logprobs" in request.fields
        past_prompt = logprobs and deployment.provider.quirks.offset_past_prompt
        self._split = Split(
            parts=tuple(
                Asked(prompt=prompt, echo=echo, logprobs=logprobs, offset=len(decode_text(prompt)) if past_prompt else 0)
                for prompt in prompts(request)
            ),
            choices=request.n,
            fingerprint=fingerprint(deployment),
        )
        self._taken: list[tuple[Answer, ChatChunk]] = []

    def requests(self) -> Iterator[InferenceRequest]:
        """Yield the request of each prompt; its changes turn the client's body into one of chat."""
        asked = {**self._request.changes, **NOT_IN_CHAT, **self._logprobs()}
        for part in self._split.parts:
            yield replace(self._request, changes={**asked, "messages": self._messages(part.prompt)})

    def call(self, calls: Iterable[Call]) -> Call:
        """Return the calls of all requests as one: the first, which the others follow."""
        first, *further = calls
        return replace(first, further=tuple(each.body for each in further), translation=self)

    def take(self, body: bytes, edits: Edits) -> Answer | Failed | None:
        """Take the complete 2xx body of the next call; return the answer once all are there, or why there is none."""
        answer = self._dialect.answer(body, replace(edits, endpoint=Endpoint.CHAT))
        if isinstance(answer, Failed):
            return self.failed(answer)
        self._taken.append((answer, decode_chat(answer.body)))
        return self._joined(edits) if len(self._taken) == len(self._split.parts) else None

    def reader(self, edits: Edits) -> OverChatStream:
        """Return a fresh reader for the streams of all calls."""
        return OverChatStream(edits, self._split, self._dialect)

    def failed(self, failed: Failed) -> Failed:
        """Return a failure in the words of completions."""
        return replace(failed, param=failed.param and our_path(failed.param), fields=tuple(map(_our_field, failed.fields)))

    def _logprobs(self) -> dict[str, bytes | None]:
        """Return how chat is asked for log probabilities: whether, and separately how many."""
        lowered, asked = self._request.changes.get("logprobs"), self._request.fields.get("logprobs")
        if not isinstance(asked, int):
            return {"logprobs": None, "top_logprobs": None}
        most = encode(asked) if lowered is None else lowered
        return {"logprobs": b"true", "top_logprobs": None if most == b"0" else most}

    def _messages(self, prompt: bytes) -> bytes:
        files = self._request.fields.get("data")
        images = files.get("image") if isinstance(files, dict) else None
        if not isinstance(images, list) or not images:
            return b'[{"role":"user","content":' + prompt + b"}]"
        parts = [
            *({"type": "image_url", "image_url": {"url": url}} for url in images),
            {"type": "text", "text": msgspec.Raw(prompt)},
        ]
        return encode([{"role": "user", "content": parts}])

    def _joined(self, edits: Edits) -> Answer:
        choices: list[dict[str, object]] = []
        bill = Bill(edits)
        for place, (part, (_, chat)) in enumerate(zip(self._split.parts, self._taken, strict=True)):
            bill.note(place, chat.usage)
            given = enumerate(chat.choices or ())
            indexed = [(place_given if each.index is None else each.index, each) for place_given, each in given]
            for index, choice in sorted(indexed, key=lambda pair: pair[0]):
                choices.append(Text(part, place * self._split.choices + index).whole(choice))
        first, chat = self._taken[0]
        echo, parts = edits.tariff.echo(first.tier), len(self._taken)
        usage, shown = bill.usage(parts), bill.shown(parts, echo)
        members = {**head(edits, self._split, chat, echo), "choices": choices}
        produced = 0 if usage is not None else sum(output_bytes(each) for _, chat in self._taken for each in chat.choices or ())
        return Answer(
            body=encode(members if shown is None else {**members, "usage": shown}),
            usage=usage,
            tier=first.tier,
            output_bytes=produced,
        )


def prompts(request: InferenceRequest) -> list[bytes]:
    """Return the texts of a request's prompt as they stand in its body."""
    raw = request.members.value("prompt") or b"[]"
    return [bytes(text) for text in decode_texts(raw)] if raw.startswith(b"[") else [raw]


def our_path(path: str) -> str:
    """Return the client's name for a path into a chat request."""
    first = path.replace("[", ".").partition(".")[0]
    return OURS.get(first, path)


def _our_field(field: FieldError) -> FieldError:
    """Return a field error that points into the client's body: a prompt has nothing inside."""
    place = next((at for at, step in enumerate(field.loc) if step in OURS), None)
    return field if place is None else replace(field, loc=(*field.loc[:place], OURS[str(field.loc[place])]))
