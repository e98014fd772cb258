"""An OpenAI event stream on its way through: events framed, edits spliced in, everything else as it came.

Until something is said nothing goes out, so that the walk may still turn elsewhere (decision 18); from then on each event leaves
in the read that completes it. Comments, events that say nothing and what is no chunk are dropped. No timers, no retries. Pure.
"""

import msgspec
from msgspec import UNSET

from gateway.faults import Failed
from gateway.providers.chunks import Choice, Chunk, decode_chunk, output_bytes, speaks
from gateway.providers.editing import END, ChunkEditor
from gateway.providers.failures import failure_inside, listed_failure
from gateway.providers.framed import CUT, EMPTY, MALFORMED, NOTHING, NULL, Framed
from gateway.providers.protocol import Edits, Step
from gateway.providers.toolcalls import CallIndexes, Moves
from gateway.wire.members import Members, split
from gateway.wire.sse import MOST_EVENT_BYTES
from gateway.wire.usage import Usage, read_usage

END_MARK = b"[DONE]"
"""llama.cpp begins the stream of a list of prompts with one: nothing strange."""

EVERY_CHUNK = frozenset({"id", "object", "created", "model", "choices", "usage", "system_fingerprint"})
"""Members that by themselves say nothing: clients that look for a choice in every chunk fail on one without any."""

TO_CHOICES = b'{"choices":'

NO_MEMBERS = Members(b"", {})

decode = msgspec.json.Decoder().decode


class Progress:
    """How far the choices of a stream have come."""

    def __init__(self, choices: int) -> None:
        self.output_bytes = 0
        self.open: set[int] = set()
        """Choices that have said something and not ended."""
        self._ended: set[int] = set()
        self._calling: set[int] = set()
        self._choices = choices

    @property
    def begun(self) -> bool:
        """Return whether anything was said: the commit point."""
        return bool(self.open or self._ended)

    @property
    def finished(self) -> bool:
        """Return whether every choice has ended."""
        return not self.open and len(self._ended) >= self._choices

    def note(self, choices: list[Choice]) -> None:
        """Take in what a chunk says."""
        for choice in choices:
            index = choice.index or 0
            self.output_bytes += output_bytes(choice)
            if choice.delta is not None and choice.delta.tool_calls:
                self._calling.add(index)
            if choice.finish_reason:
                self._ended.add(index)
                self.open.discard(index)
            elif index not in self.open and index not in self._ended and speaks(choice):
                self.open.add(index)

    def missing_ends(self) -> list[tuple[int, str]]:
        """Return the choices without an end, with the reason that fits what they said."""
        return [(index, "tool_calls" if index in self._calling else "stop") for index in sorted(self.open)]


