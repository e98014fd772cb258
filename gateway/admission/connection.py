"""One connection to the admission store, shared by all requests of a worker.

Commands of one turn of the event loop leave in one write, and replies are matched in order. A call has one outcome: its reply,
the store's error, or `AdmissionUnavailable` when its time is over or the connection is lost; nothing is ever sent twice. A caller
that leaves does not shift the replies of others: the place of its reply is kept and the reply dropped. Speaks RESP2. Seconds.
"""

import asyncio
import secrets
from collections import deque
from typing import Any, cast

import hiredis

from gateway.admission.endpoint import Endpoint, Locate
from gateway.tasks import Owned

TICKS = 4
"""One timer serves all calls: a call's time is over after this many of its ticks, so up to a quarter early and never late."""

STALLED_TICKS = 10 * TICKS
"""A connection whose oldest call is this old is given up: its peer may be gone without a word."""

FIRST_PAUSE_S = 0.05
LONGEST_PAUSE_S = 1.0

CONNECT_S = 2.0
"""How long one attempt may take to find the store and to reach it, TLS included."""

STALE = ("READONLY", "LOADING", "MASTERDOWN", "MOVED", "CLUSTERDOWN")
"""Errors of a server that is not, or no longer, the store: it is looked for, and the connection opened anew."""

Argument = str | bytes | int

Reply = Any
"""What RESP2 carries: bytes, integers, None, and lists of them."""


class AdmissionUnavailable(Exception):  # noqa: N818 - a state of the store, not a fault of the call
    """The store gave no verdict in time. Whether the call took effect is unknown."""


class StoreError(AdmissionUnavailable):
    """The store answered a call with an error."""


def pack(command: tuple[Argument, ...]) -> bytes:
    """Return a command as RESP."""
    packed: bytes = hiredis.pack_command(command)  # type: ignore[arg-type] # its stub knows tuples of one element only
    return packed


