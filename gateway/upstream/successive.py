"""The replies to several calls that make one stream: each call is made when the reply before has ended, never two at once.

The reader of the streams sees each of them to its end and says what it was missing; here it is turned to the next. Seconds.
"""

from collections.abc import Awaitable, Callable

import msgspec

from gateway.faults import Failed, Fault
from gateway.providers.protocol import PartsReader
from gateway.upstream.transport import Reply, TransportError, read_whole

LINGER_S = 0.25
"""How long the end of a part's body is waited for behind its end mark; a connection that has not come to it is given up."""


class Calls(msgspec.Struct, frozen=True):
    """The calls that are still to be made: their bodies, and how one is made."""

    bodies: tuple[bytes, ...]
    make: Callable[[bytes], Awaitable[Reply | Failed]]
    """Returns the reply, or why it is no stream. Raises `TransportError`."""
    now_s: Callable[[], float]


class Successive:
    """The replies as one (a `Reply`)."""

    def __init__(self, reply: Reply, reader: PartsReader, calls: Calls) -> None:
        self.status = reply.status
        self.headers = reply.headers
        self._reply = reply
        self._reader = reader
        self._calls = calls
        self._following = iter(calls.bodies)
        self._left = len(calls.bodies)

    @property
    def deadline_s(self) -> float:
        """Return when the exchange that is under way fails."""
        return self._reply.deadline_s

    @deadline_s.setter
    def deadline_s(self, moment_s: float) -> None:
        self._reply.deadline_s = moment_s

    async def read(self, limit_bytes: int) -> bytes:
        """Return the bodies, one behind the other. Raises `TransportError`."""
        return await read_whole(self, limit_bytes)

    async def next(self) -> bytes:
        """Return the next piece of the body that is under way, b"" at the end of the last. Raises `TransportError`."""
        while True:
            if self._reader.part_done:
                await self._see_out()
            elif (piece := await self._reply.next()) or not self._left:
                return piece
            missing = self._reader.turn()
            if missing is not None:
                raise _broken(missing.fault)
            self._left -= 1
            following = await self._calls.make(next(self._following))
            if isinstance(following, Failed):
                raise _broken(following.fault)
            self._reply = following

    def close(self) -> None:
        """Let go of the exchange that is under way; nothing follows it."""
        self._reply.close()

    async def _see_out(self) -> None:
        self._reply.deadline_s = self._calls.now_s() + LINGER_S
        try:
            while await self._reply.next():
                pass
        except TransportError:
            self._reply.close()  # the part is whole: only its connection is lost


def _broken(fault: Fault) -> TransportError:
    return TransportError(fault, "a later part of the answer failed", sent=True)
