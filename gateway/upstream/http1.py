"""One HTTP/1.1 connection: it writes a request and parses the reply into the exchange that the caller holds.

It holds the peer to the protocol: one reply per request, a bounded head, nothing unasked. It never repeats a request, follows a
redirect or decodes content. Sizes are bytes, times are seconds of the monotonic clock. RFC 9112.
"""

import asyncio
import math
import re
import select
import socket
import time
from typing import Protocol, cast

import httptools

from gateway.faults import Fault
from gateway.upstream.exchange import Exchange
from gateway.upstream.origin import Origin
from gateway.upstream.transport import Outgoing, TransportError

MAX_IDLE_S = 55.0
"""A connection that rested longer is closed: just before the 60 s after which the common cloud load balancers do the same."""

OFFER = re.compile(rb"(?:^|[ \t,;])timeout[ \t]*=[ \t]*\"?(\d{1,9})", re.IGNORECASE)
"""For how many seconds a server says that it keeps a connection, in `Keep-Alive` (RFC 2068, 19.7.1.1)."""

OFFER_MARGIN_S = 1.0
"""A connection that the server is about to close may take a request that nobody reads: it is given up so long before."""

HEAD_LIMIT_BYTES = 64 * 1024
"""The most that may arrive without bringing body: a head with its interim replies, chunk framing, trailers."""

JOIN_LIMIT_BYTES = 64 * 1024
"""A body up to this size is copied behind its head, so that both leave in one write."""


KEPT_HEADS = 64
"""A provider is sent the same headers again and again: that many heads are kept as they are written."""


class Home(Protocol):
    """Where a connection belongs."""

    def keep(self, connection: "Connection") -> None:
        """Take back a connection whose exchange has ended in good order."""
        ...

    def lose(self, connection: "Connection") -> None:
        """Forget a connection that has closed, whoever closed it."""
        ...


