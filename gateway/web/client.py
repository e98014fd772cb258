"""One client's connection as ASGI shows it: the body in, the answer out, and the watch for its leaving in between.

A body that breaks off is never taken for a whole one. From the first byte on somebody listens for the client's departure: while
the body is read its reader does, after that the server calls, or a task waits where the server does not offer to.
"""

import asyncio
from collections.abc import Awaitable, Callable, MutableMapping, Sequence
from typing import Any, Protocol

import msgspec

from gateway.errors import GatewayError, Overloaded, RequestTooLarge, status_of
from gateway.policy.trail import Headers
from gateway.tasks import Owned
from gateway.watch import Cut, Watch
from gateway.web.keepalive import COMMENT, KeepAlive
from gateway.wire import envelope
from gateway.wire.compression import gunzip
from gateway.wire.envelope import Telling

OVERLOAD_WAIT_MS = 1_000

OPENAI = Telling()

SERVER = "tiergate.server"
"""The name under which a server offers itself in a scope's extensions."""

Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]


class Server(Protocol):
    """What a server offers beside ASGI: to call when the client leaves, and to be called for what is sent in messages otherwise.

    A task that waits for the departure instead costs every request a cancellation, whose exception would keep the request alive
    until the collector comes; messages cost a dictionary each and every layer's look at it.
    """

    def whole_body(self) -> bytes | None:
        """Return the body where all of it has arrived; else it comes in messages."""
        ...

    def on_departure(self, departed: Callable[[], None]) -> None:
        """Call `departed` once if the client leaves before the answer is complete, at once if it has left already."""
        ...

    async def start(self, status: int, headers: Sequence[tuple[bytes, bytes]]) -> None:
        """Begin an answer; its head leaves with the first piece at the latest."""
        ...

    async def write(self, piece: bytes) -> None:
        """Send a piece of the body."""
        ...

    async def finish(self, piece: bytes) -> None:
        """Send the last piece and end the answer."""
        ...


class Steps(Protocol):
    """An answer, step by step."""

    async def start(self, status: int, headers: Sequence[tuple[bytes, bytes]]) -> None:
        """Begin it."""
        ...

    async def write(self, piece: bytes) -> None:
        """Send a piece of the body."""
        ...

    async def finish(self, piece: bytes) -> None:
        """Send the last piece and end it."""
        ...


class Messages:
    """An answer's steps as ASGI's messages, for a server that offers nothing beside them."""

    def __init__(self, send: Send) -> None:
        self._send = send

    async def start(self, status: int, headers: Sequence[tuple[bytes, bytes]]) -> None:
        """Send a head."""
        await self._send({"type": "http.response.start", "status": status, "headers": headers})

    async def write(self, piece: bytes) -> None:
        """Send a piece of the body."""
        await self._send({"type": "http.response.body", "body": piece, "more_body": True})

    async def finish(self, piece: bytes) -> None:
        """Send the last piece and end the answer."""
        await self._send({"type": "http.response.body", "body": piece, "more_body": False})


class Io(msgspec.Struct, frozen=True):
    """One request as ASGI hands it over."""

    scope: Message
    receive: Receive
    send: Send


class Buffered:
    """Bytes of request bodies that this worker holds at the moment."""

    def __init__(self, most_bytes: int) -> None:
        self.most_bytes = most_bytes
        self.held_bytes = 0

    @property
    def full(self) -> bool:
        """Return whether no more should be taken in."""
        return self.held_bytes >= self.most_bytes

    def take(self, length: int) -> None:
        """Count bytes that have come in; whoever took them gives them back. Raises `Overloaded` where they are too many."""
        self.held_bytes += length
        if self.held_bytes > self.most_bytes:
            raise Overloaded("The gateway has too many requests in flight", retry_after_ms=OVERLOAD_WAIT_MS)


