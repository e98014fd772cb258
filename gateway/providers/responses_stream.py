"""A stream of the Responses API on its way through: events framed, each response in them edited, the rest as it came.

Until something is said nothing goes out (decision 18). Such a stream has no end mark: it is whole with the response that is
complete, or incomplete, and nothing follows. Keep-alives are dropped as comments are. Pure.
"""

import re

import msgspec

from gateway.faults import Failed
from gateway.providers.failures import failure_inside, listed_failure
from gateway.providers.framed import CUT, EMPTY, MALFORMED, NOTHING, NULL, Framed
from gateway.providers.protocol import Edits, Step
from gateway.providers.responses import Item, Response, failure_in, item_bytes, output_bytes, part_bytes, show, text_bytes
from gateway.wire.members import splice, split
from gateway.wire.sse import MOST_EVENT_BYTES
from gateway.wire.usage import Usage

NAME = re.compile(r"[a-z][a-z0-9_.]{0,95}")
"""What an event may be called: a name is a line of its own."""

BEGINNINGS = frozenset({"response.created", "response.queued", "response.in_progress"})
"""What comes before anything is said, each once: llama.cpp repeats them at every token, where clients would begin anew."""

ENDS = frozenset({"response.completed", "response.incomplete"})
"""The last event of an answer, cut off or not."""

FAILURES = frozenset({"error", "response.failed", "response.cancelled"})
SILENT = frozenset({"keepalive", "ping"})

WORDLESS = frozenset({"message", "reasoning"})
"""Items that are announced before they say anything."""


class Event(msgspec.Struct, gc=False):
    """One event, as far as the gateway reads it."""

    type: str | None = None
    sequence_number: object = None
    response: Response | None = None
    delta: object = None
    item: Item | None = None
    part: object = None


decode = msgspec.json.Decoder(Event).decode
decode_any = msgspec.json.Decoder().decode


def speaks(event: Event) -> bool:
    """Return whether an event has content: the commit point."""
    if event.item is not None:
        return event.item.type not in WORDLESS or item_bytes(event.item) > 0
    return bool(event.delta) or part_bytes(event.part) > 0


class ResponsesStream(Framed):
    """One stream's reader; see `gateway.providers.protocol.StreamReader`."""

    def __init__(self, edits: Edits, most_event_bytes: int = MOST_EVENT_BYTES, account: tuple[str, ...] = ()) -> None:
        super().__init__(most_event_bytes)
        self.usage: Usage | None = None
        self.tier: str | None = None
        self.finished = False
        self._edits = edits
        self._hidden = (edits.upstream_model, *account)
        self._begun = False
        self._beginnings: set[str] = set()
        """Of `BEGINNINGS`, those that came."""
        self._committed = False
        self._room_bytes = most_event_bytes
        self._out: list[bytes] = []
        """Withheld up to the commit point."""
        self._next_number = 0
        self._said_bytes = 0

    @property
    def output_bytes(self) -> int:
        """Return the bytes of text so far, 0 where the usage tells of all of it."""
        return self._said_bytes if self.usage is None else 0

    def end(self) -> Step:
        """Take the end of the body, which is none of the answer's."""
        failed = self._events(self._framer.end(), CUT)
        if failed is None and not self.done:
            failed = CUT if self._begun else EMPTY
        return self._step(failed)

    def _event(self, payload: bytes) -> Failed | None:
        if not payload.lstrip().startswith(b"{"):
            if failed := listed_failure(payload, hidden=self._hidden):
                return failed
            self.strange_events += payload != NULL
            return None
        # A payload of several lines leaves as one: between tokens JSON takes any white space.
        payload = payload.replace(b"\n", b" ")
        event = decode(payload)
        kind = event.type or "error"
        if kind in FAILURES:
            return self._failure(payload, kind)
        if kind in SILENT:
            return None
        if not NAME.fullmatch(kind) or (kind in BEGINNINGS and (self._committed or kind in self._beginnings)):
            self.strange_events += 1
            return None
        if kind in ENDS and event.response is None:
            return MALFORMED
        self._begun = True
        self._beginnings |= BEGINNINGS & {kind}
        self._take(payload, kind, event)
        if not self._committed:
            self._room_bytes -= len(payload)
            return None if self._room_bytes >= 0 else MALFORMED
        return None

    def _failure(self, payload: bytes, kind: str) -> Failed:
        """Name what a failure means, which an event of its own tells in the response."""
        said = decode_any(payload)
        if kind == "error":
            return failure_inside(said, hidden=self._hidden)
        response = said.get("response")
        return failure_in(response.get("error") if isinstance(response, dict) else None, self._hidden)

    def _take(self, payload: bytes, kind: str, event: Event) -> None:
        """Put an event out as the client gets it, and take note of what it tells."""
        self._said_bytes += text_bytes(event.delta)
        if event.response is not None:
            payload = self._shown(payload, event.response)
        self._out.append(b"event: %b\ndata: %b\n\n" % (kind.encode(), payload))
        number = event.sequence_number
        self._next_number = number + 1 if type(number) is int else self._next_number + 1
        self.done = self.finished = kind in ENDS
        self._committed = self._committed or self.done or speaks(event)

    def _shown(self, payload: bytes, response: Response) -> bytes:
        members = split(payload)
        shown = show(members.value("response") or b"{}", response, self._edits, self.tier)
        self.tier = shown.tier
        if shown.usage is not None:
            self.usage = shown.usage
        self._said_bytes = self._said_bytes or output_bytes(response)
        return splice(members, {"response": shown.body})

    def _step(self, failed: Failed | None) -> Step:
        if not self._committed:
            return NOTHING if failed is None else Step(failed=failed)
        out = b"".join(self._out)
        self._out.clear()
        return Step(out=out, committed=True, failed=failed, next_number=self._next_number)
