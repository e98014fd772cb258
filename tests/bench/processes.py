"""Processes that the bench starts, what they and their children used of a core, and where they run. Linux; durations are seconds.

CPU time is what the scheduler counts for each thread, in nanoseconds: system calls are in it, waiting is not.
"""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Self

PROC = Path("/proc")
STOP_S = 20.0


class Child:
    """A Python module run on one core, in a session of its own; it ends with the block, or with the bench if that is killed."""

    def __init__(self, core: int, module: Sequence[str], *, output: int | None = subprocess.PIPE, **environ: str) -> None:
        launch = [sys.executable, "-P", "-m", "gateway.embedded.launch", str(os.getpid())]
        self._process = subprocess.Popen(
            [*launch, sys.executable, "-m", *module], stdout=output, env={**os.environ, **environ}, start_new_session=True
        )
        self.pid = self._process.pid
        os.sched_setaffinity(self.pid, {core})

    def line(self) -> str:
        """Return the next line that it prints. Raises RuntimeError where it ended instead."""
        line: str = self._process.stdout.readline().decode() if self._process.stdout is not None else ""
        if not line:
            raise RuntimeError(f"a process ended at start: {self._process.args!r}")
        return line

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._process.send_signal(signal.SIGTERM)
        try:
            self._process.wait(STOP_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        if self._process.stdout is not None:
            self._process.stdout.close()


def tree(pid: int) -> Iterator[int]:
    """Yield a process and all that came of it."""
    yield pid
    for task in threads(pid):
        for child in read(task / "children").split():
            yield from tree(int(child))


def threads(pid: int) -> list[Path]:
    """Return the threads of a process, none once it is gone."""
    try:
        return list((PROC / str(pid) / "task").iterdir())
    except FileNotFoundError:
        return []


def read(path: Path) -> str:
    """Return what the kernel says there, nothing once the thread is gone."""
    try:
        return path.read_text()
    except (FileNotFoundError, ProcessLookupError):
        return ""


def program(pid: int) -> str:
    """Return the name of a process's program."""
    return read(PROC / str(pid) / "comm").strip()


def cpu_s(pids: Sequence[int]) -> float:
    """Return the CPU time that these processes have had."""
    counts = [read(task / "schedstat").split() for pid in pids for task in threads(pid)]
    return sum(int(count[0]) for count in counts if count) / 1e9


def move(pid: int, core: int) -> None:
    """Keep a process that runs already on one core."""
    for task in threads(pid):
        os.sched_setaffinity(int(task.name), {core})


class Machine:
    """Which cores there are, and how much of them everybody used."""

    def __init__(self) -> None:
        cores = sorted(os.sched_getaffinity(0))
        self.rest, self.under_test = cores[0], cores[-1]

    def busy_s(self) -> float:
        """Return the time that the two cores were not idle, since the machine started."""
        lines = {line.split()[0]: line.split()[1:] for line in read(PROC / "stat").splitlines() if line.startswith("cpu")}
        user, nice, system, _, _, hardware, software, stolen, *_ = range(10)
        ticks = sum(
            int(lines[f"cpu{core}"][column])
            for core in {self.rest, self.under_test}
            for column in (user, nice, system, hardware, software, stolen)
        )
        return ticks / os.sysconf("SC_CLK_TCK")
