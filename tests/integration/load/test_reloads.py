"""Reloads of a gateway of four workers: many in a row, unasked too, and with workers that are killed or stopped meanwhile."""

import asyncio
import os
import signal
from collections.abc import AsyncIterator

import msgspec
import pytest
import pytest_asyncio

from tests.integration.load.mounted import (
    DEAR,
    OTHER,
    WITHIN_S,
    Mounted,
    assert_kept_what_they_began_with,
    holds_on,
    mounted_gateway,
)
from tests.integration.processes.conditions import until
from tests.running import SECRET
from tests.valkey import Valkey

pytestmark = pytest.mark.asyncio(loop_scope="module")

WORKERS = 4
RELOADS = 20
PAUSE_S = 0.01
"""Between two requests of a client: the workers need the machine too."""


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def mounted(valkey_server: Valkey, tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Mounted]:
    async with mounted_gateway(valkey_server, tmp_path_factory.mktemp("mounted"), WORKERS) as found:
        yield found


@pytest.mark.timeout(240)
async def test_nothing_fails_over_twenty_reloads_and_each_request_keeps_what_it_began_with(mounted: Mounted) -> None:
    assert await mounted.metric("tiergate_config_generation") == 1
    streams = await holds_on(mounted, 20)
    statuses: list[int] = []
    over = asyncio.Event()

    async def asks_on() -> None:
        while not over.is_set():
            statuses.append((await mounted.ask(user="quick")).status_code)
            await asyncio.sleep(PAUSE_S)

    asking = [asyncio.create_task(asks_on()) for _ in range(4)]
    for number in range(RELOADS):
        settings = mounted.copy()
        settings["models"]["m"].update(price=DEAR, tiers=["default"], max_n=number + 1)
        if number % 5 == 0:
            await mounted.refuses(b"models: {m: [}")
        await mounted.change(settings, by_itself=number % 5 == 4)
    over.set()
    await asyncio.gather(*asking)
    assert len(statuses) > RELOADS
    assert set(statuses) == {200}
    await assert_kept_what_they_began_with(mounted, streams)


async def test_the_file_and_mounted_secrets_are_noticed_without_a_word(mounted: Mounted) -> None:
    settings = mounted.copy()
    settings["keys"].append({"name": "other", "org": "acme", "secret": f"${{file:{mounted.mount}/secret}}"})
    settings["models"]["new"] = settings["models"]["m"]
    assert (await mounted.by(OTHER)).status_code == 401
    assert (await mounted.by(SECRET, model="new")).status_code == 404
    generation = await mounted.change(settings, by_itself=True)
    assert [(await mounted.by(OTHER, model="new")).status_code for _ in range(8)] == [200] * 8
    mounted.put(msgspec.json.encode(settings), "sk-test-secret-that-was-rotated")
    await mounted.comes_to(generation + 1)
    assert {(await mounted.by(OTHER)).status_code for _ in range(8)} == {401}
    assert {(await mounted.by("sk-test-secret-that-was-rotated")).status_code for _ in range(8)} == {200}
    await mounted.change(mounted.copy(), by_itself=True)
    assert {(await mounted.by("sk-test-secret-that-was-rotated")).status_code for _ in range(8)} == {401}
    assert (await mounted.by(SECRET, model="new")).status_code == 404


async def test_a_worker_that_starts_again_takes_the_newest_file_that_can_be_used(mounted: Mounted) -> None:
    settings = mounted.copy()
    settings["models"]["late"] = settings["models"]["m"]
    generation = await mounted.change(settings)
    await mounted.refuses(b"no: such: thing")
    before = mounted.workers()
    os.kill(before[0], signal.SIGKILL)

    async def is_whole_again() -> bool:
        return len(now := mounted.workers()) == WORKERS and before[0] not in now

    await until(is_whole_again, within_s=WITHIN_S)
    await mounted.comes_to(generation)
    assert {(await mounted.by(SECRET, model="late")).status_code for _ in range(20)} == {200}


async def test_a_worker_that_is_not_on_it_is_named_until_it_is(mounted: Mounted) -> None:
    settings = mounted.copy()
    settings["models"]["m"]["max_n"] = 55
    before = (await mounted.ready())["config"]["generation"]
    stopped = mounted.workers()[0]
    os.kill(stopped, signal.SIGSTOP)
    try:
        mounted.put(msgspec.json.encode(settings))
        await mounted.logs("config_worker_behind", 1)
        assert await mounted.metric("tiergate_config_workers_behind") == 1
        assert await mounted.metric("tiergate_config_last_reload_successful") == 1
        [told] = [line for line in mounted.logged("config_worker_behind") if line["generation"] == before + 1]
        assert (told["worker"] in {"w0", "w1", "w2", "w3"}, told["reason"]) == (True, "ReadTimeout")
    finally:
        os.kill(stopped, signal.SIGCONT)
    await mounted.comes_to(before + 1)

    async def is_told() -> bool:
        return await mounted.metric("tiergate_config_workers_behind") == 0

    await until(is_told, within_s=WITHIN_S)
