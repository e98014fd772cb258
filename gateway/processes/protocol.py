"""uvicorn's HTTP/1.1 with what it leaves open: who is told of a departure, what rubbish hears, how long a request may take.

Requests that come in a row on one connection wait for each other. What a request says is not looked at here.
"""

import asyncio
from http import HTTPStatus
from typing import Any

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol, RequestResponseCycle

from gateway.errors import GatewayError, HeadersTooLarge, InvalidRequest, status_of
from gateway.wire.envelope import envelope

MOST_HEAD_BYTES = 262_144
"""A head that has not ended by then is cut off. What the application allows is less, but it never sees a head without an end."""


class Http1(HttpToolsProtocol):
    """One connection."""

    receipt_s = 60.0
    """How long a request may take from its first byte to its last: a large body over a slow line, not one that never ends."""

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self._running: RequestResponseCycle | None = None
        self._receiving = self._in_head = False
        self._head_bytes = 0
        self._receipt: asyncio.TimerHandle | None = None

    def data_received(self, data: bytes) -> None:
        """Take what arrived; most requests arrive whole, and need no timer."""
        super().data_received(data)
        if not self._receiving or self.transport.is_closing():
            return
        if self._receipt is None:
            self._receipt = self.loop.call_later(self.receipt_s, self._late)
        if self._in_head:
            self._head_bytes += len(data)
            if self._head_bytes > MOST_HEAD_BYTES:
                self._refuse(HeadersTooLarge("The request's headers are too large"))

    def on_message_begin(self) -> None:
        """Begin a request."""
        super().on_message_begin()
        self._receiving = self._in_head = True
        self._head_bytes = 0

    def on_headers_complete(self) -> None:
        """Hand a request over, or queue it behind the one under way."""
        self._in_head = False
        super().on_headers_complete()

    def on_message_complete(self) -> None:
        """End a request."""
        super().on_message_complete()
        self._receiving = False
        self._forget_receipt()

    def connection_lost(self, exc: Exception | None) -> None:
        """Tell the request under way that its client has left: uvicorn tells the newest alone, which may be waiting behind it."""
        super().connection_lost(exc)
        self._forget_receipt()
        if (cycle := self._answering()) is not None:
            cycle.disconnected = True
            cycle.message_event.set()

    def send_400_response(self, _msg: str) -> None:
        """Refuse what is no HTTP in the shape of every other error."""
        self._refuse(InvalidRequest("This is no valid HTTP/1.1 request"))

    def _start_asgi_task(self, cycle: RequestResponseCycle, app: Any) -> None:
        self._running = cycle
        super()._start_asgi_task(cycle, app)

    def _answering(self) -> RequestResponseCycle | None:
        """Return the request under way, if one is."""
        return None if self._running is None or self._running.response_complete else self._running

    def _late(self) -> None:
        self._receipt = None
        cycle = self._answering()
        if cycle is not None and not cycle.more_body:
            return  # what is late waits behind an answer, during which nothing more is read
        self.transport.close()

    def _refuse(self, error: GatewayError) -> None:
        """End the connection; an answer that is under way is not written into."""
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
