"""HTTP/1.1 over httptools for uvicorn's server: who is told of a departure, what rubbish hears, how long a request may take.

Requests that come in a row on one connection wait for each other. uvicorn's own class leaves most of this open.
"""

import asyncio
import urllib.parse
from collections import deque
from http import HTTPStatus
from typing import Any, cast

import httptools
import uvicorn
from uvicorn.protocols.http.flow_control import FlowControl
from uvicorn.protocols.utils import get_local_addr, get_remote_addr, is_ssl
from uvicorn.server import ServerState

from gateway.errors import GatewayError, HeadersTooLarge, InvalidRequest, status_of
from gateway.processes.cycle import Cycle
from gateway.wire.envelope import envelope
from gateway.wire.head import check_message, without_upgrade

MOST_HEAD_BYTES = 262_144
"""A head that has not ended by then is cut off. What the application allows is less, but it never sees a head without an end."""

FRAMING_SHARE = 8
"""How many bytes of framing a byte of body may take beyond `MOST_HEAD_BYTES`: five do for chunks of one byte each."""

MOST_QUEUED = 8
"""How many requests may wait behind an answer while reading goes on; beyond it reading stops until the answer is complete."""

MOST_UNREAD_BYTES = 65_536
"""How much of a body may lie unread while reading goes on."""

LINGER_S = 0.2
"""How long an idle connection is kept after its listener: longer than a request is on its way that was sent before."""

ASGI = {"version": "3.0", "spec_version": "2.3"}


class Listener(uvicorn.Config):
    """What the connections of one listener go by."""

    receipt_s = 60.0
    """How long a request may take from its first byte to its last: a large body over a slow line, not one that never ends."""
    retiring = False
    """Whether answers end their connections, so that clients go elsewhere."""


