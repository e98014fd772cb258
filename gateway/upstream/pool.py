"""The connections to one origin: who holds one, who waits for one, which rest.

A caller without an idle connection stands in line; a connection that is made or comes back goes to the first in line, and rests
when there is none. Connections are made by tasks of the pool's own, one for each in line while there is room, so a caller that
leaves abandons its place and nothing else. One timer looks after all deadlines of the pool. Times are seconds of the monotonic
clock.
"""

import asyncio
import math
import ssl
import time
from collections.abc import Callable

from gateway.faults import Fault
from gateway.policy.catalogue import Timeouts
from gateway.tasks import Owned
from gateway.upstream.content import decoded
from gateway.upstream.dial import dial
from gateway.upstream.http1 import Connection, RequestHead
from gateway.upstream.origin import Origin
from gateway.upstream.transport import Occupancy, Outgoing, Reply, TransportError

SWEEP_S = 0.1
"""How late a deadline may be noticed. A sweep costs some 0.05 us for each exchange under way."""


class Pool:
    """A `Transport` of pooled HTTP/1.1 connections."""

    def __init__(self, origin: Origin, timeouts: Timeouts, *, max_connections: int, tls: ssl.SSLContext | None) -> None:
        self._origin = origin
        self._head = RequestHead(origin)
        self._timeouts = timeouts
        self._max_connections = max_connections
        self._tls = tls if origin.tls else None
        self._idle: dict[Connection, None] = {}
        self._busy: set[Connection] = set()
        self._waiting: dict[asyncio.Future[Connection], tuple[float, float, Fault]] = {}
        """Since when, until when, and what it is called when that has passed."""
        self._dialling = Owned()
        self._timer: asyncio.TimerHandle | None = None
        self._connecting = 0
        self._watching = False
        self._closed = False

    async def open(self, outgoing: Outgoing, deadline_s: float = math.inf, on_sent: Callable[[], None] | None = None) -> Reply:
        """Send the request and return when the reply's head is in. Raises `TransportError`."""
        head = self._head.of(outgoing)
        connection = self._rested() or await self._stand_in_line(deadline_s)
        exchange = connection.send(head, outgoing.body, deadline_s)
        if on_sent is not None:
            on_sent()
        self._watch()
        try:
            await exchange.head()
        except BaseException:
            exchange.close()
            raise
        return decoded(exchange)

    def occupancy(self) -> Occupancy:
        """Return what is held now."""
        return Occupancy(busy=len(self._busy) + self._connecting, idle=len(self._idle), waiting=len(self._waiting))

    async def aclose(self) -> None:
        """Close every connection; exchanges under way fail."""
        self._closed = True
        for place in [*self._waiting]:
            self._send_off(place, _closed())
        for connection in [*self._busy, *self._idle]:
            connection.fail(TransportError(Fault.RESET, "the transport was closed", sent=True))
        await self._dialling.drain(0)
        if self._timer is not None:
            self._timer.cancel()

    def keep(self, connection: Connection) -> None:
        """Give an open connection to the first in line, or let it rest."""
        while self._waiting:
            place = next(iter(self._waiting))
            del self._waiting[place]
            if not place.done():
                self._busy.add(connection)
                place.set_result(connection)
                return
        self._busy.discard(connection)
        self._idle[connection] = None
        if connection.rest_s <= 0:
            connection.close()

    def lose(self, connection: Connection) -> None:
        """Forget a closed connection; its room goes to those in line."""
        self._busy.discard(connection)
        self._idle.pop(connection, None)
        self._grow()

    def _rested(self) -> Connection | None:
        while self._idle:
            connection, _ = self._idle.popitem()
            if connection.rests_until_s <= time.monotonic() or connection.is_stale():
                connection.close()
            else:
                self._busy.add(connection)
                return connection
        return None

    async def _stand_in_line(self, deadline_s: float) -> Connection:
        while True:
            connection = self._rested() or await self._turn(deadline_s)
            if not connection.is_stale():
                return connection
            connection.close()
            if not connection.used:
                raise _hung_up()

    async def _turn(self, deadline_s: float) -> Connection:
        if self._closed:
            raise _closed()
        patience_s = self._timeouts.pool_s + (self._timeouts.connect_s if self._room() else 0.0)
        place: asyncio.Future[Connection] = asyncio.get_running_loop().create_future()
        since_s = time.monotonic()
        self._waiting[place] = (since_s, *min((deadline_s, Fault.TIMEOUT), (since_s + patience_s, Fault.CONNECT)))
        self._grow()
        self._watch()
        try:
            return await place
        except asyncio.CancelledError:
            self._waiting.pop(place, None)
            if not place.cancelled() and place.exception() is None and not place.result().closed:
                self.keep(place.result())
            raise

    def _room(self) -> int:
        return self._max_connections - len(self._busy) - len(self._idle) - self._connecting

    def _grow(self) -> None:
        for _ in range(min(self._room(), len(self._waiting) - self._connecting)):
            self._connecting += 1
            _ = self._dialling.spawn(self._connect(), name="upstream-connect")

    async def _connect(self) -> None:
        outcome: Connection | TransportError
        began_s = time.monotonic()
        try:
            outcome = await dial(self._origin, self._tls, self._timeouts.connect_s, self._new)
        except TransportError as error:
            outcome = error
        finally:
            self._connecting -= 1
        if isinstance(outcome, Connection) and not outcome.closed:
            self.keep(outcome)
        elif len(self._waiting) > self._connecting:
            # More stand in line than connections are being made for them: the first has had its chance, unless it came later.
            place, (since_s, _, _) = next(iter(self._waiting.items()))
            if since_s <= began_s:
                self._send_off(place, _hung_up() if isinstance(outcome, Connection) else outcome)
            self._grow()

    def _new(self) -> Connection:
        return Connection(self, self._timeouts.write_s)

    def _send_off(self, place: asyncio.Future[Connection], error: TransportError) -> None:
        del self._waiting[place]
        if not place.done():
            place.set_exception(error)

    def _watch(self) -> None:
        if self._watching:
            return
        if self._timer is not None:
            self._timer.cancel()
        self._watching = True
        self._timer = asyncio.get_running_loop().call_later(SWEEP_S, self._sweep)

    def _sweep(self) -> None:
        now_s = time.monotonic()
        self._timer, self._watching = None, False
        for connection in [*self._busy]:
            connection.expire(now_s)
        for place, (_, until_s, fault) in [*self._waiting.items()]:
            if until_s <= now_s:
                self._send_off(place, TransportError(fault, "no connection became free in time", sent=False))
        for connection in [*self._idle]:
            if connection.rests_until_s <= now_s:
                connection.close()
        if self._busy or self._waiting:
            self._watch()
        elif self._idle:
            first_s = min(connection.rests_until_s for connection in self._idle)
            self._timer = asyncio.get_running_loop().call_later(first_s - now_s, self._sweep)


def _closed() -> TransportError:
    return TransportError(Fault.CONNECT, "the transport is closed", sent=False)


def _hung_up() -> TransportError:
    return TransportError(Fault.CONNECT, "the peer closed a new connection at once", sent=False)
