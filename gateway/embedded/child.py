"""A child process that is started again whenever it ends, until it is told to stop. Times are seconds."""

import asyncio
import contextlib
import os
import signal
import sys
import time
from asyncio.subprocess import DEVNULL, PIPE, Process
from collections.abc import Awaitable, Callable, Sequence

import structlog

from gateway.tasks import Owned

FIRST_PAUSE_S = 0.1
LONGEST_PAUSE_S = 5.0
STEADY_S = 30.0
"""A child that lived this long did not fail at start: its next end is met with the first pause again."""

ASKED = (0, -signal.SIGTERM, 128 + signal.SIGTERM)
"""How a process ends that was asked to: with its work done, or with none begun yet."""

log = structlog.get_logger("gateway.child")


class Unavailable(Exception):  # noqa: N818 - it names a state of the machine, and prints as one line
    """Something the gateway stands on cannot be had: a port, a lock, a server that will not start. One line for a person."""


def pause_s(failures: int) -> float:
    """Return how long to wait before the next start, after this many short lives in a row."""
    return min(FIRST_PAUSE_S * 2.0 ** min(failures, 16), LONGEST_PAUSE_S)


async def spawn_python(module: str, assignment: bytes, fds: Sequence[int] = ()) -> Process:
    """Start `python -m module`, tied to this process by its stdin, whose first line is the assignment.

    A session of its own keeps Ctrl-C at the terminal from reaching it: the parent decides who ends when. `-P` keeps the
    working directory off the module path.
    """
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-P", "-m", module, stdin=PIPE, pass_fds=fds, start_new_session=True
    )
    if process.stdin is not None:
        with contextlib.suppress(ConnectionError):  # it ended at once: its exit code says more than the pipe can
            process.stdin.write(assignment + b"\n")
            await process.stdin.drain()
    return process


async def spawn_program(program: str, arguments: Sequence[str], *, output: int, fds: Sequence[int] = ()) -> Process:
    """Start a program that knows nothing of the lifeline, tied to this process by the kernel where it can be."""
    launcher = [sys.executable, "-P", "-m", "gateway.embedded.launch", str(os.getpid()), program]
    return await asyncio.create_subprocess_exec(
        *launcher, *arguments, stdin=DEVNULL, stdout=output, stderr=output, pass_fds=fds, start_new_session=True
    )


class Child:
    """One child process, kept running."""

    def __init__(self, name: str, spawn: Callable[[], Awaitable[Process]]) -> None:
        self.name = name
        self._spawn = spawn
        self._stopping = asyncio.Event()
        self._tasks = Owned()
        self._process: Process | None = None
        self._keeper: asyncio.Task[None] | None = None

    @property
    def pid(self) -> int | None:
        """Return the process id, or None between two lives."""
        return self._process.pid if self._process is not None and self._process.returncode is None else None

    @property
    def exit_code(self) -> int | None:
        """Return how the last life ended, or None while it lasts."""
        return self._process.returncode if self._process is not None else None

    async def start(self) -> None:
        """Start the process and keep it.

        Raises what `spawn` raises, this first time; later failures are logged and tried again.
        """
        process = self._process = await self._spawn()
        self._keeper = self._tasks.spawn(self._keep(process), name=f"keep {self.name}")

    async def stop(self, grace_s: float) -> bool:
        """Ask the process to end and wait for it; kill it after the grace. Return whether it ended as asked."""
        self._stopping.set()
        if self._keeper is None:
            return True
        if self._process is not None and self.pid is not None:
            self._process.terminate()
        try:
            _, late = await asyncio.wait({self._keeper}, timeout=grace_s)
        except asyncio.CancelledError:  # whoever waits for it has no more time
            await self.kill()
            raise
        if late:
            log.warning("child_killed", child=self.name, after_s=grace_s)
            await self.kill()
        return self.exit_code in ASKED

    async def kill(self) -> None:
        """End the process at once and for good."""
        self._stopping.set()
        if self._process is not None and self.pid is not None:
            self._process.kill()
        if self._keeper is not None:
            await asyncio.wait({self._keeper})

    async def _keep(self, process: Process | None) -> None:
        failures = 0
        while True:
            born_s = time.monotonic()
            exit_code = await process.wait() if process is not None else None
            if self._stopping.is_set():
                return
            failures = 0 if time.monotonic() - born_s >= STEADY_S else failures
            log.warning("child_ended", child=self.name, exit_code=exit_code, restart_in_s=pause_s(failures))
            await self._pause(pause_s(failures))
            if self._stopping.is_set():
                return
            failures += 1
            process = await self._start_again()

    async def _start_again(self) -> Process | None:
        try:
            process = self._process = await self._spawn()
        except (OSError, Unavailable) as error:
            log.warning("child_not_started", child=self.name, reason=str(error))
            return None
        if self._stopping.is_set():  # told to stop while it was being born: the order to end found nobody
            process.kill()
        return process

    async def _pause(self, seconds: float) -> None:
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._stopping.wait()
