"""The seam to upstreams: open an exchange, read its reply. Two implementations, one contract suite.

Times are seconds; a deadline is a moment of the monotonic clock. No method repeats a request: a pooled connection that is seen to
be closed before anything was written on it is passed over, and any loss after that is a fault with `sent=True`. Redirects are
replies like any other.
"""

import math
from collections.abc import Callable
from typing import Protocol

import msgspec

from gateway.faults import Fault


class TransportError(Exception):
    """An exchange that broke. `sent` says whether any byte of the request may have reached the peer.

    `CONNECT` covers the wait for a connection too; `WRITE` is a peer that does not take the request in time; `TIMEOUT` is the
    caller's own deadline.
    """

    def __init__(self, fault: Fault, message: str, *, sent: bool) -> None:
        super().__init__(message)
        self.fault = fault
        self.sent = sent


class Outgoing(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """A POST as it leaves.

    `path` is appended to the path of the base URL. `headers` lack host, content-length and accept-encoding, which the transport
    owns: it asks for identity, so that every event of a stream arrives when it is sent.
    """

    path: str
    headers: tuple[tuple[bytes, bytes], ...]
    body: bytes

    def __repr__(self) -> str:
        return f"Outgoing({self.path}, {len(self.body)} bytes)"


class Occupancy(msgspec.Struct, frozen=True, kw_only=True):
    """What a transport holds at this moment. At rest `busy` and `waiting` are 0, or something has leaked."""

    busy: int
    """Connections that carry an exchange or are being made."""
    idle: int
    """Connections kept for reuse; 0 where the client does not tell."""
    waiting: int
    """Callers that wait for a connection."""


class Reply(Protocol):
    """A reply whose head is in. Closing it early gives up its connection; a complete one goes back to the pool."""

    status: int
    headers: list[tuple[bytes, bytes]]
    """Names in lower case, in order, doubles kept. Of a decoded body, without content-encoding and content-length."""
    deadline_s: float
    """When the exchange fails with `TIMEOUT`, to a tenth of a second. The reader moves it before each wait."""

    async def read(self, limit_bytes: int) -> bytes:
        """Return the whole body. Raises `TransportError` (`PROTOCOL` beyond the limit, `RESET` when it breaks off)."""
        ...

    async def next(self) -> bytes:
        """Return all that has arrived since the last call, b"" at the end. Raises `TransportError` when the body breaks off."""
        ...

    def close(self) -> None:
        """Let go at once, without waiting: idempotent, safe after the end and while a read is cancelled."""
        ...


async def read_whole(reply: Reply, limit_bytes: int) -> bytes:
    """Return all that `next` gives, as a `Reply`'s `read`. Raises `TransportError`."""
    pieces: list[bytes] = []
    size_bytes = 0
    while piece := await reply.next():
        pieces.append(piece)
        size_bytes += len(piece)
        if size_bytes > limit_bytes:
            reply.close()
            raise too_large(limit_bytes)
    return b"".join(pieces)


def too_large(limit_bytes: int) -> TransportError:
    """Return the fault of a body that passes the reader's limit."""
    return TransportError(Fault.PROTOCOL, f"the body is larger than {limit_bytes} bytes", sent=True)


class Transport(Protocol):
    """One origin. Cancellation-safe: a cancelled `open` leaves no slot taken and no connection half open in the pool."""

    async def open(self, outgoing: Outgoing, deadline_s: float = math.inf, on_sent: Callable[[], None] | None = None) -> Reply:
        """Send the request and return when the reply's head is in. Raises `TransportError`.

        `on_sent` is called when the request begins to leave: from then on the peer may be at work on it.
        """
        ...

    def occupancy(self) -> Occupancy:
        """Return what is held now."""
        ...

    async def aclose(self) -> None:
        """Close every connection; exchanges under way fail."""
        ...
