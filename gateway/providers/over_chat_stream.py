"""The chat streams of a completions request as one stream of completions, a part for each prompt, one after the other.

Each part is read as any chat stream is: framing, commit point, ends and errors are the dialect's. What its reader lets out, which
is whole events, is turned into completions here. Pure.
"""

from collections.abc import Iterator

import msgspec
from msgspec.structs import replace

from gateway.faults import Failed
from gateway.policy.tiers import Echo
from gateway.providers.chunks import output_bytes
from gateway.providers.over_chat_answer import Bill, Split, head, total
from gateway.providers.over_chat_text import ChatChunk, Text, decode_chat
from gateway.providers.protocol import Dialect, Edits, Step
from gateway.wire.request import Endpoint
from gateway.wire.usage import Usage

BEGIN, END = b"data: ", b"\n\n"
END_MARK = b"[DONE]"

encode = msgspec.json.Encoder().encode


class OverChatStream:
    """The reader of all parts (a `PartsReader`)."""

    def __init__(self, edits: Edits, split: Split, dialect: Dialect) -> None:
        self.usage: Usage | None = None
        self.tier: str | None = None
        self.finished = False
        self.done = False
        self.part_done = False
        self.output_bytes = 0
        self.strange_events = 0
        self._edits = edits
        self._split = split
        self._dialect = dialect
        self._place = 0
        self._bill = Bill(edits)
        self._texts: dict[int, Text] = {}
        self._head = b""
        """There from the first event on."""
        self._first: ChatChunk | None = None
        self._echo: Echo | None = None
        self._kept = b""
        """What the end of one part has left to say, until the next is read."""
        self._before: Usage | None = None
        """The usage of the parts before this one."""
        self._strange_before = 0
        self._said_bytes = 0
        self._part = dialect.reader(self._part_edits())

    def feed(self, piece: bytes) -> Step:
        """Take bytes of the part that is being read."""
        return self._step(self._part.feed(piece))

    def end(self) -> Step:
        """Take the end of the last part's body."""
        return self._step(self._part.end())

    def turn(self) -> Failed | None:
        """Take the end of a part's body and turn to the next part; return what is missing, if anything is."""
        step = self._step(self._part.end())
        if step.failed is not None:
            return step.failed
        self._kept = step.out
        self._place += 1
        self._before = self._bill.usage(self._place)
        self._strange_before = self.strange_events
        self.part_done = False
        self._part = self._dialect.reader(self._part_edits())
        return None

    @property
    def _is_last(self) -> bool:
        return self._place == len(self._split.parts) - 1

    def _part_edits(self) -> Edits:
        """Return the edits of a part: its usage is always told, at the end or, of the last, where the client has it."""
        on_finish = self._edits.usage_on_finish and self._is_last
        return replace(
            self._edits, endpoint=Endpoint.CHAT, choices=self._split.choices, show_usage=not on_finish, usage_on_finish=on_finish
        )

    def _step(self, step: Step) -> Step:
        if step.committed and not self._place:
            self.tier = self._part.tier
        out = self._kept + b"".join(self._translated(step.out))
        self._kept = b""
        self.strange_events = self._strange_before + self._part.strange_events
        self.finished = self._is_last and self._part.finished
        self._count()
        return Step(out=out, committed=step.committed or self._place > 0, failed=step.failed)

    def _count(self) -> None:
        """Take note of what is known of the usage: that of the parts before and of this one, which may have stated it by now."""
        before, part = self._before, self._part
        known = [found for found in (before, part.usage) if found is not None]
        # A part that speaks and states nothing leaves all of it unknown, and so does one before that never stated any.
        told = bool(known) and (before is not None or not self._place) and (part.usage is not None or not part.output_bytes)
        self.usage = total(known) if told else None
        self.output_bytes = self._said_bytes if part.output_bytes or not told else 0

    def _translated(self, events: bytes) -> Iterator[bytes]:
        for event in events.split(END)[:-1]:
            payload = event[len(BEGIN) :]
            if payload != END_MARK:
                yield from self._event(decode_chat(payload))
            elif self._is_last:
                yield from self._last_words()
            else:
                self.part_done = True

    def _event(self, chunk: ChatChunk) -> Iterator[bytes]:
        if not self._place:
            self._note_tier(chunk)
        self._bill.note(self._place, chunk.usage)
        usage = None if chunk.usage is None else self._shown()
        found: list[dict[str, object]] = []
        for choice in chunk.choices or ():
            self._said_bytes += output_bytes(choice)
            text = self._text(choice.index or 0)
            delta = text.delta(choice)
            if delta is not None:
                if (opening := text.opening()) is not None:
                    yield self._chunk([opening], None)
                found.append(delta)
        if found:
            yield self._chunk(found, usage)

    def _note_tier(self, chunk: ChatChunk) -> None:
        """Name from here on what a chunk of the first part names: its word counts, and not that of one behind it in the read."""
        echo = self._edits.tariff.echoes.naming(chunk.service_tier)
        if not self._head or echo != self._echo:
            self._first, self._echo = self._first or chunk, echo
            self._head = BEGIN + encode(head(self._edits, self._split, self._first, echo))[:-1] + b',"choices":'

    def _last_words(self) -> Iterator[bytes]:
        usage = self._shown()
        if usage is not None and self._edits.show_usage:
            yield self._chunk([], usage)
        yield BEGIN + END_MARK + END
        self.done = True

    def _chunk(self, choices: list[dict[str, object]], usage: msgspec.Raw | None) -> bytes:
        told = b"" if usage is None and not self._edits.show_usage else b',"usage":' + encode(usage)
        return self._head + encode(choices) + told + b"}" + END

    def _shown(self) -> msgspec.Raw | None:
        return self._bill.shown(self._place + 1, self._echo)

    def _text(self, index: int) -> Text:
        place = self._place * self._split.choices + index
        found = self._texts.get(place)
        if found is None:
            found = self._texts[place] = Text(self._split.parts[self._place], place)
        return found