class Line(asyncio.Protocol):
    """One established connection. Lost once, it is never used again."""

    def __init__(self, timeout_s: float) -> None:
        self._loop = asyncio.get_running_loop()
        self._reader = hiredis.Reader(replyError=StoreError, notEnoughData=self)
        self._calls: deque[tuple[asyncio.Future[Reply], int]] = deque()
        self._outgoing: list[bytes] = []
        self._tick_s = timeout_s / TICKS
        self._tick = 0
        self._timer: asyncio.TimerHandle | None = None
        self._transport: asyncio.Transport | None = None
        self.lost = asyncio.Event()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Keep the transport. Called by the event loop."""
        self._transport = cast(asyncio.Transport, transport)

    def data_received(self, data: bytes) -> None:
        """Give each reply to the call whose turn it is. Called by the event loop."""
        try:
            self._reader.feed(data)
            while (reply := self._reader.gets()) is not self:
                call, _ = self._calls.popleft()
                if not call.done():
                    _answer(call, reply)
                if isinstance(reply, StoreError) and str(reply).startswith(STALE):
                    self.abort()
        except (hiredis.ProtocolError, IndexError):
            # Bytes that are no reply, or a reply that nobody asked for: no later one can be trusted either.
            self.abort()

    def connection_lost(self, exc: Exception | None) -> None:  # noqa: ARG002 - the name is asyncio's
        """Tell every caller that waits. Called by the event loop."""
        if self._timer is not None:
            self._timer.cancel()
        for call, _ in self._calls:
            _fail(call, "the connection was lost")
        self._calls.clear()
        self.lost.set()

    def call(self, command: bytes) -> asyncio.Future[Reply]:
        """Send one packed command with those of the same turn. Raises AdmissionUnavailable, as the future may."""
        if self.lost.is_set():
            raise AdmissionUnavailable("the connection was lost")
        call = self._loop.create_future()
        self._calls.append((call, self._tick))
        if not self._outgoing:
            self._loop.call_soon(self._flush)
        self._outgoing.append(command)
        if self._timer is None:
            self._timer = self._loop.call_later(self._tick_s, self._sweep)
        return call

    def abort(self) -> None:
        """Drop the connection at once."""
        if self._transport is not None:
            self._transport.abort()

    def _flush(self) -> None:
        # A transport that was aborted in this very turn raises; what waits is told when the loss is.
        if self._transport is not None and not self._transport.is_closing():
            self._transport.write(b"".join(self._outgoing))
        self._outgoing.clear()

    def _sweep(self) -> None:
        self._tick += 1
        for call, since in self._calls:
            if self._tick - since < TICKS:
                break
            _fail(call, "the store did not answer in time")
        if self._calls and self._tick - self._calls[0][1] >= STALLED_TICKS:
            self.abort()
        self._timer = self._loop.call_later(self._tick_s, self._sweep) if self._calls else None


def _answer(call: asyncio.Future[Reply], reply: Reply) -> None:
    if isinstance(reply, StoreError):
        call.set_exception(reply)
    else:
        call.set_result(reply)


def _fail(call: asyncio.Future[Reply], reason: str) -> None:
    if not call.done():
        call.set_exception(AdmissionUnavailable(reason))


class Connection:
    """Keeps a line to the store open, with growing pauses between attempts, from `open` to `close`."""

    def __init__(self, locate: Locate, owned: Owned, *, timeout_s: float = 0.1) -> None:
        self._locate = locate
        self._owned = owned
        self._timeout_s = timeout_s
        self._line: Line | None = None
        self._keeper: asyncio.Task[None] | None = None
        self._ready = asyncio.Event()
        self.fault: str | None = "not opened yet"
        """Why there is no connection now; None while there is one."""
        self.losses = 0
        """How many connections were lost: whoever is at the other end may have forgotten what it said last."""

    async def open(self) -> bool:
        """Connect, and keep connected. Return whether the first attempt succeeded; if not, attempts go on."""
        await self._connect()
        self._keeper = self._owned.spawn(self._keep(), name="admission-connection")
        return self._line is not None

    async def close(self) -> None:
        """Close the connection; calls that wait fail."""
        if self._keeper is not None:
            self._keeper.cancel()
            await asyncio.wait([self._keeper])
        if self._line is not None:
            self._line.abort()
            await self._line.lost.wait()
        self._drop("closed")

    async def ready(self) -> None:
        """Wait until there is a connection."""
        await self._ready.wait()

    def call(self, command: bytes) -> asyncio.Future[Reply]:
        """Send one packed command. Raises AdmissionUnavailable at once where there is no connection."""
        if self._line is None:
            raise AdmissionUnavailable(f"no connection to the store: {self.fault}")
        return self._line.call(command)

    async def _keep(self) -> None:
        pause_s = FIRST_PAUSE_S
        this = asyncio.current_task()
        # Asked again at each turn: Python 3.11's wait_for, which the Redis client uses, can swallow a cancellation.
        while this is None or not this.cancelling():
            if self._line is None:
                await asyncio.sleep(pause_s * (1 + secrets.randbelow(1000) / 1000))
                pause_s = min(2 * pause_s, LONGEST_PAUSE_S)
                await self._connect()
            else:
                pause_s = FIRST_PAUSE_S
                await self._line.lost.wait()
                self._drop("the connection was lost")

    async def _connect(self) -> None:
        try:
            async with asyncio.timeout(CONNECT_S):
                endpoint = await self._locate()
                line = await self._dial(endpoint)
        except OSError as error:
            # TimeoutError and ssl.SSLError are OSErrors; the text names an address or a certificate, never a credential.
            self.fault = f"{type(error).__name__}: {error}"
            return
        try:
            await self._enter(line, endpoint)
        except AdmissionUnavailable as error:
            line.abort()
            self.fault = str(error)
            return
        self._line, self.fault = line, None
        self._ready.set()

    def _drop(self, fault: str) -> None:
        self._line, self.fault = None, fault
        self.losses += 1
        self._ready.clear()

    async def _dial(self, endpoint: Endpoint) -> Line:
        loop = asyncio.get_running_loop()

        def make_line() -> Line:
            return Line(self._timeout_s)

        if endpoint.path:
            _, line = await loop.create_unix_connection(make_line, endpoint.path)
        else:
            _, line = await loop.create_connection(make_line, endpoint.host, endpoint.port, ssl=endpoint.tls)
        return line

    async def _enter(self, line: Line, endpoint: Endpoint) -> None:
        """Log in, choose the database and see that the store answers."""
        commands: list[tuple[Argument, ...]] = []
        if endpoint.password:
            names = (endpoint.username,) if endpoint.username else ()
            commands.append(("AUTH", *names, endpoint.password.reveal()))
        if endpoint.database:
            commands.append(("SELECT", endpoint.database))
        for command in (*commands, ("PING",)):
            await line.call(pack(command))
