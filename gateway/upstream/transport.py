"""The seam to upstreams: open an exchange, read its reply. Two implementations, one contract suite.

Times are seconds. No method retries but for a connection that was stale before anything was sent on it.
"""

from typing import Protocol

import msgspec

from gateway.errors import Fault


class TransportError(Exception):
    """An exchange that broke. `sent` says whether any byte of the request may have reached the peer."""

    def __init__(self, fault: Fault, message: str, *, sent: bool) -> None:
        super().__init__(message)
        self.fault = fault
        self.sent = sent


class Outgoing(msgspec.Struct, frozen=True, kw_only=True):
    """A POST as it leaves. `headers` lack host and content-length, which the transport owns."""

    path: str
    headers: tuple[tuple[bytes, bytes], ...]
    body: bytes


class Reply(Protocol):
    """A reply whose head is in. Closing it early gives up its connection; reading it to the end gives it back to the pool."""

    status: int
    headers: list[tuple[bytes, bytes]]
    """Names in lower case, in order, doubles kept."""

    async def read(self, limit_bytes: int) -> bytes:
        """Return the whole body. Raises `TransportError` (`PROTOCOL` beyond the limit, `RESET` when it breaks off)."""
        ...

    async def next(self) -> bytes:
        """Return the next piece as it was read, b"" at the end. Raises `TransportError` when the body breaks off."""
        ...

    def close(self) -> None:
        """Let go at once, without waiting: idempotent, safe after the end and while a read is cancelled."""
        ...


class Transport(Protocol):
    """One origin. Cancellation-safe: a cancelled `open` leaves no slot taken and no connection half open in the pool."""

    async def open(self, outgoing: Outgoing) -> Reply:
        """Send the request and return when the reply's head is in. Raises `TransportError`."""
        ...

    async def aclose(self) -> None:
        """Close every connection."""
        ...
