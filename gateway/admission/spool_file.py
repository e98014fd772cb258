"""One file of a spool: locked by its process for as long as that lives, and lines that are in it whole or not at all."""

import fcntl
import os
from pathlib import Path

PRIVATE_FILE, PRIVATE_DIRECTORY = 0o600, 0o700


class SpoolFile:
    """One file, made on the disk when it is opened; `requests` are those that the store has yet to hear of, each in one file."""

    def __init__(self, path: Path) -> None:
        path.parent.mkdir(mode=PRIVATE_DIRECTORY, parents=True, exist_ok=True)
        # It has its name once it is locked: until then nobody could tell whose it is.
        unnamed = path.with_suffix(".new")
        self.path = path
        self.size_bytes = self.requests = 0
        self._descriptor = os.open(unnamed, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_EXCL, PRIVATE_FILE)
        fcntl.flock(self._descriptor, fcntl.LOCK_EX)
        unnamed.rename(path)
        sync(os.open(path.parent, os.O_RDONLY))

    def add(self, line: bytes) -> None:
        """Write a line whole or not at all. Raises OSError."""
        if os.write(self._descriptor, line) < len(line):
            os.ftruncate(self._descriptor, self.size_bytes)
            raise OSError("the disk is full")
        self.size_bytes += len(line)

    def empty(self) -> None:
        """Forget all lines."""
        os.ftruncate(self._descriptor, 0)
        self.size_bytes = 0

    def again(self) -> int:
        """Return a descriptor of the file that outlives it; it is the caller's."""
        return os.dup(self._descriptor)

    def close(self) -> None:
        """Let go of it: it stays for the next worker where there is anything to tell."""
        if self.requests:
            os.fsync(self._descriptor)
        else:
            self.path.unlink()
        os.close(self._descriptor)


def sync(*descriptors: int) -> None:
    """Bring files to the disk, and close these descriptors of them. Raises OSError."""
    try:
        for each in descriptors:
            os.fsync(each)
    finally:
        for each in descriptors:
            os.close(each)
