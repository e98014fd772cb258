"""Messages by a provider that has chat alone: the request as one of chat, its answer as a message. Pure.

Framing, commit point, ends and errors of a stream are the dialect's. What its reader lets out, which is whole events, becomes
Anthropic's events here, so that where reads are cut changes nothing.
"""

from collections.abc import Iterable, Iterator, Mapping

import msgspec
from msgspec.structs import replace

from gateway.errors import InvalidJson
from gateway.faults import Failed, FieldError
from gateway.policy.catalogue import Deployment
from gateway.providers.call_ids import owner_of
from gateway.providers.messages_answer import ChatChoice, beginning, decode, end_of, thought_of, whole
from gateway.providers.messages_blocks import Blocks, event
from gateway.providers.messages_request import chat_body
from gateway.providers.messages_turns import Listener
from gateway.providers.messages_words import usage_object
from gateway.providers.over_chat_text import said_text
from gateway.providers.protocol import Answer, Call, Dialect, Edits, Step
from gateway.wire.members import split
from gateway.wire.request import Endpoint, InferenceRequest
from gateway.wire.usage import Usage

BEGIN, END = b"data: ", b"\n\n"
END_MARK = b"[DONE]"

OURS: Mapping[str, str] = {
    "stop": "stop_sequences",
    "user": "metadata.user_id",
    "reasoning_effort": "thinking",
    "response_format": "output_config.format",
    "max_completion_tokens": "max_tokens",
    "messages": "messages",
}
"""The client's field behind one of chat; of places inside those nothing is the same."""


class MessagesOverChat:
    """One Messages request as chat, and its answer as a message (a `Translation`)."""

    def __init__(self, request: InferenceRequest, deployment: Deployment, dialect: Dialect) -> None:
        self._request = request
        self._provider = deployment.provider
        self._owner = owner_of(deployment.provider)
        self._dialect = dialect
        self._dropped: tuple[str, ...] = ()

    def requests(self) -> Iterator[InferenceRequest]:
        """Yield the one request of chat. Raises `InvalidJson` for what only looked like JSON as long as nobody looked into it."""
        try:
            chat = chat_body(self._request, Listener(self._provider.quirks.reasoning_back, self._owner))
        except (msgspec.DecodeError, RecursionError):
            raise InvalidJson("The body holds a number beyond all bounds, or is nested too deeply") from None
        self._dropped = chat.dropped
        yield replace(self._request, endpoint=Endpoint.CHAT, members=split(chat.body), fields={}, changes={})

    def call(self, calls: Iterable[Call]) -> Call:
        """Return the call of the one request."""
        (only,) = calls
        return replace(only, dropped=self._dropped + only.dropped, translation=self)

    def take(self, body: bytes, edits: Edits) -> Answer | Failed:
        """Take the complete 2xx body."""
        answer = self._dialect.answer(body, _chat_edits(edits))
        return self.failed(answer) if isinstance(answer, Failed) else whole(answer, edits, self._stops, self._owner)

    def reader(self, edits: Edits) -> "MessagesOverChatStream":
        """Return a fresh reader for the stream."""
        return MessagesOverChatStream(edits, self._stops, self._dialect, self._owner)

    def failed(self, failed: Failed) -> Failed:
        """Return a failure in the words of Messages."""
        fields = tuple(map(_our_field, failed.fields))
        return replace(failed, param=failed.param and _our_path(failed.param), fields=fields)

    @property
    def _stops(self) -> list[object]:
        found = self._request.fields.get("stop_sequences")
        return found if isinstance(found, list) else []


class MessagesOverChatStream:
    """The reader of a chat stream as one of Messages (a `PartsReader` of one part)."""

    part_done = False

    def __init__(self, edits: Edits, stops: list[object], dialect: Dialect, owner: str) -> None:
        self.usage: Usage | None = None
        self.tier: str | None = None
        self.finished = False
        self.done = False
        self.output_bytes = 0
        self.strange_events = 0
        self._edits = edits
        self._stops = stops
        self._chat = dialect.reader(_chat_edits(edits))
        self._blocks = Blocks(edits.id, owner)
        self._begun = False
        self._refused = False
        self._last = ChatChoice()
        """The choice that said how the answer ended."""

    def feed(self, piece: bytes) -> Step:
        """Take bytes as they were read."""
        return self._step(self._chat.feed(piece))

    def end(self) -> Step:
        """Take the end of the body."""
        return self._step(self._chat.end())

    def turn(self) -> None:
        """Never called: there is no further part."""

    def _step(self, step: Step) -> Step:
        chat = self._chat
        self.usage, self.tier, self.finished = chat.usage, chat.tier, chat.finished
        self.output_bytes, self.strange_events = chat.output_bytes, chat.strange_events
        return Step(out=b"".join(self._translated(step.out)), committed=step.committed, failed=step.failed)

    def _translated(self, events: bytes) -> Iterator[bytes]:
        for each in events.split(END)[:-1]:
            payload = each[len(BEGIN) :]
            if payload == END_MARK:
                yield from self._last_words()
                continue
            chunk = decode(payload)
            if not self._begun:
                # The word of this chunk counts, and not that of one behind it in the same read.
                self._begun, echo = True, self._edits.tariff.echoes.naming(chunk.service_tier)
                yield event("message_start", message=beginning(self._edits, echo))
            for choice in chunk.choices or ():
                self._note(choice)
            yield from self._blocks.told()

    def _note(self, choice: ChatChoice) -> None:
        if thought := thought_of(choice):
            self._blocks.think(thought)
        if text := said_text(choice):
            self._blocks.say(text)
        self._refused = self._refused or bool(choice.delta and choice.delta.refusal)
        for fragment in (choice.delta and choice.delta.tool_calls) or ():
            self._blocks.call(fragment)
        if choice.finish_reason is not None:
            self._last = choice

    def _last_words(self) -> Iterator[bytes]:
        yield from self._blocks.rest()
        said = "tool_use" if self._blocks.called else "refusal" if self._refused else None
        reason, sequence = end_of(self._last, self._stops, said)
        usage = usage_object(self.usage, self._edits, self._edits.tariff.echo(self.tier))
        yield event("message_delta", delta={"stop_reason": reason, "stop_sequence": sequence}, usage=usage)
        yield event("message_stop")
        self.done = True


def _chat_edits(edits: Edits) -> Edits:
    """Return the edits of the chat answer: its usage is read from its reader."""
    return replace(edits, endpoint=Endpoint.CHAT, show_usage=False, running_usage=False, usage_on_finish=False)


def _our_path(path: str) -> str:
    return OURS.get(path.replace("[", ".").partition(".")[0], path)


def _our_field(field: FieldError) -> FieldError:
    """Return a field error that points into the client's body."""
    place = next((at for at, step in enumerate(field.loc) if step in OURS), None)
    return field if place is None else replace(field, loc=(*field.loc[:place], OURS[str(field.loc[place])]))
