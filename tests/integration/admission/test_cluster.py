"""The store in a real cluster: its slot moves, its owner hands over or dies, and what callers were told stays true."""

import asyncio
from collections.abc import Iterator
from pathlib import Path

import pytest
from redis.exceptions import ConnectionError as RedisConnectionError

from gateway.admission.client import cell_prefix, ledger_key, turn_channel
from gateway.admission.connection import AdmissionUnavailable
from gateway.admission.discovery import NotFoundError, locator
from gateway.admission.redis_client import open_client
from gateway.stores.stream import Stream
from tests.clusters import SLOT, Cluster
from tests.integration.admission.callers import DAILY, callers_of
from tests.integration.admission.rows import acquire, row
from tests.integration.admission.state import ask
from tests.integration.processes.conditions import until
from tests.nodes import Node, free_ports


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    cluster = Cluster()
    try:
        asyncio.run(cluster.start())
        yield cluster
    finally:
        cluster.stop()


@pytest.fixture(autouse=True)
async def emptied(cluster: Cluster) -> None:
    await cluster.revive()
    await (await cluster.owner_of(SLOT)).ask("FLUSHALL")


async def test_calls_go_on_where_the_slot_goes(cluster: Cluster) -> None:
    async with callers_of(locator(cluster.url)) as callers:
        async with callers.calling():
            for node in cluster.nodes[:3]:
                await callers.more()
                if node is not await cluster.owner_of(SLOT):
                    await cluster.move_slot(SLOT, node)
            await callers.more()
        assert callers.unanswered
        assert await callers.where() == (await cluster.owner_of(SLOT)).port
        await callers.assert_kept()


async def test_calls_go_on_at_the_replica_that_is_handed_the_slot(cluster: Cluster) -> None:
    async with callers_of(locator(cluster.url)) as callers:
        async with callers.calling():
            await callers.more()
            replica = await cluster.fail_over()
            await callers.more()
        assert await callers.where() == replica.port
        await callers.assert_kept()


async def test_calls_go_on_at_the_replica_of_an_owner_that_died(cluster: Cluster) -> None:
    owner = await cluster.owner_of(SLOT)
    async with callers_of(locator(f"redis+cluster://{owner.place}")) as callers:
        for _ in range(20):
            await callers.call()
        await ask(callers.connection, "WAIT", 1, 5_000)
        assert await cluster.kill_owner() is owner
        async with callers.calling():
            await callers.more()
        assert callers.unanswered
        assert await callers.where() == (await cluster.owner_of(SLOT)).port
        await callers.assert_kept()


async def test_a_cluster_that_is_down_is_away_until_it_is_whole(cluster: Cluster) -> None:
    owner, replica = await cluster.owner_of(SLOT), await cluster.replicate(SLOT)
    other = next(node for node in cluster.nodes if node not in (owner, replica))
    async with callers_of(locator(cluster.url)) as callers:
        await callers.call()
        other.kill()

        async def is_down() -> bool:
            try:
                await ask(callers.connection, "GET", ledger_key())
            except AdmissionUnavailable as away:
                return str(away).startswith("CLUSTERDOWN")
            return False

        await until(is_down)
        await other.start()
        await callers.call()
        assert callers.unanswered
        await callers.assert_kept()


async def test_nothing_runs_while_the_slots_keys_move_one_by_one(cluster: Cluster) -> None:
    owner = await cluster.owner_of(SLOT)
    target = next(node for node in cluster.nodes[:3] if node is not owner)
    names = [(await node.ask("CLUSTER", "MYID")).decode() for node in (owner, target)]
    async with callers_of(locator(cluster.url)) as callers:
        await callers.call()
        await target.ask("CLUSTER", "SETSLOT", SLOT, "IMPORTING", names[0])
        await owner.ask("CLUSTER", "SETSLOT", SLOT, "MIGRATING", names[1])
        with pytest.raises(AdmissionUnavailable, match=r"^(TRYAGAIN|ASK)"):
            await callers.admission.acquire(acquire("mine", row(DAILY)))
        for node in (owner, target):
            await node.ask("CLUSTER", "SETSLOT", SLOT, "STABLE")
        await callers.call()
        assert not callers.unanswered
        await callers.assert_kept()


async def test_the_ledgers_client_and_the_turns_follow(cluster: Cluster) -> None:
    locate, channel = locator(cluster.url), turn_channel(cell_prefix("tg", "c0"), "w1")
    async with (
        callers_of(locate) as callers,
        open_client(locate, timeout_s=2.0) as redis,
        redis.pubsub(ignore_subscribe_messages=True) as listener,
    ):
        stream = Stream(redis, ledger_key())
        await stream.ensure()
        await listener.subscribe(channel)
        await callers.call()
        assert (await stream.backlog()).length == 2
        owner = await cluster.owner_of(SLOT)
        await cluster.move_slot(SLOT, next(node for node in cluster.nodes[:3] if node is not owner))
        with pytest.raises(RedisConnectionError, match="elsewhere"):
            await stream.backlog()
        assert [entry.fields[b"kind"] for entry in await stream.fresh(10)] == [b"open", b"close"]
        await callers.call()
        await ask(callers.connection, "PUBLISH", channel, "r1")
        assert await until(lambda: listener.get_message(timeout=1.0)) == {
            "type": "message",
            "pattern": None,
            "channel": channel.encode(),
            "data": b"r1",
        }


async def test_the_next_search_begins_with_another_node(tmp_path: Path) -> None:
    one, other, *buses = free_ports(4)
    apart = [
        Node(tmp_path, port, "--cluster-enabled", "yes", "--cluster-port", f"{bus}", "--cluster-config-file", f"{port}.conf")
        for port, bus in zip((one, other), buses, strict=True)
    ]
    try:
        for node in apart:  # each is a cluster of its own, which does not even know under which name it is known
            await node.start()
            await node.ask("CLUSTER", "ADDSLOTSRANGE", 0, 16_383)
        locate = locator(f"redis+cluster://{','.join(node.place for node in apart)}")
        found = [(await locate()).place for _ in range(4)]
        assert found == [node.place for node in apart] * 2
    finally:
        for node in apart:
            node.kill()


async def test_a_cluster_that_is_not_there_is_told_of_without_its_password() -> None:
    with pytest.raises(NotFoundError) as fault:
        await locator("redis+cluster://tiergate:hunter22@127.0.0.1:1,127.0.0.1:2")()
    assert "127.0.0.1:1" in str(fault.value)
    assert "127.0.0.1:2" in str(fault.value)
    assert "hunter22" not in str(fault.value)