class Http1(asyncio.Protocol):
    """One connection; uvicorn makes one for each that it accepts."""

    transport: asyncio.Transport
    flow: FlowControl

    def __init__(
        self,
        config: Listener,
        server_state: ServerState,
        app_state: dict[str, Any],
        _loop: asyncio.AbstractEventLoop | None = None,
    ) -> None:
        self.config = config
        self.pipeline: deque[Cycle] = deque()
        """What has come behind the request under way, the first on the left."""
        self._state = server_state
        self._app_state = app_state
        self._loop = _loop or asyncio.get_running_loop()
        self._parser = httptools.HttpRequestParser(self)
        # What a client sends behind a request that was to be its last is nobody's business, and no reason not to answer that one.
        self._parser.set_dangerous_leniencies(lenient_data_after_close=True)
        self._newest: Cycle | None = None
        self._running: Cycle | None = None
        self._url = b""
        self._headers: list[tuple[bytes, bytes]] = []
        self._expects_continue = False
        self._receiving = self._in_head = self._behind = False
        self._received_bytes = self._body_bytes = 0
        self._receipt: asyncio.TimerHandle | None = None
        self._rest: asyncio.TimerHandle | None = None
        self._idle_since_s = 0.0

    # asyncio.Protocol

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Take the transport."""
        self.transport = cast(asyncio.Transport, transport)
        self.flow = FlowControl(self.transport)
        self._between = {
            "server": get_local_addr(self.transport),
            "client": get_remote_addr(self.transport),
            "scheme": "https" if is_ssl(self.transport) else "http",
        }
        self._state.connections.add(self)  # type: ignore[arg-type]  # uvicorn names its own classes
        self._begin_rest()

    def data_received(self, data: bytes) -> None:
        """Take what arrived; most requests arrive whole, and need no timer."""
        if (b"pgrade" in data or b"PGRADE" in data) and (self._in_head or not self._receiving):
            data = without_upgrade(data)
        self._received_bytes += len(data)  # before a request begins in them, which starts at none
        try:
            self._parser.feed_data(data)
        except httptools.HttpParserError:
            self._refuse(InvalidRequest("This is no valid HTTP/1.1 request"))
            return
        except httptools.HttpParserUpgrade:
            # CONNECT offers one by itself. It is answered like every other method, and what follows it is of no protocol.
            if self._newest is not None:
                self._newest.keep_alive = False
        if not self._receiving or self.transport.is_closing():
            return
        if self._receipt is None:
            self._receipt = self._loop.call_later(self.config.receipt_s, self._late)
        if self._received_bytes > MOST_HEAD_BYTES + (1 + FRAMING_SHARE) * self._body_bytes:
            self._refuse(HeadersTooLarge("The request's headers are too large"))

    def eof_received(self) -> None:
        """Take a client's half-close for its departure: the transport closes."""

    def pause_writing(self) -> None:
        """Let answers wait: the client takes them more slowly than they come."""
        self.flow.pause_writing()

    def resume_writing(self) -> None:
        """Let answers go on."""
        self.flow.resume_writing()

    def connection_lost(self, exc: Exception | None) -> None:
        """Tell the request under way that its client has left."""
        self._state.connections.discard(self)
        self.flow.resume_writing()
        if exc is None:
            self.transport.close()
        self._forget_receipt()
        if self._rest is not None:
            self._rest.cancel()
        del self._parser  # it refers back to the connection
        if (cycle := self._answering()) is not None:
            cycle.leave()

    # httptools

    def on_message_begin(self) -> None:
        """Begin a request."""
        self._url, self._headers, self._expects_continue = b"", [], False
        self._receiving = self._in_head = True
        self._behind = False
        self._received_bytes = self._body_bytes = 0

    def on_url(self, url: bytes) -> None:
        """Take a piece of the target."""
        self._url += url

    def on_header(self, name: bytes, value: bytes) -> None:
        """Take a header field; those that come behind a body are nobody's business, least of all its sender's to add."""
        if self._in_head:
            name = name.lower()
            if name == b"expect" and value.lower() == b"100-continue":
                self._expects_continue = True
            self._headers.append((name, value))

    def on_headers_complete(self) -> None:
        """Have a request answered, or let it wait behind the one under way."""
        self._in_head = False
        parser, url = self._parser, self._url
        method, version = parser.get_method(), parser.get_http_version()
        try:
            check_message(method, version, url, self._headers)
        except GatewayError as error:
            self._refuse(error)
            raise  # the parser stops here
        target = httptools.parse_url(url)
        path = target.path.decode("ascii")
        scope = {
            "type": "http",
            "asgi": ASGI,
            "http_version": version,
            "method": method.decode("ascii"),
            "path": urllib.parse.unquote(path) if "%" in path else path,
            "raw_path": target.path,
            "query_string": target.query or b"",
            "root_path": "",
            "headers": self._headers,
            "state": self._app_state.copy(),
            **self._between,
        }
        keep_alive = version != "1.0" and parser.should_keep_alive()
        cycle = self._newest = Cycle(self, scope, keep_alive=keep_alive, expects_continue=self._expects_continue)
        if self._answering() is None:
            self._answer(cycle)
            return
        self.pipeline.append(cycle)
        if len(self.pipeline) > MOST_QUEUED:
            self.flow.pause_reading()

    def on_body(self, body: bytes) -> None:
        """Take a piece of a body."""
        self._body_bytes += len(body)
        if self._newest is not None and self._newest.take(body) > MOST_UNREAD_BYTES:
            self.flow.pause_reading()

    def on_message_complete(self) -> None:
        """End a request."""
        if self._newest is not None:
            self._newest.end_body()
        self._receiving = False
        self._forget_receipt()

    # uvicorn's server

    def shutdown(self) -> None:
        """End the connection with what is under way or has begun to arrive; one that is idle, when nothing can be on its way."""
        if self._newest is not None and self._answering() is not None:
            self._newest.keep_alive = False
        elif not self._receiving:
            if self._rest is not None:
                self._rest.cancel()
            self._rest = self._loop.call_later(LINGER_S, self.transport.close)

    # a cycle's connection

    def answered(self) -> None:
        """Go on with the request behind the one that was answered, or rest."""
        if self.transport.is_closing():
            return
        self.flow.resume_reading()
        if self.pipeline:
            self._answer(self.pipeline.popleft())
        else:
            self._begin_rest()

    def _answer(self, cycle: Cycle) -> None:
        self._running = cycle
        if self.config.retiring and not self.pipeline:
            cycle.keep_alive = False
        task = self._loop.create_task(cycle.run(self.config.loaded_app))
        self._state.tasks.add(task)
        task.add_done_callback(self._state.tasks.discard)

    def _answering(self) -> Cycle | None:
        """Return the request under way, if one is."""
        return None if self._running is None or self._running.complete else self._running

    def _begin_rest(self) -> None:
        """Be idle from now on. One timer serves all rests of a connection: one each would cost every request two calls."""
        self._idle_since_s = self._loop.time()
        if self._rest is None:
            self._rest = self._loop.call_later(self.config.timeout_keep_alive, self._rested)

    def _rested(self) -> None:
        """Close a connection that was idle for long enough."""
        self._rest = None
        if self._receiving or self._answering() is not None:
            return  # the end of the answer begins a rest anew
        left_s = self._idle_since_s + self.config.timeout_keep_alive - self._loop.time()
        if left_s <= 0:
            self.transport.close()
        else:
            self._rest = self._loop.call_later(left_s, self._rested)

    def _late(self) -> None:
        cycle = self._answering()
        behind, self._behind = self._behind, cycle is not None and not cycle.more_body
        if behind or self._behind:
            # What is late waits behind an answer, and has its whole time once that is complete.
            self._receipt = self._loop.call_later(self.config.receipt_s, self._late)
        else:
            self._receipt = None
            self.transport.close()

    def _refuse(self, error: GatewayError) -> None:
        """End the connection; an answer that is under way is not written into."""
        if self.transport.is_closing():
            return
        cycle = self._answering()
        if cycle is None or (cycle.more_body and not cycle.started):
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
