"""The store behind real sentinels: its primary hands over or dies, and nobody ever writes to the one that was."""

import asyncio
from collections.abc import Iterator

import pytest

from gateway.admission.client import ledger_key
from gateway.admission.discovery import NotFoundError, locator
from gateway.admission.redis_client import open_client
from tests.integration.admission.callers import callers_of
from tests.integration.admission.state import ask
from tests.sentinels import NAME, Watched


@pytest.fixture(scope="module")
def watched() -> Iterator[Watched]:
    watched = Watched()
    try:
        asyncio.run(watched.start())
        yield watched
    finally:
        watched.stop()


@pytest.fixture(autouse=True)
async def emptied(watched: Watched) -> None:
    await (await watched.primary()).ask("FLUSHALL")


async def test_calls_go_on_at_the_replica_that_is_made_primary(watched: Watched) -> None:
    async with callers_of(locator(watched.url)) as callers:
        async with callers.calling():
            await callers.more()
            new = await watched.fail_over(coordinated=True)
            await callers.more()
        assert await callers.where() == new.port
        await callers.assert_kept()


async def test_calls_go_on_when_the_primary_has_died_and_leave_it_alone_when_it_is_back(watched: Watched) -> None:
    async with callers_of(locator(watched.url)) as callers:
        for _ in range(20):
            await callers.call()
        await ask(callers.connection, "WAIT", 1, 5_000)
        dead = await watched.kill_primary()
        async with callers.calling():
            await callers.more()
            await dead.start()  # as a primary, until the sentinel sees it
            await callers.more()
        assert callers.unanswered
        assert await callers.where() == (await watched.primary()).port
        await callers.assert_kept()
        await watched.follows(dead, await watched.primary())


async def test_the_ledgers_client_follows(watched: Watched) -> None:
    async with open_client(locator(watched.url), timeout_s=2.0) as redis:
        await redis.set(ledger_key(), "before")
        new = await watched.fail_over(coordinated=True)
        assert await redis.get(ledger_key()) == b"before"
        await redis.set(ledger_key(), "after")
    assert await new.ask("GET", ledger_key()) == b"after"


async def test_a_server_that_is_no_primary_is_not_entered(watched: Watched) -> None:
    primary = await watched.primary()
    replica = next(server for server in watched.servers if server is not primary)
    sentinel = watched.sentinels[0]
    await sentinel.ask("SENTINEL", "MONITOR", "wrong", "127.0.0.1", replica.port, 1)
    try:
        with pytest.raises(NotFoundError, match="is no primary"):
            await locator(watched.url.replace(NAME, "wrong"))()
    finally:
        await sentinel.ask("SENTINEL", "REMOVE", "wrong")


async def test_a_sentinel_that_is_gone_is_passed_over_and_an_unknown_name_is_told_of(watched: Watched) -> None:
    locate = locator(watched.url.replace("://", "://tiergate:hunter22@127.0.0.1:1,").replace(NAME, "unknown"))
    for _ in range(2):
        with pytest.raises(NotFoundError, match="watches no primary") as fault:
            await locate()
        assert "127.0.0.1:1" in str(fault.value)
        assert "hunter22" not in str(fault.value)
