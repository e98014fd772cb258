"""uvicorn's HTTP/1.1 with what it leaves open: who is told of a departure, what rubbish hears, how long a request may take.

Requests that come in a row on one connection wait for each other. What a request asks for is not looked at here. Beside ASGI's
messages it offers calls for the same (a `gateway.web.client.Server`), which save a small request a twelfth of its work.
"""

import asyncio
import re
from collections.abc import Callable, Sequence
from http import HTTPStatus
from typing import Any

import uvicorn
from uvicorn.protocols.http.httptools_impl import STATUS_LINE, HttpToolsProtocol, RequestResponseCycle

from gateway.errors import GatewayError, HeadersTooLarge, InvalidRequest, status_of
from gateway.web.client import SERVER
from gateway.wire.envelope import envelope
from gateway.wire.head import check_message

MOST_HEAD_BYTES = 262_144
"""A head that has not ended by then is cut off. What the application allows is less, but it never sees a head without an end."""

FRAMING_SHARE = 8
"""How many bytes of framing a byte of body may take beyond `MOST_HEAD_BYTES`: five do for chunks of one byte each."""

MOST_QUEUED = 8
"""How many requests may wait behind an answer while reading goes on; beyond it reading stops until the answer is complete."""

LINGER_S = 0.2
"""How long an idle connection is kept after its listener: longer than a request is on its way that was sent before."""

CHUNKED = b"transfer-encoding: chunked\r\n"
CLOSE = b"connection: close\r\n"
LAST_CHUNK = b"0\r\n\r\n"

UPGRADE = re.compile(rb"\r\nupgrade:", re.IGNORECASE)
NO_UPGRADE = b"\r\nno-upgrade:"


class Listener(uvicorn.Config):
    """What the connections of one listener go by."""

    receipt_s = 60.0
    """How long a request may take from its first byte to its last: a large body over a slow line, not one that never ends."""
    retiring = False
    """Whether answers end their connections, so that clients go elsewhere."""