class Client:
    """The downstream side of one request; a `gateway.relay.Downstream`."""

    def __init__(self, io: "Io", watch: Watch, buffered: Buffered, telling: Telling = OPENAI) -> None:
        self._receive = io.receive
        self._server: Server | None = io.scope.get("extensions", {}).get(SERVER)
        self._answer: Steps = self._server or Messages(io.send)
        self._watch = watch
        self._buffered = buffered
        self._telling = telling
        self._held_bytes = 0
        self._departure: asyncio.Task[None] | None = None
        self._keepalive: KeepAlive | None = None
        self.started = False
        self._finished = False

    async def body(self, limit_bytes: int, watchers: Owned) -> bytes:
        """Return the whole body, then begin to watch for the client's departure. Raises `RequestTooLarge` and `Overloaded`."""
        whole = None if self._server is None else self._server.whole_body()
        if whole is None:
            whole = await self._arriving(limit_bytes)
        else:
            self._hold(len(whole))
            check_size(len(whole), limit_bytes)
        if self._server is not None:
            self._server.on_departure(self._left)
        else:
            self._departure = watchers.spawn(self._await_departure(), name="departure")
        return whole

    def unpack(self, body: bytes, limit_bytes: int) -> bytes:
        """Return what a gzip body holds. Raises `RequestTooLarge`, `InvalidRequest` and `Overloaded`."""
        found = gunzip(body, limit_bytes)
        self._hold(len(found))
        return found

    def send_through(self, way: Callable[[Steps], Steps]) -> None:
        """Send all that is still to be sent by another way, which ends in the one before."""
        self._answer = way(self._answer)

    def keep_alive(self, every_s: float, head: Callable[[], Headers], watchers: Owned) -> None:
        """Send a comment after each silence of `every_s` from now on, the first behind `head` where none has gone out by then."""

        async def comment() -> None:
            if not self.started:
                await self._answer.start(200, [*head(), *self._telling.headers])
                self.started = True
            await self._answer.write(COMMENT)

        self._keepalive = KeepAlive(every_s, comment, watchers)
        self._keepalive.begin()

    async def start(self, headers: Headers) -> None:
        """Send the head of a 200, unless a comment took one along."""
        if self.started:
            return
        self._hush()
        await self._answer.start(200, [*headers, *self._telling.headers])
        self.started = True
        if self._keepalive is not None:
            self._keepalive.begin()

    async def write(self, piece: bytes) -> None:
        """Send a piece of the body: whole events, where it is a stream."""
        await self._answer.write(piece)
        if self._keepalive is not None:
            self._keepalive.note()

    async def finish(self, piece: bytes) -> None:
        """Send the last piece and end the body; until there is room for it, the client may still leave."""
        self._hush()
        await self._answer.finish(piece)
        self._finished = True

    def event(self, error: GatewayError, number: int = 0) -> bytes:
        """Return the event that ends a stream in this error; it has this number where events are numbered."""
        return self._telling.event(error, number)

    async def refuse(self, error: GatewayError, trail: Headers) -> None:
        """Answer with an error, or end a body that has begun with one."""
        self._hush()
        if self.started:
            await self.finish(self.event(error))
            return
        body = self._telling.body(error)
        headers = [
            (b"content-type", b"application/json"),
            (b"content-length", b"%d" % len(body)),
            *envelope.headers(error),
            *trail,
            *self._telling.headers,
        ]
        await self._answer.start(status_of(error), headers)
        self.started = True
        await self.finish(body)

    def close(self) -> None:
        """Stop watching and give back what the body took."""
        self._hush()
        self._keepalive = None
        self._buffered.held_bytes -= self._held_bytes
        self._held_bytes = 0
        departure, self._departure = self._departure, None
        if departure is not None:
            departure.cancel()

    async def _arriving(self, limit_bytes: int) -> bytes:
        pieces: list[bytes] = []
        length, more = 0, True
        while more:
            message = await self._receive()
            if message["type"] != "http.request":
                await self._departed()
            piece = message.get("body", b"")
            length += len(piece)
            self._hold(len(piece))
            check_size(length, limit_bytes)
            pieces.append(piece)
            more = message.get("more_body", False)
        return b"".join(pieces)

    def _hold(self, length: int) -> None:
        self._held_bytes += length
        self._buffered.take(length)

    def _hush(self) -> None:
        """Say no more comments: no two heads, and nothing behind the end, may wait for room."""
        if self._keepalive is not None:
            self._keepalive.end()

    async def _departed(self) -> None:
        """Cut the request short from inside: the cancellation is delivered at the wait."""
        self._watch.cancel(Cut.DEPARTED)
        await asyncio.get_running_loop().create_future()

    async def _await_departure(self) -> None:
        await self._receive()
        self._left()

    def _left(self) -> None:
        # Servers report the end of an answer in the same way: that one is no departure.
        if not self._finished:
            self._watch.cancel(Cut.DEPARTED)


def check_size(length: int, limit_bytes: int) -> None:
    """Raise `RequestTooLarge` for a body of more than `limit_bytes`."""
    if length > limit_bytes:
        raise RequestTooLarge(f"The request body is larger than {limit_bytes} bytes")
