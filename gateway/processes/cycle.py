"""One request of a connection, and its answer: by ASGI's messages, or by calls that stand for them.

The calls are those of a `gateway.web.client.Server`, which save a small request a twelfth of its work. What a request asks for is
not looked at here.
"""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, Protocol

import structlog
from uvicorn.protocols.http.flow_control import FlowControl
from uvicorn.protocols.http.httptools_impl import STATUS_LINE

from gateway.errors import Internal, status_of
from gateway.web.client import SERVER, Message
from gateway.wire.envelope import envelope

Asgi = Callable[[Any, Any, Any], Awaitable[None]]

CHUNKED = b"transfer-encoding: chunked\r\n"
CLOSE = b"connection: close\r\n"
CONTINUE = b"HTTP/1.1 100 Continue\r\n\r\n"
LAST_CHUNK = b"0\r\n\r\n"

WITHOUT_BODY = (204, 304)
"""Answers that have none, whatever they say of its length."""

GONE: Message = {"type": "http.disconnect"}

log = structlog.get_logger(__name__)


class Connection(Protocol):
    """Where a request came from, and its answer goes."""

    transport: asyncio.Transport
    flow: FlowControl

    def answered(self) -> None:
        """Go on, the answer under way is complete."""
        ...


class Cycle:
    """A request from the end of its head on, and its answer until the last byte is handed over."""

    __slots__ = (
        *("_changed", "_chunked", "_connection", "_departed", "_flow", "_head", "_left_bytes", "_told", "_transport"),
        *("body", "complete", "disconnected", "expects_continue", "keep_alive", "more_body", "scope", "started"),
    )

    def __init__(self, connection: Connection, scope: Message, *, keep_alive: bool, expects_continue: bool) -> None:
        self.scope = scope
        self.keep_alive = keep_alive
        self.expects_continue = expects_continue
        self.body: bytes | bytearray = b""
        """What has arrived of it and was not read."""
        self.more_body = True
        self.started = self.complete = self.disconnected = False
        self._connection = connection
        self._transport, self._flow = connection.transport, connection.flow
        self._head = b""
        """The answer's, until it leaves with what comes next."""
        self._chunked = False
        self._left_bytes: int | None = None
        """What is still to come of an answer that says how long it is."""
        self._told = False
        """The application knows that the body has ended."""
        self._changed: asyncio.Event | None = None
        """Made where somebody waits."""
        self._departed: Callable[[], None] | None = None

    async def run(self, app: Asgi) -> None:
        """Have the application answer. An answer that it gives up half-way ends its connection at once.

        To close one in good order is to wait for a client to read what is left; a client that does not read would never let go.
        """
        self.scope["extensions"] = {SERVER: self}
        try:
            await app(self.scope, self.receive, self.send)
        except asyncio.CancelledError:
            self._transport.abort()
            raise
        except Exception:
            log.exception("application_failed")
        finally:
            self._departed = None
            del self.scope["extensions"]  # which refers back to the scope
            if self.started and not self.complete:
                self.disconnected = True
                self._transport.abort()
        if not self.started and not self.disconnected:
            await self._fail()

    def take(self, piece: bytes) -> int:
        """Take a piece of the body. Return how much is unread: of what comes behind an answer nothing, or reading would end."""
        if self.complete:
            self.body = b""
        elif self.body:
            self.body = bytearray(self.body) if isinstance(self.body, bytes) else self.body
            self.body += piece
        else:
            self.body = piece
        self._tell()
        return len(self.body)

    def end_body(self) -> None:
        """Take note that the body has ended."""
        self.more_body = False
        self._tell()

    def leave(self) -> None:
        """Take note that the client has left."""
        self.disconnected = True
        self._tell()
        if self._departed is not None:
            self._departed()

    def whole_body(self) -> bytes | None:
        """Return the body where all of it has arrived, as `receive` would in one message."""
        if self.more_body or self.disconnected or self.complete:
            return None
        self._told = True
        return self._unread()

    def on_departure(self, departed: Callable[[], None]) -> None:
        """Call `departed` once if the client leaves before the answer is complete, at once if it has left already."""
        if self._transport.is_closing():
            departed()
        else:
            self._departed = departed

    async def start(self, status: int, headers: Sequence[tuple[bytes, bytes]]) -> None:
        """Begin an answer; its head leaves with what comes next. Without a content-length the body goes in chunks."""
        if self._flow.write_paused:
            await self._flow.drain()
        if self.disconnected:
            return
        lines = b"\r\n".join((*map(b": ".join, headers), b""))
        breaks = len(headers)
        if lines.count(b"\n") != breaks or lines.count(b"\r") != breaks or self.started:
            raise RuntimeError("a second head" if self.started else "a line break in a header")
        length = dict(headers).get(b"content-length")
        if self.scope["method"] == "HEAD" or status in WITHOUT_BODY:
            self._left_bytes = 0
        elif length is not None:
            self._left_bytes = int(length)
        else:
            # What has no length ends with its connection where chunks are not known.
            self._chunked = self.scope["http_version"] == "1.1"
        self.started, self.expects_continue = True, False
        framing = CHUNKED if self._chunked else b""
        self._head = b"".join((STATUS_LINE[status], lines, b"" if self.keep_alive else CLOSE, framing, b"\r\n"))

    async def write(self, piece: bytes) -> None:
        """Send a piece of the body, when there is room for it."""
        if self._flow.write_paused:
            await self._flow.drain()
        if not self.disconnected:
            self._transport.write(self._packed(piece))

    async def finish(self, piece: bytes) -> None:
        """Send the last piece, when there is room for it, and end the answer."""
        if self._flow.write_paused:
            await self._flow.drain()
        if self.disconnected:
            return
        packed = self._packed(piece)
        if self._left_bytes:
            raise RuntimeError("a body shorter than its head says")
        self._transport.write(packed + LAST_CHUNK if self._chunked else packed)
        self.complete = True
        self._tell()
        if not self.keep_alive:
            self._transport.close()
        self._connection.answered()

    async def receive(self) -> Message:
        """Return what has arrived of the body since the last call, or that the client has left, or has its answer."""
        if self.expects_continue and not self._transport.is_closing():
            self._transport.write(CONTINUE)
            self.expects_continue = False
        if not self.disconnected and not self.complete:
            self._flow.resume_reading()
            await self._news()
        if self.disconnected or self.complete:
            return GONE
        self._told = not self.more_body
        return {"type": "http.request", "body": self._unread(), "more_body": self.more_body}

    async def send(self, message: Message) -> None:
        """Send what an ASGI message says."""
        if message["type"] == "http.response.start":
            await self.start(message["status"], [*message.get("headers", ())])
        elif message.get("more_body", False):
            await self.write(message.get("body", b""))
        else:
            await self.finish(message.get("body", b""))

    def _packed(self, piece: bytes) -> bytes:
        """Return what goes out for a piece, behind the head if that is still to go."""
        if not self.started or self.complete:
            raise RuntimeError("a body without a head" if not self.started else "a body behind its end")
        head, self._head = self._head, b""
        if self._chunked:
            return b"%b%x\r\n%b\r\n" % (head, len(piece), piece) if piece else head
        if self.scope["method"] == "HEAD":
            return head
        if self._left_bytes is not None:
            self._left_bytes -= len(piece)
            if self._left_bytes < 0:
                raise RuntimeError("a body longer than its head says")
        return head + piece

    def _unread(self) -> bytes:
        body, self.body = bytes(self.body), b""
        self._flow.resume_reading()
        return body

    async def _news(self) -> None:
        """Wait for more than was told; what has arrived by the first call is news."""
        if self._changed is None:
            self._changed = asyncio.Event()
            if self.body or not (self.more_body or self._told):
                self._changed.set()
        await self._changed.wait()
        self._changed.clear()

    def _tell(self) -> None:
        if self._changed is not None:
            self._changed.set()

    async def _fail(self) -> None:
        """Answer for an application that has not."""
        error = Internal("The gateway failed to handle this request")
        body = envelope(error)
        self.keep_alive = False
        head = [(b"content-type", b"application/json"), (b"content-length", b"%d" % len(body))]
        await self.start(status_of(error), head)
        await self.finish(body)
