"""A copy of a SQLite file as it is at one moment, made while gateways write to it."""

import os
import sqlite3
import tempfile
from contextlib import closing, suppress
from pathlib import Path


def back_up(file: Path, to: Path) -> int:
    """Write a whole copy of `file` to `to`, which is not there before and never there in part. Return its bytes.

    Raises OSError and sqlite3.Error.
    """
    if to.exists():
        raise FileExistsError(f"'{to}' is there already")
    # Beside its place, so that it can be put there in one step; only its owner may read it.
    descriptor, draft = tempfile.mkstemp(dir=to.parent, prefix=f".{to.name}.")
    os.close(descriptor)
    try:
        _copy(file, draft)
        with open(draft, "rb") as written:
            os.fsync(written.fileno())
        os.link(draft, to)  # unlike a rename, not over what has come there meanwhile
    finally:
        with suppress(FileNotFoundError):
            os.unlink(draft)
    return to.stat().st_size


def _copy(file: Path, draft: str) -> None:
    with (
        closing(sqlite3.connect(f"file:{file}?mode=ro", uri=True)) as source,
        closing(sqlite3.connect(draft, isolation_level=None)) as target,
    ):
        source.backup(target)  # all pages in one step: writers go on in the log, and nothing is begun again
        target.execute("PRAGMA journal_mode = DELETE")