class OpenAIStream(Framed):
    """One stream's reader; see `gateway.providers.protocol.StreamReader`."""

    def __init__(self, edits: Edits, most_event_bytes: int = MOST_EVENT_BYTES, account: tuple[str, ...] = ()) -> None:
        super().__init__(most_event_bytes)
        self.usage: Usage | None = None
        self.tier: str | None = None
        self.finished = False
        self._edits = edits
        self._hidden = (edits.upstream_model, *account)
        self._progress = Progress(edits.choices)
        self._calls = CallIndexes()
        self._editor: ChunkEditor | None = None
        """There from the commit point on."""
        self._withheld: list[tuple[Members, Chunk, Moves]] = []
        self._finish: tuple[Members, Chunk, Moves] | None = None
        """The chunk that ends the stream, where it waits for the usage."""
        self._room_bytes = most_event_bytes
        self._out: list[bytes] = []
        self._last = b""
        self._is_told = False
        """The usage has gone out already."""
        self._usage_source = NO_MEMBERS
        self._usage_alone = False
        self._told_bytes = 0
        """Of the text, when the usage came."""

    @property
    def output_bytes(self) -> int:
        """Return the bytes of text so far, 0 where the usage tells of all of it."""
        produced = self._progress.output_bytes
        return 0 if self.usage is not None and produced == self._told_bytes else produced

    def end(self) -> Step:
        """Take the end of the body: close the stream properly, or say what is missing."""
        failed = self._events(self._framer.end(), CUT)
        if failed is CUT and self.finished:
            failed = None  # what was cut off stands behind the last word
        if failed is None and not self.done:
            # A last chunk with nothing but usage is proof enough of a normal end.
            ended = self._editor is not None and (self._progress.finished or self._usage_alone)
            failed = self._close() if ended else CUT if self._last or self._withheld else EMPTY
        return self._step(failed)

    def _event(self, payload: bytes) -> Failed | None:
        if payload.lstrip().startswith(END_MARK):
            return self._close()
        if b"\n" in payload:
            # A payload of several lines leaves as one: between tokens JSON takes any white space.
            payload = payload.replace(b"\n", b" ")
        editor = self._editor
        if editor is not None and payload.startswith(editor.head):
            rest = payload[len(editor.head) :]
            chunk = decode_chunk(TO_CHOICES + rest)
            if chunk.choices and self._is_ordinary(chunk, chunk.choices):
                self._note(chunk.choices)
                self._last = payload
                self._out.append(editor.edited_head + rest + END)
                return None
        return self._other_event(payload)

    def _is_ordinary(self, chunk: Chunk, choices: list[Choice]) -> bool:
        """Tell whether a chunk is one of the many in the middle: no edit behind the value of `choices`, no end, no error."""
        if chunk.usage is not None or chunk.id is not UNSET or chunk.service_tier is not UNSET or chunk.error:
            return False
        for choice in choices:
            said = choice.delta
            if choice.finish_reason is not None or (said and said.tool_calls and self._calls.needs_look(said.tool_calls)):
                return False
        return True

    def _other_event(self, payload: bytes) -> Failed | None:
        if not payload.lstrip().startswith(b"{"):
            if failed := listed_failure(payload, hidden=self._hidden):
                return failed
            # No chunk, whole or cut short: nothing of the answer is lost with it, and clients fail on it.
            self.strange_events += payload != NULL
            return None
        chunk = decode_chunk(payload)
        if chunk.is_error:
            return failure_inside(decode(payload), hidden=self._hidden)
        choices = chunk.choices or []
        members = split(payload)
        usage = read_usage(chunk.usage, self.usage, reasoning_outside=self._edits.reasoning_outside)
        if not choices and usage is None and members.raws.keys() <= EVERY_CHUNK:
            return None
        moves = self._calls.moves(choices)
        self._note(choices)
        self._note_tier(chunk.service_tier)
        if usage is not None:
            self.usage, self._usage_source, self._usage_alone = usage, members, not choices
            self._told_bytes = self._progress.output_bytes
        self._withheld.append((members, chunk, moves))
        if self._editor is None and not self._progress.begun:
            self._room_bytes -= len(payload)
            return None if self._room_bytes >= 0 else MALFORMED
        editor = self._release()
        if usage is not None and self._edits.usage_with_finish and self._progress.finished:
            self._tell_usage(editor)
        return None

    def _note(self, choices: list[Choice]) -> None:
        self._progress.note(choices)
        self.finished = self._progress.finished

    def _note_tier(self, word: object) -> None:
        """Take the upstream's word for the tier, if this is one: what goes out from here on names what it means."""
        if isinstance(word, str):
            self.tier = word
            if self._editor is not None:
                self._editor.turn(self._edits.tariff.echo(word))

    def _release(self) -> ChunkEditor:
        editor = self._editor
        if editor is None:
            ids = (chunk.id for _, chunk, _ in self._withheld)
            answer_id = next((found for found in ids if isinstance(found, str) and found), self._edits.id)
            editor = self._editor = ChunkEditor(self._edits, self._edits.tariff.echo(self.tier), answer_id)
        for members, chunk, moves in self._withheld:
            if chunk.usage is not None and not chunk.choices:
                continue
            if chunk.choices:
                self._last = members.body
            if self._edits.usage_on_finish and self._progress.finished and chunk.choices:
                self._let_go(None)
                self._finish = members, chunk, moves
            else:
                self._out.append(editor.event(members, chunk, moves))
        self._withheld.clear()
        return editor

    def _let_go(self, usage: bytes | None) -> None:
        """Send the chunk that waits, if one does."""
        if self._finish is not None and self._editor is not None:
            self._out.append(self._editor.event(*self._finish, usage))
            self._finish = None

    def _tell_usage(self, editor: ChunkEditor) -> None:
        """Tell the usage, once: on the chunk that waits for it, or on one of its own."""
        if self._is_told:
            self._let_go(None)
            return
        self._is_told = True
        self._let_go(editor.usage(self._usage_source, self.usage))
        if self.usage is not None and self._edits.show_usage:
            self._out.append(editor.usage_event(self._usage_source, self.usage, self._last))

    def _close(self) -> Failed | None:
        """End the stream as a whole one ends: every choice with a reason, the usage where it is shown, one end mark."""
        editor = self._editor
        if editor is None:
            return EMPTY
        if self._progress.open:
            if self.strange_events:
                # An end mark proves a normal end of what was understood; that may have been an error in plain words.
                return MALFORMED
            told = editor.usage(self._usage_source, self.usage) if self._edits.usage_on_finish else None
            self._out.append(editor.finish_event(self._last, self._progress.missing_ends(), told))
        self._tell_usage(editor)
        self._out.append(b"data: [DONE]\n\n")
        self.done = self.finished = True
        return None

    def _step(self, failed: Failed | None) -> Step:
        if self._editor is None:
            return NOTHING if failed is None else Step(failed=failed)
        if failed is not None:
            self._let_go(None)
        out = b"".join(self._out)
        self._out.clear()
        return Step(out=out, committed=True, failed=failed)
