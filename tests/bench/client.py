"""The load: so many keep-alive connections in a closed loop, each answer read whole and looked at. Durations are seconds."""

import asyncio
import contextlib
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import cast

import httptools

from tests.bench.loads import Load

LATE_S = 5.0
"""How long the last answers may take after the last request is sent."""


@dataclass
class Tally:
    """What came of a load."""

    latencies_s: list[float] = field(default_factory=list)
    errors: Counter[str] = field(default_factory=Counter)
    elapsed_s: float = 0.0


class Client(asyncio.Protocol):
    """One connection: sends the next request when the last is answered, while there is `more`."""

    def __init__(self, load: Load, tally: Tally, more: Callable[[], bool]) -> None:
        self._load = load
        self._tally = tally
        self._more = more
        self._parser = httptools.HttpResponseParser(self)
        self.finished = asyncio.get_running_loop().create_future()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)

    def send(self) -> None:
        """Send the first or the next request, or finish."""
        if self.finished.done():
            return
        if not self._more():
            self.finished.set_result(None)
            return
        self._body_bytes, self._last = 0, b""
        self._sent_s = time.perf_counter()
        self._transport.write(self._load.request)

    def data_received(self, data: bytes) -> None:
        try:
            self._parser.feed_data(data)
        except httptools.HttpParserError as error:
            self._fail(f"not HTTP: {error}")

    def on_body(self, piece: bytes) -> None:
        self._body_bytes += len(piece)
        self._last = piece

    def on_message_complete(self) -> None:
        self._tally.latencies_s.append(time.perf_counter() - self._sent_s)
        if (status := self._parser.get_status_code()) != 200:
            self._tally.errors[f"status {status}"] += 1
        elif self._body_bytes < self._load.least_bytes or not self._last.endswith(self._load.end):
            self._tally.errors["not the whole answer"] += 1
        self.send()

    def connection_lost(self, exc: Exception | None) -> None:
        self._fail("connection lost")

    def close(self) -> None:
        """Hang up; a request that is still unanswered has failed."""
        self._fail("no answer in time")
        self._transport.close()

    def _fail(self, reason: str) -> None:
        if not self.finished.done():
            self._tally.errors[reason] += 1
            self.finished.set_result(None)


async def drive(port: int, load: Load, more: Callable[[], bool], longest_s: float) -> Tally:
    """Send a load while there is `more`, and for no longer than this."""
    loop = asyncio.get_running_loop()
    tally = Tally()
    opened = [await loop.create_connection(lambda: Client(load, tally, more), "127.0.0.1", port) for _ in range(load.connections)]
    clients = [client for _, client in opened]
    began_s = time.perf_counter()
    for client in clients:
        client.send()
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(longest_s + LATE_S):
            await asyncio.gather(*(client.finished for client in clients))
    tally.elapsed_s = time.perf_counter() - began_s
    for client in clients:
        client.close()
    return tally


async def drive_for(port: int, load: Load, seconds: float) -> Tally:
    """Send a load for so long."""
    end_s = time.perf_counter() + seconds
    return await drive(port, load, lambda: time.perf_counter() < end_s, seconds)


async def drive_count(port: int, load: Load, count: int) -> Tally:
    """Send so many requests."""
    left = iter(range(count))
    return await drive(port, load, lambda: next(left, None) is not None, LATE_S)
