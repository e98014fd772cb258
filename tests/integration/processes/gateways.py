"""A supervisor with fake workers as real processes, and what a test asks of them."""

import asyncio
import contextlib
import os
import re
import signal
import sys
from asyncio.subprocess import PIPE, Process
from collections.abc import AsyncIterator
from pathlib import Path
from types import TracebackType
from typing import Self

import msgspec
from redis.asyncio import Redis
from redis.exceptions import RedisError

from tests.integration.processes.conditions import LONGEST_START_S, alive, until

ROOT = Path(__file__).parents[3]


class OpsAnswer(msgspec.Struct):
    draining: bool
    control_sockets: list[str]


class WorkerAnswer(msgspec.Struct):
    pid: int
    name: str


class Running:
    """One supervised gateway under test."""

    def __init__(self, place: Path, *, workers: int = 1, delay_s: float = 0.0, drain_s: float = 5.0, **environ: str) -> None:
        self.state_dir = place / "state"
        self.journal_path = place / "journal"
        self._arguments = [str(self.state_dir), "{port}", "{ops_port}", str(workers), str(delay_s), str(drain_s)]
        self._environ = {**os.environ, "PYTHONPATH": str(ROOT), "JOURNAL": str(self.journal_path), **environ}
        self.workers = workers
        self.port = 0
        self.ops_port = 0
        self.process: Process

    async def spawn(self) -> Process:
        self.journal_path.touch()
        words = [word.format(port=self.port, ops_port=self.ops_port) for word in self._arguments]
        self.process = await asyncio.create_subprocess_exec(
            sys.executable,
            "-m",
            "tests.fakes.supervise",
            *words,
            env=self._environ,
            stdout=PIPE,
            stderr=PIPE,
            start_new_session=True,
        )
        return self.process

    async def __aenter__(self) -> Self:
        process = await self.spawn()
        try:
            await self._comes_up(process)
        except BaseException:
            await self._end()
            raise
        return self

    async def _comes_up(self, process: Process) -> None:
        assert process.stdout is not None
        while b"started" not in (line := await process.stdout.readline()):
            assert line, (await process.communicate())[1].decode()
        ports = re.findall(rb"127\.0\.0\.1:(\d+)", line)
        self.port, self.ops_port = int(ports[0]), int(ports[1])
        await until(self.all_workers, within_s=LONGEST_START_S)

    async def __aexit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        await self._end()

    async def _end(self) -> None:
        if self.process.returncode is None:
            self.process.kill()
        await self.process.communicate()

    def signal(self, number: signal.Signals) -> None:
        """Signal as a terminal does: the whole process group of the supervisor."""
        os.killpg(self.process.pid, number)

    async def exit_code(self, *, within_s: float = 10.0) -> int:
        async with asyncio.timeout(within_s):
            await self.process.communicate()
        assert self.process.returncode is not None
        return self.process.returncode

    @property
    def journal(self) -> list[str]:
        return self.journal_path.read_text().splitlines()

    async def journals(self, event: str, *, times: int = 1) -> bool:
        return sum(event in line for line in self.journal) >= times

    async def ops(self) -> OpsAnswer:
        return msgspec.json.decode(await get("127.0.0.1", self.ops_port, "/"), type=OpsAnswer)

    async def worker_pids(self) -> list[int]:
        """Return the pid of each worker that answers on its control socket."""
        pids = []
        for path in (await self.ops()).control_sockets:
            with contextlib.suppress(OSError):
                pids.append(msgspec.json.decode(await get_unix(path, "/status"), type=WorkerAnswer).pid)
        return pids

    async def all_workers(self) -> list[int]:
        """Return the workers' pids once all of them answer, else nothing."""
        pids = await self.worker_pids()
        return pids if len(pids) == self.workers else []

    async def is_draining(self) -> bool:
        return (await self.ops()).draining

    async def run_dir(self) -> Path:
        return Path((await self.ops()).control_sockets[0]).parent

    async def valkey_pid(self) -> int:
        """Return the child of the supervisor that is a Valkey server, or 0."""
        return next((pid for pid, program in children(self.process.pid) if "valkey" in program and alive(pid)), 0)

    async def valkey_answers(self) -> bool:
        """Return whether the server answers where the workers expect it."""
        try:
            async with Redis.from_url(f"unix://{await self.run_dir()}/valkey.sock") as client:
                return bool(await client.ping())
        except RedisError:
            return False


def children(parent: int) -> list[tuple[int, str]]:
    """Return the children of a process with the names of their programs; one that ends meanwhile is none."""
    found: list[tuple[int, str]] = []
    for pid in Path(f"/proc/{parent}/task/{parent}/children").read_text().split():
        with contextlib.suppress(FileNotFoundError, ProcessLookupError):
            found.append((int(pid), Path(f"/proc/{pid}/comm").read_text().strip()))
    return found


async def get(host: str, port: int, path: str) -> bytes:
    return await ask(*await asyncio.open_connection(host, port), path)


async def get_unix(socket_path: str, path: str) -> bytes:
    return await ask(*await asyncio.open_unix_connection(socket_path), path)


async def ask(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, path: str) -> bytes:
    """Return the body of a GET."""
    writer.write(f"GET {path} HTTP/1.1\r\nhost: test\r\nconnection: close\r\n\r\n".encode())
    try:
        answer = await reader.read()
    finally:
        writer.close()
    if not answer:
        raise ConnectionError("closed without an answer")
    return answer.partition(b"\r\n\r\n")[2]


@contextlib.asynccontextmanager
async def held(running: Running) -> AsyncIterator[asyncio.StreamReader]:
    """Hold a streamed answer open; its first chunk has arrived."""
    reader, writer = await asyncio.open_connection("127.0.0.1", running.port)
    writer.write(b"GET /hold HTTP/1.1\r\nhost: test\r\n\r\n")
    await reader.readuntil(b"\r\n\r\n2\r\nw")
    try:
        yield reader
    finally:
        writer.close()
