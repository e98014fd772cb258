"""Requests that are cancelled while they are under way, thousands of them: no reply reaches another, and no pool gets smaller.

Every request carries a nonce that its reply repeats. `make test-all` cancels ten thousand on each of the four clients.
"""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from random import Random

import pytest
from hypothesis import settings

from gateway.admission.connection import Connection, pack
from gateway.admission.discovery import locator
from gateway.admission.redis_client import open_client
from gateway.policy.catalogue import Provider, Secret, Timeouts
from gateway.tasks import Owned
from gateway.upstream import connect
from gateway.upstream.transport import Outgoing, Transport
from tests.conftest import EXAMPLES
from tests.fakes.http_server import Call, HttpServer
from tests.valkey import Valkey

CANCELS = 10_000 if settings().max_examples >= EXAMPLES["thorough"] else 1_000
AT_ONCE = 32
SEED = 3
FEWEST_TURNS, MORE, LESS = 20.0, 1.01, 0.97
"""How many turns of the loop a request has: a little more after each that was cancelled, fewer after each that was not.

So one in four finishes, however fast the machine is, and the others are cut off all along their way.
"""

AT_WORK = "for _ = 1, 30000 do end return ARGV[1]"
"""What a store is asked that repeats a nonce, and is waited for."""

FEWEST_FINISHED = CANCELS // 10
TIMEOUT_S = 20.0

Ask = Callable[[bytes], Awaitable[bytes]]
"""Sends a nonce and returns what came back."""


class Storm:
    """Asks, so many at once, and cancels each at a random moment, most of them before their reply is in."""

    def __init__(self, ask: Ask) -> None:
        self.cancelled = 0
        self.finished = 0
        self._ask = ask
        self._random = Random(SEED)
        self._turns = FEWEST_TURNS
        self._asked = 0

    async def rage(self, cancels: int) -> None:
        """Go on until so many were cancelled in flight."""
        await asyncio.gather(*(self._go_on(cancels) for _ in range(AT_ONCE)))

    async def full_strength(self) -> None:
        """Ask for as much at once as was asked at once before."""
        await asyncio.gather(*(self._one() for _ in range(AT_ONCE)))

    async def _go_on(self, cancels: int) -> None:
        while self.cancelled < cancels:
            asking = asyncio.get_running_loop().create_task(self._one())
            for _ in range(1 + round(self._random.uniform(0, self._turns))):
                if asking.done():
                    break
                await asyncio.sleep(0)
            asking.cancel()
            await asyncio.wait({asking})
            if asking.cancelled():
                self.cancelled += 1
                self._turns *= MORE
            else:
                asking.result()
                self.finished += 1
                self._turns = max(FEWEST_TURNS, self._turns * LESS)

    async def _one(self) -> None:
        nonce = self._nonce()
        assert await self._ask(nonce) == nonce

    def _nonce(self) -> bytes:
        self._asked += 1
        return b"%d %d" % (self._asked, self._random.getrandbits(64))


class Upstream:
    """Repeats each nonce: in pieces, some in turns of their own, of a length that was told or not. `/muster` waits for all."""

    def __init__(self) -> None:
        self._present: list[Call] = []

    async def __call__(self, call: Call) -> None:
        if call.request.path == "/muster":
            self._muster(call)
            return
        nonce = call.request.body
        turns, chunked = nonce[-1] % 3, bool(nonce[-2] % 2)
        await turn(turns)
        call.head(200, length=None if chunked else len(nonce), chunked=chunked)
        for piece in (nonce[:3], nonce[3:]):
            call.piece(piece)
            await turn(turns)
        if chunked:
            call.end()

    def _muster(self, call: Call) -> None:
        self._present.append(call)
        if len(self._present) == AT_ONCE:
            for each in self._present:
                each.reply(200, each.request.body)


async def turn(count: int) -> None:
    for _ in range(count):
        await asyncio.sleep(0)


@asynccontextmanager
async def transport(kind: str) -> AsyncIterator[tuple[Transport, HttpServer]]:
    patient = Timeouts(connect_s=TIMEOUT_S, pool_s=TIMEOUT_S)
    async with HttpServer(Upstream()) as server:
        provider = Provider(name="p", dialect="openai", base_url=server.base_url, api_key=Secret(""), transport=kind)
        found = connect(provider, patient, max_connections=AT_ONCE)
        try:
            yield found, server
        finally:
            await found.aclose()


async def none_in_use(transport: Transport) -> None:
    """Wait until what the cancelled have left is tidied up."""
    async with asyncio.timeout(5.0):
        while (held := transport.occupancy()).busy or held.waiting:
            await asyncio.sleep(0.001)


def assert_it_was_a_storm(storm: Storm) -> None:
    assert storm.cancelled >= CANCELS
    assert storm.finished >= FEWEST_FINISHED
    print(f"{storm.cancelled} cancelled, {storm.finished} finished")


@pytest.mark.timeout(600)
@pytest.mark.parametrize("kind", ["http1", "httpx"])
async def test_replies_of_a_provider_are_their_own_requests(kind: str) -> None:
    async with transport(kind) as (pool, server):

        async def ask(nonce: bytes, path: str = "/") -> bytes:
            reply = await pool.open(Outgoing(path=path, headers=(), body=nonce))
            try:
                return await reply.read(1_000)
            finally:
                reply.close()

        storm = Storm(ask)
        await storm.rage(CANCELS)
        await none_in_use(pool)
        nonces = [b"%d" % number for number in range(AT_ONCE)]
        assert await asyncio.gather(*(ask(nonce, "/muster") for nonce in nonces)) == nonces
        await none_in_use(pool)
        assert_it_was_a_storm(storm)
        assert len(server.lines) <= AT_ONCE


async def test_replies_of_the_admission_store_are_their_own_calls(valkey: Valkey) -> None:
    connection = Connection(locator(valkey.url), Owned(), timeout_s=TIMEOUT_S)
    assert await connection.open()

    async def ask(nonce: bytes) -> bytes:
        return bytes(await connection.call(pack(("EVAL", AT_WORK, 0, nonce))))

    storm = Storm(ask)
    await storm.rage(CANCELS)
    await storm.full_strength()
    assert_it_was_a_storm(storm)
    assert connection._line is not None
    assert not connection._line._calls
    await connection.close()


async def test_replies_of_the_other_client_of_the_store_are_their_own_calls(valkey: Valkey) -> None:
    async with open_client(locator(valkey.url), timeout_s=TIMEOUT_S) as redis:

        async def ask(nonce: bytes) -> bytes:
            return bytes(await redis.eval(AT_WORK, 0, nonce))

        storm = Storm(ask)
        await storm.rage(CANCELS)
        await storm.full_strength()
        assert_it_was_a_storm(storm)
        assert not redis.connection_pool._in_use_connections
        assert len(redis.connection_pool._available_connections) <= AT_ONCE
