"""Deployments that leave: running answers end, the others are sent elsewhere, and the process does end."""

import asyncio
import signal
from asyncio import IncompleteReadError
from collections import Counter
from pathlib import Path

import msgspec
import pytest
import pytest_asyncio
from redis import Redis

from tests.fakes.http_server import HttpServer
from tests.fakes.wire import Answer, Wire
from tests.field.leaving import Holding, Leaving, asked
from tests.integration.load.witness import PREFIX
from tests.integration.processes.conditions import until, until_gone
from tests.valkey import Valkey

STREAMS = CLIENTS = 10
ANSWERS = 2


def leases(valkey: Valkey) -> int:
    with Redis(unix_socket_path=valkey.socket) as redis:
        return int(redis.zcard(PREFIX + b"leases"))


def is_draining(answer: Answer, *, closes: bool = True) -> None:
    """Assert that an answer says that it has to be asked for elsewhere."""
    assert (answer.status, answer.json()["error"]["code"]) == (503, "draining")
    assert int(answer.headers["retry-after"]) >= 1
    if closes:
        assert answer.headers["connection"] == "close"


class Departure(msgspec.Struct, frozen=True, kw_only=True):
    """What was seen of a gateway that was told to leave while streams, answers and clients without a pause were at it."""

    kept: tuple[Answer, Answer]
    """Two answers on one connection: before and behind the signal."""
    closed: list[bool]
    """Whether that connection, and an idle one, were closed without another word."""
    unfinished: bool
    """Whether all streams and answers were still under way when nobody was taken in any more."""
    streams: list[str]
    answers: list[int]
    back_to_back: Counter[str]
    exit_code: int
    outcomes: Counter[str]
    leases: int


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def departure(valkey_server: Valkey, tmp_path_factory: pytest.TempPathFactory) -> Departure:
    holding, directory, seen = Holding(), tmp_path_factory.mktemp("departure"), Counter[str]()
    shutdown = {"delay": "1s"}
    async with HttpServer(holding) as upstream, Leaving(upstream, valkey_server, directory, shutdown=shutdown) as gateway:
        streams = [asyncio.create_task(gateway.ask(stream=True)) for _ in range(STREAMS)]
        answers = [asyncio.create_task(gateway.ask()) for _ in range(ANSWERS)]
        await holding.holds(STREAMS + ANSWERS)
        clients = [asyncio.create_task(back_to_back(gateway, seen)) for _ in range(CLIENTS)]
        async with Wire(gateway.url) as idle, Wire(gateway.url) as used:
            await used.send(asked(user="quick"))
            before = await used.answer()
            await until(lambda: have(seen, "200", 5 * CLIENTS))
            gateway.signal()
            await until(lambda: is_away(gateway))
            await used.send(asked(user="quick"))
            behind = await used.answer()
            closed = [await used.ended()]
            await until(gateway.refuses_connections)
            closed.append(await idle.ended())
        await asyncio.gather(*clients)
        unfinished = not any(task.done() for task in (*streams, *answers))
        holding.go_on.set()
        return Departure(
            kept=(before, behind),
            closed=closed,
            unfinished=unfinished,
            streams=[answer.text for answer in await asyncio.gather(*streams)],
            answers=[answer.status_code for answer in await asyncio.gather(*answers)],
            back_to_back=seen,
            exit_code=await gateway.exit_code(),
            outcomes=Counter(row["outcome"] for row in await gateway.rows()),
            leases=leases(valkey_server),
        )


async def is_away(gateway: Leaving) -> bool:
    return await gateway.readiness() == (503, "draining")


async def have(seen: Counter[str], what: str, count: int) -> bool:
    return seen[what] >= count


async def back_to_back(gateway: Leaving, seen: Counter[str]) -> None:
    """Ask again and again, on one connection for as long as it is kept, until nobody takes connections any more."""
    while True:
        try:
            async with Wire(gateway.url) as wire:
                closing = False
                while not closing:
                    await wire.send(asked(user="quick"))
                    answer = await wire.answer()
                    closing = answer.headers.get("connection") == "close"
                    seen[f"{answer.status}{' and close' if closing else ''}"] += 1
                assert await wire.ended()
        except ConnectionRefusedError:
            return
        except (ConnectionError, IncompleteReadError):
            seen["no answer"] += 1


