"""One reply on its way in, as the caller holds it.

It buffers the body, tells its connection when to stop reading and when to go on, and remembers how the reply ended. A complete
reply outlives its connection's return to the pool; what arrived before a loss is read before the loss is told. Sizes are bytes.
"""

import asyncio
from typing import Protocol

from gateway.faults import Fault
from gateway.upstream.transport import TransportError, too_large

HIGH_WATER_BYTES = 256 * 1024
"""Unread body above which reading pauses. A read takes all that is buffered, so reading resumes from zero."""


class Source(Protocol):
    """What a reply comes from."""

    def resume(self) -> None:
        """Read on, if reading had stopped."""
        ...

    def close(self) -> None:
        """Give the connection up."""
        ...


class Exchange:
    """One reply on its way in (a `Reply`)."""

    __slots__ = (
        "_complete",
        "_connection",
        "_error",
        "_pieces",
        "_unread_bytes",
        "_waiter",
        "_wake_above",
        "deadline_s",
        "headers",
        "status",
    )

    def __init__(self, connection: Source, deadline_s: float) -> None:
        self.status = 0
        self.headers: list[tuple[bytes, bytes]] = []
        self.deadline_s = deadline_s
        self._connection: Source | None = connection
        self._complete = False
        self._error: TransportError | None = None
        self._pieces: list[bytes] = []
        self._unread_bytes = 0
        self._wake_above = 0
        self._waiter: asyncio.Future[None] | None = None

    async def head(self) -> None:
        """Wait until status and headers are in. Raises `TransportError`."""
        while not self.status:
            await self._progress()

    async def read(self, limit_bytes: int) -> bytes:
        """Return the whole body, waking once. Raises `TransportError`."""
        self._wake_above = limit_bytes
        while not self._complete and self._unread_bytes <= limit_bytes:
            await self._progress()
        if self._unread_bytes > limit_bytes:
            self.close()
            raise too_large(limit_bytes)
        return self._take()

    async def next(self) -> bytes:
        """Return what has arrived since the last call, b"" at the end. Raises `TransportError` after the last of it."""
        self._wake_above = 0
        while not self._pieces and not self._complete:
            await self._progress()
        return self._take()

    def close(self) -> None:
        """Let go at once. A reply that is not complete takes its connection with it."""
        connection = self._connection
        self._pieces.clear()
        self._unread_bytes = 0
        self._complete = False
        self.fail(TransportError(Fault.RESET, "the reply was closed", sent=True))
        if connection is not None:
            connection.close()

    def arrive(self, piece: bytes) -> bool:
        """Take a piece of the body. Return whether enough is unread to stop reading."""
        self._pieces.append(piece)
        self._unread_bytes += len(piece)
        if self._unread_bytes > self._wake_above:
            self.wake()
        return self._unread_bytes > max(HIGH_WATER_BYTES, self._wake_above)

    def finish(self) -> None:
        """Take the end of the reply."""
        self._complete = True
        self._connection = None
        self.wake()

    def fail(self, error: TransportError) -> None:
        """Take the loss of the reply; the first loss is the one that counts."""
        self._connection = None
        self._error = self._error or error
        self.wake()

    def wake(self) -> None:
        """Let the reader look again."""
        waiter, self._waiter = self._waiter, None
        if waiter is not None and not waiter.done():
            waiter.set_result(None)

    async def _progress(self) -> None:
        if self._error is not None:
            raise self._error
        if self._connection is not None:
            self._connection.resume()
        self._waiter = asyncio.get_running_loop().create_future()
        await self._waiter

    def _take(self) -> bytes:
        pieces = self._pieces
        taken = pieces[0] if len(pieces) == 1 else b"".join(pieces)
        pieces.clear()
        self._unread_bytes = 0
        return taken
