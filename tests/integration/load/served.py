"""`tiergate serve` as processes of its own: started, asked where it listens and who its workers are, killed, read."""

import asyncio
import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import msgspec

from gateway.stores.database import Reader
from gateway.stores.reports import Question, Reports
from tests.integration.processes.conditions import LONGEST_START_S, until, until_gone
from tests.integration.processes.gateways import children
from tests.running import config

HERE: dict[str, Any] = {"host": "127.0.0.1", "port": 0}


def settings(upstreams: Mapping[str, str], models: Mapping[str, Any], directory: Path, **sections: Any) -> dict[str, Any]:
    """Return a configuration that serves on free ports of the loopback interface and logs every request."""
    own = {
        "api": HERE,
        "ops": {**HERE, **sections.pop("ops", {})},
        "telemetry": {"level": "info"},
        "state_dir": str(directory / "state"),
        "database": {"url": f"sqlite:///{directory / 'ledger.db'}", "single_host": True},
    }
    return {**config(upstreams, models, **sections), **own}


async def rows_of(directory: Path, *, live: bool) -> list[dict[str, Any]]:
    """Return the ledger's rows of a gateway that keeps it here."""
    reader = Reader(f"sqlite:///{directory / 'ledger.db'}")
    try:
        return await Reports(reader).rows(Question(live=live))
    finally:
        await reader.close()


class Served:
    """One supervisor with its workers. What they say goes to one file, across restarts."""

    def __init__(self, name: str, settings: Mapping[str, Any], directory: Path) -> None:
        self.port = 0
        self._config = directory / f"{name}.yaml"
        self._config.write_bytes(msgspec.json.encode(settings))
        self._log = directory / f"{name}.log"
        self._read_bytes = 0
        self._read: list[dict[str, Any]] = []
        self._starts = 0
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    @property
    def pid(self) -> int:
        assert self._process is not None
        return self._process.pid

    async def __aenter__(self) -> Self:
        try:
            await self.start()
            await self._comes_up()
        except BaseException:
            self._end()  # one that outlives its test would do others' work
            raise
        return self

    async def __aexit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self._end()

    def _end(self) -> None:
        if self._process is not None and self._process.poll() is None:
            self.kill()

    async def _comes_up(self) -> None:
        """Wait for whatever else a test needs to begin."""

    async def start(self) -> None:
        """Start, and wait until it listens: requests are taken from then on, and served when the first worker is up."""
        self._spawn()
        self._starts += 1
        started = await until(self._started, within_s=LONGEST_START_S)
        self.port = int(started["api"].rpartition(":")[2])

    def _spawn(self) -> None:
        command = [*self.python(), "-m", "gateway", "serve", "--config", str(self._config)]
        with self._log.open("ab") as log:
            self._process = subprocess.Popen(command, stdout=log, stderr=log, start_new_session=True, env=self.environment())

    def python(self) -> list[str]:
        """Return the interpreter that it runs in, with its options."""
        return [sys.executable]

    def environment(self) -> dict[str, str]:
        """Return what its processes find in their environment."""
        return dict(os.environ)

    async def _started(self) -> dict[str, Any]:
        assert self._process is not None
        assert self._process.poll() is None, self._log.read_text()
        starts = [line for line in self.lines() if line["event"] == "started"]
        return starts[-1] if len(starts) == self._starts else {}

    def lines(self) -> list[dict[str, Any]]:
        """Return all that was logged; what the command says to a person is left out."""
        with self._log.open("rb") as log:
            log.seek(self._read_bytes)
            for line in log:
                if not line.endswith(b"\n"):
                    break  # it is being written, and read whole the next time
                self._read_bytes += len(line)
                if line.startswith(b"{"):
                    self._read.append(msgspec.json.decode(line))
        return [*self._read]

    def requests(self) -> list[dict[str, Any]]:
        """Return the access lines."""
        return [line for line in self.lines() if line["event"] == "request"]

    def workers(self) -> list[int]:
        """Return the process ids of the workers that are there now."""
        return [pid for pid, program in children(self.pid) if "valkey" not in program]

    def members(self) -> list[int]:
        """Return the process ids of all that belongs to this gateway now."""
        return [self.pid, *(pid for pid, _ in children(self.pid))]

    def kill(self) -> None:
        """Kill the supervisor; what it has started is to notice by itself."""
        assert self._process is not None
        self._process.kill()
        self._process.wait()

    async def stop(self) -> int:
        """Ask it to leave. Return its exit code."""
        assert self._process is not None
        members = self.members()
        self._process.terminate()
        code = await asyncio.to_thread(self._process.wait, 20)
        await until_gone(members)
        return code
