"""Waiting for a condition of another process, with a deadline and no guess."""

import asyncio
import os
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import TypeVar

T = TypeVar("T")

LONGEST_START_S = 30.0
"""For a process to take up its work, on a machine that does much else; on an idle one it is a second or two."""

FIRST_PAUSE_S, LONGEST_PAUSE_S = 0.005, 0.05
"""Between two looks, which cost the machine something that what is waited for needs too."""


def alive(pid: int) -> bool:
    """A process exists and is no zombie that merely waits to be reaped."""
    try:
        os.kill(pid, 0)
        stat = Path(f"/proc/{pid}/stat")
        return not stat.exists() or stat.read_text().rpartition(")")[2].split()[0] != "Z"
    except (ProcessLookupError, FileNotFoundError):
        return False


async def until(condition: Callable[[], Awaitable[T]], *, within_s: float = 30.0) -> T:
    """Return the first true value of a condition; fail at the deadline."""
    deadline_s = time.monotonic() + within_s
    pause_s = FIRST_PAUSE_S
    while True:
        value = await condition()
        if value:
            return value
        assert time.monotonic() < deadline_s, f"not within {within_s} s: {condition}"
        await asyncio.sleep(pause_s)
        pause_s = min(1.5 * pause_s, LONGEST_PAUSE_S)


async def until_gone(pids: list[int], *, within_s: float = 5.0) -> None:
    async def gone() -> bool:
        return not any(alive(pid) for pid in pids)

    await until(gone, within_s=within_s)
