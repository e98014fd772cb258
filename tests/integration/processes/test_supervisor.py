"""The supervisor as a real process tree: what ends in which order, what is restarted, and that nothing is left behind."""

import os
import signal
from pathlib import Path

import pytest

from tests.integration.processes.conditions import alive, until, until_gone
from tests.integration.processes.gateways import Running, get, held


@pytest.fixture
def place(tmp_path: Path) -> Path:
    (tmp_path / "state").mkdir()
    return tmp_path


async def members(running: Running) -> list[int]:
    """Return the process ids of the supervisor, its workers and its Valkey."""
    return [running.process.pid, *await running.worker_pids(), await running.valkey_pid()]


async def test_a_signal_is_followed_by_a_delay_then_by_the_drain_and_valkey_ends_last(place: Path) -> None:
    async with Running(place, workers=2, delay_s=0.3) as running:
        pids = await members(running)
        async with held(running) as answer:
            running.signal(signal.SIGINT)
            await until(running.is_draining)
            assert b"w" in await get("127.0.0.1", running.port, "/")
            assert b" and the end" in await answer.read()
        assert await running.exit_code() == 0
        assert sorted(running.journal[-2:]) == ["w0 stopped valkey=up", "w1 stopped valkey=up"]
        await until_gone(pids)


async def test_a_second_signal_ends_at_once(place: Path) -> None:
    async with Running(place, drain_s=60.0, NEVER_IDLE="1") as running:
        pids = await members(running)
        running.signal(signal.SIGINT)
        await until(lambda: running.journals("draining"))
        assert alive(pids[0])
        running.signal(signal.SIGINT)
        assert await running.exit_code(within_s=3.0) == 128 + signal.SIGINT
        await until_gone(pids)


async def test_a_killed_supervisor_leaves_nothing_alive(place: Path) -> None:
    async with Running(place, workers=2, drain_s=60.0, NEVER_IDLE="1") as running:
        pids, run_dir = await members(running), await running.run_dir()
        os.kill(running.process.pid, signal.SIGKILL)
        await until_gone(pids, within_s=5.0)
        assert not run_dir.exists()


async def test_a_killed_worker_is_replaced_and_its_successor_serves_who_waited(place: Path) -> None:
    async with Running(place) as running:
        [worker] = await running.worker_pids()
        os.kill(worker, signal.SIGKILL)
        await until_gone([worker])
        assert b"w0" in await get("127.0.0.1", running.port, "/")
        assert await until(running.all_workers) != [worker]


async def test_a_killed_valkey_comes_back_for_the_workers_that_know_its_address(place: Path) -> None:
    async with Running(place) as running:
        valkey = await running.valkey_pid()
        os.kill(valkey, signal.SIGKILL)
        await until_gone([valkey])
        assert await until(running.valkey_pid) != valkey
        await until(running.valkey_answers)
        running.signal(signal.SIGTERM)
        assert await running.exit_code() == 0
        assert running.journal[-1] == "w0 stopped valkey=up"


async def test_a_killed_gateway_can_be_started_again_at_once(place: Path) -> None:
    async with Running(place) as running:
        os.kill(running.process.pid, signal.SIGKILL)
    again = Running(place)
    async with again:
        again.signal(signal.SIGTERM)
        assert await again.exit_code() == 0
