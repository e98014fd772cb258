"""The embedded Valkey with the real server: it comes back on its file, refuses company and leaves nothing behind."""

import asyncio
import os
import shutil
import signal
import subprocess
import sys
from asyncio.subprocess import PIPE
from pathlib import Path

import pytest
from redis.asyncio import Redis
from redis.exceptions import ConnectionError as RedisConnectionError

from gateway.embedded.child import Unavailable
from gateway.embedded.lifeline import EXIT_ORPHANED
from gateway.embedded.valkey import Valkey
from tests.integration.processes.conditions import alive, until, until_gone


@pytest.fixture
def state_dir(tmp_path: Path) -> Path:
    path = tmp_path / "state"
    path.mkdir()
    return path


async def store(valkey: Valkey, value: str) -> None:
    """Set a key and wait until the file has it."""
    async with Redis.from_url(valkey.url) as client:
        await client.set("kept", value)
        await client.waitaof(1, 0, 5000)


async def stored(valkey: Valkey) -> bytes | None:
    async with Redis.from_url(valkey.url) as client:
        value = await client.get("kept")
        return value if isinstance(value, bytes) else None


async def test_what_was_written_is_there_after_a_stop_and_a_start(state_dir: Path, tmp_path: Path) -> None:
    async with Valkey(state_dir, tmp_path) as valkey:
        pid = valkey.pid
        await store(valkey, "1")
    assert pid is not None
    assert not alive(pid)
    async with Valkey(state_dir, tmp_path) as valkey:
        assert await stored(valkey) == b"1"


async def test_a_killed_server_comes_back_on_its_file_at_the_same_address(state_dir: Path, tmp_path: Path) -> None:
    async with Valkey(state_dir, tmp_path) as valkey:
        await store(valkey, "1")
        url, pid = valkey.url, valkey.pid
        assert pid is not None
        os.kill(pid, signal.SIGKILL)

        async def back() -> bool:
            try:
                return await stored(valkey) == b"1"
            except RedisConnectionError:
                return False

        await until_gone([pid])
        await until(back)
        assert valkey.url == url
        assert valkey.pid not in (None, pid)


async def test_a_second_gateway_on_the_same_state_is_refused(state_dir: Path, tmp_path: Path) -> None:
    async with Valkey(state_dir, tmp_path) as valkey:
        await store(valkey, "1")
        with pytest.raises(Unavailable, match="another gateway runs on state_dir"):
            async with Valkey(state_dir, tmp_path):
                pass
        assert await stored(valkey) == b"1"


async def test_a_server_that_cannot_start_is_refused_with_its_own_words(state_dir: Path, tmp_path: Path) -> None:
    (state_dir / "appendonlydir").mkdir()
    (state_dir / "appendonlydir" / "appendonly.aof.manifest").write_text("no manifest\n")
    with pytest.raises(Unavailable, match=r"did not start: .*AOF.*valkey\.log"):
        async with Valkey(state_dir, tmp_path):
            pass


@pytest.mark.parametrize("way", ["tied", "untied"])
async def test_a_server_of_a_killed_gateway_is_out_of_the_way_of_the_next(state_dir: Path, tmp_path: Path, way: str) -> None:
    command = [sys.executable, "-m", "tests.fakes.abandon", str(state_dir), str(tmp_path), way]
    gateway = await asyncio.create_subprocess_exec(*command, stdin=PIPE, stdout=PIPE)
    assert gateway.stdout is not None
    orphan = int(await gateway.stdout.readline())
    gateway.kill()
    await gateway.wait()
    async with Valkey(state_dir, tmp_path) as valkey:
        assert not alive(orphan)
        await store(valkey, "1")


HOLD = """
import sys
from tests.valkey import Valkey
with Valkey() as valkey:
    print(valkey.pid, valkey.socket, flush=True)
    sys.stdin.read()
"""


async def test_a_killed_test_run_leaves_no_server() -> None:
    run = await asyncio.create_subprocess_exec(sys.executable, "-c", HOLD, stdin=PIPE, stdout=PIPE)
    assert run.stdout is not None
    pid, path = (await run.stdout.readline()).decode().split()
    assert alive(int(pid))
    run.kill()
    await run.wait()
    await until_gone([int(pid)])
    shutil.rmtree(Path(path).parent)


def test_a_child_whose_parent_is_gone_already_does_not_start() -> None:
    program = [sys.executable, "-m", "gateway.embedded.launch", str(os.getppid()), sys.executable, "-c", "print('started')"]
    ended = subprocess.run(program, capture_output=True, check=False)
    assert (ended.returncode, ended.stdout) == (EXIT_ORPHANED, b"")