class Connection(asyncio.Protocol):
    """One connection. It is idle, or carries one exchange, or is closed for good."""

    def __init__(self, home: Home, write_s: float) -> None:
        self.closed = False
        self.used = False
        self.rested_since_s = 0.0
        self.rest_s = MAX_IDLE_S
        """How long it may rest: less where the server says that it keeps it for less."""
        self._home = home
        self._write_s = write_s
        self._write_deadline_s = math.inf
        self._transport: asyncio.Transport
        self._probe = select.poll()
        self._parser = httptools.HttpResponseParser(self)
        self._exchange: Exchange | None = None
        self._arrived: list[bytes] = []
        self._bodiless_bytes = 0
        self._complete = False
        self._keep_alive = False
        self._paused = False

    def send(self, head: bytes, body: bytes, deadline_s: float) -> Exchange:
        """Write a request and return the exchange that waits for its reply."""
        exchange = self._exchange = Exchange(self, deadline_s)
        self.used = True
        self._complete = False
        self._bodiless_bytes = 0
        if len(body) <= JOIN_LIMIT_BYTES:
            self._transport.write(head + body)
        else:
            self._transport.write(head)
            self._transport.write(body)
        return exchange

    def is_stale(self) -> bool:
        """Say whether an idle connection has ended or holds bytes that nobody asked for, seen by the loop or not.

        On one that was never used the bytes are those of TLS itself, the tickets that follow the handshake.
        """
        return self.closed or self._transport.is_closing() or (self.used and bool(self._probe.poll(0)))

    def expire(self, now_s: float) -> None:
        """Fail the exchange if it is overdue."""
        exchange = self._exchange
        if exchange is None:
            return
        if exchange.deadline_s <= now_s:
            self.fail(TransportError(Fault.TIMEOUT, "the deadline passed", sent=True))
        elif self._write_deadline_s <= now_s:
            self.fail(TransportError(Fault.WRITE, f"the request was not taken within {self._write_s:g} s", sent=True))

    @property
    def rests_until_s(self) -> float:
        """Return when an idle connection is to be given up."""
        return self.rested_since_s + self.rest_s

    def resume(self) -> None:
        """Read on, the reader has caught up."""
        if self._paused:
            self._paused = False
            self._transport.resume_reading()

    def fail(self, error: TransportError) -> None:
        """End the exchange with an error, and the connection with it."""
        if self._exchange is not None:
            self._exchange.fail(error)
        self.close()

    def close(self) -> None:
        """Give the connection up at once; idempotent."""
        if self.closed:
            return
        self.closed = True
        self._exchange = None
        self._transport.abort()
        del self._parser  # it refers back to the connection
        self._home.lose(self)

    # asyncio.Protocol

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Take the transport, TLS already done."""
        self._transport = cast(asyncio.Transport, transport)
        self.rested_since_s = time.monotonic()
        sock = transport.get_extra_info("socket")
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._probe.register(sock.fileno(), select.POLLIN)

    def data_received(self, data: bytes) -> None:
        """Parse what came in this turn of the loop; its body is one piece."""
        exchange = self._exchange
        if exchange is None:
            self.close()
            return
        broken: Exception | None = None
        try:
            self._parser.feed_data(data)
        except (httptools.HttpParserError, httptools.HttpParserUpgrade) as error:
            broken = error
        self._deliver(exchange, len(data))
        if self.closed:
            return
        if self._complete:
            self._end(exchange, reusable=broken is None)
        elif broken is not None:
            self._refuse(f"the reply is not proper HTTP/1.1: {broken.__context__ or broken}")

    def eof_received(self) -> None:
        """Take the peer's end of sending: nothing more will come."""
        self.connection_lost(None)

    def connection_lost(self, exc: Exception | None) -> None:
        """End the exchange: properly if its body lasts until the end of the connection, else by a reset."""
        exchange = self._exchange
        if exchange is not None:
            if exc is None and exchange.status and ends_with_connection(exchange.status, exchange.headers):
                exchange.finish()
            else:
                exchange.fail(TransportError(Fault.RESET, "the connection was closed before the end of the reply", sent=True))
        self.close()

    def pause_writing(self) -> None:
        """Start the clock: the peer takes the request more slowly than it is given."""
        self._write_deadline_s = time.monotonic() + self._write_s

    def resume_writing(self) -> None:
        """Stop the clock."""
        self._write_deadline_s = math.inf

    # httptools

    def on_message_begin(self) -> None:
        """Refuse a second reply to one request."""
        if self._complete:
            raise httptools.HttpParserError("more than one reply")

    def on_header(self, name: bytes, value: bytes) -> None:
        """Keep a header; trailers are left out."""
        exchange = self._exchange
        if exchange is not None and not exchange.status:
            exchange.headers.append((name.lower(), value))

    def on_headers_complete(self) -> None:
        """Announce the head, unless it is that of an interim reply."""
        exchange = self._exchange
        if exchange is None:
            return
        status = self._parser.get_status_code()
        if status < 200:
            exchange.headers.clear()
            return
        for name, value in exchange.headers:
            if name == b"transfer-encoding" and value.lower() != b"chunked":
                raise httptools.HttpParserError("a transfer coding other than chunked")
            if name == b"keep-alive" and (offer := OFFER.search(value)) is not None:
                self.rest_s = min(MAX_IDLE_S, int(offer[1]) - OFFER_MARGIN_S)
        exchange.status = status
        self._keep_alive = self._parser.should_keep_alive()
        exchange.wake()

    def on_body(self, data: bytes) -> None:
        """Collect body, freed of its framing."""
        self._arrived.append(data)

    def on_message_complete(self) -> None:
        """Note the end of the reply."""
        self._complete = self._exchange is not None and self._exchange.status != 0

    def _deliver(self, exchange: Exchange, read_bytes: int) -> None:
        arrived = self._arrived
        bodiless_bytes = self._bodiless_bytes + read_bytes
        if bodiless_bytes > HEAD_LIMIT_BYTES and (not arrived or _head_bytes(exchange) > HEAD_LIMIT_BYTES):
            self._refuse(f"more than {HEAD_LIMIT_BYTES} bytes of head or framing")
        elif not arrived:
            self._bodiless_bytes = bodiless_bytes
        else:
            self._bodiless_bytes = 0
            brimming = exchange.arrive(arrived[0] if len(arrived) == 1 else b"".join(arrived))
            if brimming and not self._complete and not self._paused:
                self._paused = True
                self._transport.pause_reading()
        arrived.clear()

    def _end(self, exchange: Exchange, *, reusable: bool) -> None:
        self._exchange = None
        exchange.finish()
        if reusable and self._keep_alive and not self._transport.is_closing() and not self._transport.get_write_buffer_size():
            self.resume()
            self.rested_since_s = time.monotonic()
            self._home.keep(self)
        else:
            self.close()

    def _refuse(self, reason: str) -> None:
        self.fail(TransportError(Fault.PROTOCOL, reason, sent=True))


class RequestHead:
    """The head of requests to one origin."""

    def __init__(self, origin: Origin) -> None:
        self._prefix = origin.prefix
        self._known: dict[tuple[str, tuple[tuple[bytes, bytes], ...]], tuple[bytes, bytes]] = {}
        self._owned = b" HTTP/1.1\r\nhost: %b\r\naccept-encoding: identity\r\ncontent-length: " % origin.authority.encode("ascii")

    def of(self, outgoing: Outgoing) -> bytes:
        """Return the head of one request. Raises `ValueError` when a line break hides in its path or in a header."""
        asked = (outgoing.path, outgoing.headers)
        known = self._known.get(asked)
        if known is None:
            if len(self._known) >= KEPT_HEADS:
                self._known.clear()
            known = self._known[asked] = self._around_length(outgoing)
        return b"%b%d%b" % (known[0], len(outgoing.body), known[1])

    def _around_length(self, outgoing: Outgoing) -> tuple[bytes, bytes]:
        path = (self._prefix + outgoing.path).encode("ascii")
        lines = b"\r\n".join((b"", *map(b": ".join, outgoing.headers)))
        breaks = len(outgoing.headers)
        if lines.count(b"\n") != breaks or lines.count(b"\r") != breaks or b"\n" in path or b"\r" in path or b" " in path:
            raise ValueError("a line break in the path or in a header of a request")
        return b"POST " + path + self._owned, lines + b"\r\n\r\n"


def ends_with_connection(status: int, headers: list[tuple[bytes, bytes]]) -> bool:
    """Say whether a body has no framing of its own and lasts until the connection ends."""
    return status not in (204, 304) and not any(name in (b"content-length", b"transfer-encoding") for name, _ in headers)


def _head_bytes(exchange: Exchange) -> int:
    return sum(len(name) + len(value) for name, value in exchange.headers)