def test_dep_01_running_streams_end_by_themselves(departure: Departure) -> None:
    before, behind = departure.kept
    assert (before.status, before.headers.get("connection")) == (200, None)
    assert (behind.status, behind.headers["connection"]) == (200, "close")
    assert departure.closed == [True, True]
    assert departure.unfinished
    assert {text.endswith("data: [DONE]\n\n") for text in departure.streams} == {True}
    assert departure.answers == [200] * ANSWERS
    assert (departure.exit_code, departure.leases) == (0, 0)


def test_dep_03_kept_connections_do_not_hold_a_drain_up(departure: Departure) -> None:
    seen = departure.back_to_back
    assert seen["200 and close"] >= CLIENTS
    assert seen["503"] == 0
    # Whoever connects in the very moment in which the listener closes finds nobody there.
    assert seen["no answer"] <= CLIENTS
    others = STREAMS + ANSWERS + len(departure.kept)
    assert departure.outcomes == {"ok": seen["200"] + seen["200 and close"] + others}
    assert departure.exit_code == 0


async def test_dep_02_an_end_comes_for_what_never_ends(valkey: Valkey, tmp_path: Path) -> None:
    holding = Holding()
    async with HttpServer(holding) as upstream, Leaving(upstream, valkey, tmp_path, shutdown={"drain": "300ms"}) as gateway:
        stream = asyncio.create_task(gateway.ask(stream=True))
        whole = asyncio.create_task(gateway.ask())
        deaf = gateway.connected()  # it never reads
        deaf.sendall(asked(stream=True))
        async with Wire(gateway.url) as idle:
            await holding.holds(3)
            gateway.signal()
            assert await idle.ended()
        told = await stream
        assert (told.status_code, told.text.count('"error"'), told.text.count('"code":"draining"')) == (200, 1, 1)
        assert "Hello" in told.text
        assert "[DONE]" not in told.text
        told = await whole
        assert (told.status_code, told.json()["error"]["code"]) == (503, "draining")
        assert await gateway.exit_code() == 0
        deaf.close()
        assert Counter(row["outcome"] for row in await gateway.rows()) == {"interrupted": 3}
    assert leases(valkey) == 0


async def test_dep_02_who_waits_or_comes_too_late_is_sent_elsewhere(valkey: Valkey, tmp_path: Path) -> None:
    holding = Holding()
    async with HttpServer(holding) as upstream, Leaving(upstream, valkey, tmp_path, slots=1) as gateway:
        running = asyncio.create_task(gateway.ask(model="full"))
        await holding.holds(1)
        async with Wire(gateway.url) as queued, Wire(gateway.url) as told, Wire(gateway.url) as half:
            await half.send(asked()[:40])
            await queued.send(asked(model="full", service_tier="flex"))
            await told.send(asked(model="full", stream=True))
            await until(lambda: has_waiters(gateway, 2))
            await queued.send(asked(user="quick"))
            gateway.signal()
            is_draining(await queued.answer(), closes=False)
            is_draining(await queued.answer())
            is_draining(await told.answer())
            await half.send(asked()[40:])
            is_draining(await half.answer())
            assert [await each.ended() for each in (queued, told, half)] == [True] * 3
        assert not running.done()
        holding.go_on.set()
        assert (await running).status_code == 200
        assert await gateway.exit_code() == 0
        assert Counter(row["outcome"] for row in await gateway.rows()) == {"ok": 1}
    assert leases(valkey) == 0


async def has_waiters(gateway: Leaving, count: int) -> bool:
    lines = (await gateway.client.get(f"{gateway.ops}/metrics")).text.splitlines()
    depths = [line for line in lines if line.startswith("tiergate_queue_depth{") and 'model="full"' in line]
    return sum(float(line.rpartition(" ")[2]) for line in depths) == count


async def test_dep_02_a_second_signal_ends_it_at_once(valkey: Valkey, tmp_path: Path) -> None:
    holding = Holding()
    async with HttpServer(holding) as upstream, Leaving(upstream, valkey, tmp_path, shutdown={"drain": "10m"}) as gateway:
        members = gateway.members()
        stream = asyncio.create_task(gateway.ask(stream=True))
        await holding.holds(1)
        gateway.signal()
        await until(gateway.refuses_connections)
        assert not stream.done()
        gateway.signal()
        assert await gateway.exit_code(within_s=5.0) == 128 + signal.SIGTERM
        await until_gone(members)
        await asyncio.gather(stream, return_exceptions=True)
