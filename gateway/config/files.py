"""The files that a configuration is read from, and whether any of them has changed since.

A file is known by where its name leads in the end, its inode, when it was written and how long it is: a mounted ConfigMap or
Secret is a link to a directory that is swapped as a whole, which changes the first and none of the others need to.
"""

import os
from pathlib import Path

Identity = tuple[str, int, int, int]


class Files:
    """Reads files and remembers how each was just before."""

    def __init__(self) -> None:
        self.seen: dict[str, Identity | None] = {}

    def read(self, name: str) -> bytes:
        """Return what is in a file. Raises OSError."""
        self.watch(name)
        return Path(name).read_bytes()

    def watch(self, name: str) -> None:
        """Remember a file that somebody else reads."""
        self.seen[name] = identity(name)

    def watch_all(self, others: "Files") -> None:
        """Remember what others did, where it is not known better."""
        self.seen = {**others.seen, **self.seen}

    @property
    def state(self) -> tuple[Identity | None, ...]:
        """Return how the files are now."""
        return tuple(map(identity, self.seen))

    def changed(self) -> bool:
        """Return whether any is not as it was."""
        return self.state != tuple(self.seen.values())


def identity(name: str) -> Identity | None:
    """Return what tells a file from the one that was there before, None where there is none."""
    try:
        found = os.stat(name)
    except OSError:
        return None
    return os.path.realpath(name), found.st_ino, found.st_mtime_ns, found.st_size