class Http1(HttpToolsProtocol):
    """One connection."""

    config: Listener

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self._running: RequestResponseCycle | None = None
        self._departed: Callable[[], None] | None = None
        self._receiving = self._in_head = self._behind = self._unmeasured = False
        self._received_bytes = self._body_bytes = 0
        self._head = b""
        self._receipt: asyncio.TimerHandle | None = None
        self._app, self.app = self.app, self._serve
        self._extensions = {SERVER: self}

    def data_received(self, data: bytes) -> None:
        """Take what arrived; most requests arrive whole, and need no timer."""
        if (b"pgrade" in data or b"PGRADE" in data) and (self._in_head or not self._receiving):
            data = without_upgrade(data)
        self._received_bytes += len(data)  # before a request begins in them, which starts at none
        super().data_received(data)
        if not self._receiving or self.transport.is_closing():
            return
        if self._receipt is None:
            self._receipt = self.loop.call_later(self.config.receipt_s, self._late)
        if self._received_bytes > MOST_HEAD_BYTES + (1 + FRAMING_SHARE) * self._body_bytes:
            self._refuse(HeadersTooLarge("The request's headers are too large"))

    def on_message_begin(self) -> None:
        """Begin a request."""
        super().on_message_begin()
        self._receiving = self._in_head = True
        self._behind = False
        self._received_bytes = self._body_bytes = 0

    def on_header(self, name: bytes, value: bytes) -> None:
        """Take a header field; those that come behind a body are nobody's business, least of all its sender's to add."""
        if self._in_head:
            # As uvicorn does it, without a call for each: a request has some ten.
            name = name.lower()
            if name == b"expect" and value.lower() == b"100-continue":
                self.expect_100_continue = True
            self.headers.append((name, value))

    def on_headers_complete(self) -> None:
        """Hand a request over, or queue it behind the one under way."""
        self._in_head = False
        try:
            check_message(self.parser.get_method(), self.parser.get_http_version(), self.url, self.headers)
        except GatewayError as error:
            self._refuse(error)
            raise  # the parser stops here
        super().on_headers_complete()
        if len(self.pipeline) <= MOST_QUEUED:
            # uvicorn stops reading when it queues a request: the departure of whom the answer under way is for would go unseen.
            self.flow.resume_reading()

    def on_body(self, body: bytes) -> None:
        """Take a piece of a body."""
        self._body_bytes += len(body)
        super().on_body(body)

    def on_message_complete(self) -> None:
        """End a request."""
        super().on_message_complete()
        self._receiving = False
        self._forget_receipt()

    def shutdown(self) -> None:
        """End the connection with what is under way or has begun to arrive; one that is idle, when nothing can be on its way."""
        if self._answering() is not None:
            super().shutdown()
        elif not self._receiving:
            self._unset_keepalive_if_required()
            self.timeout_keep_alive_task = self.loop.call_later(LINGER_S, self.timeout_keep_alive_handler)

    def connection_lost(self, exc: Exception | None) -> None:
        """Tell the request under way that its client has left: uvicorn tells the newest alone, which may be waiting behind it."""
        super().connection_lost(exc)
        self._forget_receipt()
        if (cycle := self._answering()) is not None:
            cycle.disconnected = True
            cycle.message_event.set()
            if self._departed is not None:
                self._departed()

    def send_400_response(self, _msg: str) -> None:
        """Refuse what is no HTTP in the shape of every other error."""
        self._refuse(InvalidRequest("This is no valid HTTP/1.1 request"))

    def on_departure(self, departed: Callable[[], None]) -> None:
        """Call `departed` once if the client leaves before the answer is complete, at once if it has left already."""
        if self.transport.is_closing():
            departed()
        else:
            self._departed = departed

    def whole_body(self) -> bytes | None:
        """Return the body of the request under way where all of it has arrived, as `receive` would in one message."""
        cycle = self._running
        if cycle is None or cycle.more_body or cycle.disconnected or cycle.response_complete:
            return None
        body, cycle.body = bytes(cycle.body), bytearray()
        cycle.message_event.clear()
        self.flow.resume_reading()
        return body

    async def start(self, status: int, headers: Sequence[tuple[bytes, bytes]]) -> None:
        """Begin an answer; its head leaves with what comes next. Without a content-length the body goes in chunks."""
        cycle = await self._room()
        if cycle is None:
            return
        lines = b"\r\n".join((*map(b": ".join, headers), b""))
        if lines.count(b"\n") != len(headers) or lines.count(b"\r") != len(headers):
            raise RuntimeError("a line break in a header")
        length = dict(headers).get(b"content-length")
        bodiless = cycle.scope["method"] == "HEAD"
        # What has no length ends with its connection where chunks are not known.
        chunked = length is None and not bodiless and cycle.scope["http_version"] == "1.1"
        cycle.response_started, cycle.waiting_for_100_continue = True, False
        cycle.chunked_encoding, cycle.expected_content_length = chunked, 0 if bodiless else int(length or 0)
        self._unmeasured = length is None
        framing = CHUNKED if chunked else b""
        self._head = b"".join((STATUS_LINE[status], lines, b"" if cycle.keep_alive else CLOSE, framing, b"\r\n"))

    async def write(self, piece: bytes) -> None:
        """Send a piece of the body, when there is room for it."""
        cycle = await self._room()
        if cycle is not None:
            self.transport.write(self._framed(cycle, piece))

    async def finish(self, piece: bytes) -> None:
        """Send the last piece, when there is room for it, and end the answer."""
        cycle = await self._room()
        if cycle is None:
            return
        framed = self._framed(cycle, piece)
        if cycle.expected_content_length:
            raise RuntimeError("a body shorter than its head says")
        self.transport.write(framed + LAST_CHUNK if cycle.chunked_encoding else framed)
        cycle.response_complete = True
        cycle.message_event.set()
        if not cycle.keep_alive:
            self.transport.close()
        cycle.on_response()

    async def _room(self) -> RequestResponseCycle | None:
        """Wait until the client takes more. Return the request under way, None where nobody is there to be answered."""
        cycle = self._running
        if cycle is None or cycle.disconnected:
            return None
        if self.flow.write_paused:
            await self.flow.drain()
        return None if cycle.disconnected else cycle

    def _framed(self, cycle: RequestResponseCycle, piece: bytes) -> bytes:
        """Return what goes out for a piece, behind the head if that is still to go."""
        if not cycle.response_started:
            raise RuntimeError("a body without a head")
        head, self._head = self._head, b""
        if cycle.chunked_encoding:
            return b"%b%x\r\n%b\r\n" % (head, len(piece), piece) if piece else head
        if cycle.scope["method"] == "HEAD":
            return head
        if self._unmeasured:
            return head + piece
        cycle.expected_content_length -= len(piece)
        if cycle.expected_content_length < 0:
            raise RuntimeError("a body longer than its head says")
        return head + piece

    async def _serve(self, scope: Any, receive: Any, send: Any) -> None:
        """Run the application. An answer that it gives up half-way ends its connection at once.

        To close one in good order is to wait for a client to read what is left; a client that does not read would never let go.
        """
        cycle = self._running
        scope["extensions"] = self._extensions
        try:
            await self._app(scope, receive, send)
        finally:
            self._departed = None
            if cycle is not None and cycle.response_started and not cycle.response_complete:
                cycle.disconnected = True
                self.transport.abort()

    def _start_asgi_task(self, cycle: RequestResponseCycle, app: Any) -> None:
        self._running = cycle
        if self.config.retiring and not self.pipeline:
            cycle.keep_alive = False
        super()._start_asgi_task(cycle, app)

    def _answering(self) -> RequestResponseCycle | None:
        """Return the request under way, if one is."""
        return None if self._running is None or self._running.response_complete else self._running

    def _late(self) -> None:
        cycle = self._answering()
        behind, self._behind = self._behind, cycle is not None and not cycle.more_body
        if behind or self._behind:
            # What is late waits behind an answer, and has its whole time once that is complete.
            self._receipt = self.loop.call_later(self.config.receipt_s, self._late)
        else:
            self._receipt = None
            self.transport.close()

    def _refuse(self, error: GatewayError) -> None:
        """End the connection; an answer that is under way is not written into."""
        if self.transport.is_closing():
            return
        cycle = self._answering()
        if cycle is None or (cycle.more_body and not cycle.response_started):
            body = envelope(error)
            status = status_of(error)
            head = (
                f"HTTP/1.1 {status} {HTTPStatus(status).phrase}\r\ncontent-type: application/json\r\ncontent-length: {len(body)}"
            )
            self.transport.write(head.encode() + b"\r\nconnection: close\r\n\r\n" + body)
        self.transport.close()

    def _forget_receipt(self) -> None:
        if self._receipt is not None:
            self._receipt.cancel()
            self._receipt = None


def without_upgrade(data: bytes) -> bytes:
    """Return the bytes of a head with its offer of another protocol renamed.

    The parser would end the message at its head and lose the body, where HTTP lets a server pass the offer over. Clients that
    prefer HTTP/2 make it with every first request.
    """
    head, end, rest = data.partition(b"\r\n\r\n")
    return UPGRADE.sub(NO_UPGRADE, head) + end + rest
