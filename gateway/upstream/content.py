"""Undo a content coding that nobody asked for.

Replies are asked for as they are; a peer that sends gzip all the same is understood, anything else is a protocol error. The
expansion is bounded: a piece never grows beyond `PIECE_LIMIT_BYTES`, whatever it was before. RFC 9110, 8.4.
"""

import zlib

from gateway.faults import Fault
from gateway.upstream.transport import Reply, TransportError, read_whole

PIECE_LIMIT_BYTES = 256 * 1024
"""What one piece may expand to; the rest waits for the next read. As much as a connection buffers unread."""

GZIP_WINDOW_BITS = 16 + zlib.MAX_WBITS
"""zlib's way to say: with a gzip header and trailer."""


class Gunzip:
    """An incremental decoder of one or more gzip members. Pure."""

    def __init__(self) -> None:
        self._member = zlib.decompressobj(GZIP_WINDOW_BITS)
        self._pending = b""
        self._started = False

    @property
    def has_more(self) -> bool:
        """Say whether `feed` can give more without being given more."""
        return bool(self._pending)

    @property
    def is_whole(self) -> bool:
        """Say whether what was fed so far is complete: nothing at all, or members up to their trailers."""
        return not self._pending and (self._member.eof or not self._started)

    def feed(self, data: bytes) -> bytes:
        """Return at most `PIECE_LIMIT_BYTES` of what is known so far. Raises `zlib.error`."""
        pending = self._pending + data
        self._started = self._started or bool(pending)
        if self._member.eof and pending:
            self._member = zlib.decompressobj(GZIP_WINDOW_BITS)
        out = self._member.decompress(pending, PIECE_LIMIT_BYTES)
        self._pending = self._member.unconsumed_tail or self._member.unused_data
        return out


class Gunzipped:
    """A reply whose body was gzip (a `Reply`)."""

    def __init__(self, reply: Reply) -> None:
        self._reply = reply
        self._gunzip = Gunzip()
        self.status = reply.status
        self.headers = [header for header in reply.headers if header[0] not in (b"content-encoding", b"content-length")]

    @property
    def deadline_s(self) -> float:
        """Return when the exchange fails."""
        return self._reply.deadline_s

    @deadline_s.setter
    def deadline_s(self, moment_s: float) -> None:
        self._reply.deadline_s = moment_s

    async def read(self, limit_bytes: int) -> bytes:
        """Return the whole body, decoded; the limit is that of the decoded body. Raises `TransportError`."""
        return await read_whole(self, limit_bytes)

    async def next(self) -> bytes:
        """Return the next decoded piece, b"" at the end. Raises `TransportError`."""
        while True:
            data = b"" if self._gunzip.has_more else await self._reply.next()
            if not data and not self._gunzip.has_more:
                if self._gunzip.is_whole:
                    return b""
                raise self._broken("the gzip body is cut short")
            try:
                piece = self._gunzip.feed(data)
            except zlib.error as error:
                raise self._broken("the body is not gzip as announced") from error
            if piece:
                return piece

    def close(self) -> None:
        """Let go at once."""
        self._reply.close()

    def _broken(self, reason: str) -> TransportError:
        self.close()
        return TransportError(Fault.PROTOCOL, reason, sent=True)


def decoded(reply: Reply) -> Reply:
    """Return a reply whose body is in identity coding. Raises `TransportError` (`PROTOCOL`) for a coding it does not know."""
    for name, _ in reply.headers:
        if name == b"content-encoding":
            return _decoded(reply)
    return reply


def _decoded(reply: Reply) -> Reply:
    coding = b",".join(value for name, value in reply.headers if name == b"content-encoding").strip().lower()
    if coding in (b"", b"identity"):
        return reply
    if coding in (b"gzip", b"x-gzip"):
        return Gunzipped(reply)
    reply.close()
    raise TransportError(Fault.PROTOCOL, "the body has a content coding that was not asked for", sent=True)
