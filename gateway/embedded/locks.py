"""Who may use a state directory: advisory locks on files in it, given back by the kernel however their holder ends."""

import asyncio
import fcntl
import os
import time
from pathlib import Path
from typing import Self

POLL_S = 0.01


class Lock:
    """An exclusive lock that lives as long as one of the processes that hold its file open.

    Handing `fd` to a child makes the child a holder; closing our copy leaves it the only one.
    """

    def __init__(self, fd: int) -> None:
        self.fd = fd

    @classmethod
    def take(cls, path: Path) -> Self | None:
        """Return the lock on this file, or None where another process has it."""
        fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(fd)
            return None
        return cls(fd)

    @classmethod
    async def wait(cls, path: Path, timeout_s: float) -> Self | None:
        """Return the lock once its holder is gone, or None where that takes longer than the timeout."""
        deadline_s = time.monotonic() + timeout_s
        while True:
            lock = cls.take(path)
            if lock is not None or time.monotonic() >= deadline_s:
                return lock
            await asyncio.sleep(POLL_S)

    def write(self, text: str) -> None:
        """Leave a note in the file for whoever finds it locked."""
        os.ftruncate(self.fd, 0)
        os.pwrite(self.fd, text.encode(), 0)

    def close(self) -> None:
        """Let go of this process's copy."""
        os.close(self.fd)
