"""What readers of event streams do alike: bytes become events, and each is taken until the last word is out. Pure."""

from abc import ABC, abstractmethod

import msgspec

from gateway.errors import InvalidJson, Unprocessable
from gateway.faults import Failed, Fault
from gateway.providers.protocol import Step
from gateway.wire.sse import Framer

MALFORMED = Failed(fault=Fault.PROTOCOL, status=200)
CUT = Failed(fault=Fault.RESET, status=200)
EMPTY = Failed(fault=Fault.BAD_ANSWER, status=200)
NOTHING = Step()
NULL = b"null"


class Framed(ABC):
    """The part of a `gateway.providers.protocol.StreamReader` that no dialect changes."""

    def __init__(self, most_event_bytes: int) -> None:
        self.done = False
        self.strange_events = 0
        self._framer = Framer(most_event_bytes)

    def feed(self, piece: bytes) -> Step:
        """Take bytes as they were read."""
        failed = self._events(self._framer.feed(piece), MALFORMED)
        if failed is None and self._framer.overflowed and not self.done:
            failed = MALFORMED
        return self._step(failed)

    def _events(self, payloads: list[bytes], malformed: Failed) -> Failed | None:
        for payload in payloads:
            if self.done:
                break
            try:
                failed = self._event(payload)
            except (msgspec.DecodeError, RecursionError, InvalidJson, Unprocessable):
                failed = malformed
            if failed is not None:
                return failed
        return None

    @abstractmethod
    def _event(self, payload: bytes) -> Failed | None:
        """Take one event; return what it breaks the stream with. Raises for what is no chunk."""

    @abstractmethod
    def _step(self, failed: Failed | None) -> Step:
        """Return what the events that were just taken led to."""
