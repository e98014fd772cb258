"""What the store has not heard yet, on disk: what was granted and what ended while it was away outlives the worker.

One file a worker: a line is added for each lease granted without the store, each end that it took no note of, and each request
that it knows all of after all; where that is every one, the file is empty. A file is its process's for as long as it is locked.
So what a dead worker left behind is found by the next one of the same directory, and told to the store under the same ids, for
which it takes everything once (replay.py). Lines are written at once and reach the disk within a second: a process that is
killed loses nothing, a machine that fails the last second.
"""

import asyncio
import fcntl
import os
from collections.abc import Iterator
from pathlib import Path

import msgspec
import structlog

from gateway.policy.admission import Adopt, Settle

SUFFIX, UNREADABLE = ".ndjson", ".unreadable"
SYNC_S = 1.0
PRIVATE_FILE, PRIVATE_DIRECTORY = 0o600, 0o700

log = structlog.get_logger(__name__)


class Entry(msgspec.Struct, frozen=True, omit_defaults=True, gc=False):
    """What is to be told of one request: the lease that it was granted here, and how it ended. Neither: nothing any more."""

    id: str
    lease: Adopt | None = None
    end: Settle | None = None


_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder(Entry).decode


class Spool:
    """One worker's file, made when it is first needed; once it has `most_bytes`, or cannot be written, it is `full`."""

    def __init__(self, path: Path, most_bytes: int) -> None:
        self.path = path
        self.size_bytes = 0
        self.full = False
        """Whether nothing more should be granted that only this file knows."""
        self.left: set[str] = set()
        """Requests whose end nobody but this file will tell."""
        self._most_bytes = most_bytes
        self._file: int | None = None
        self._dirty = False
        self._ended: dict[str, bool] = {}
        """By each request that the store has yet to hear of, whether its end is written down."""

    def __contains__(self, request_id: str) -> bool:
        """Return whether a request's end is written down."""
        return self._ended.get(request_id, False)

    def granted(self, lease: Adopt) -> None:
        """Note a lease that the store does not know."""
        if self._write(Entry(lease.id, lease=lease)):
            self._ended[lease.id] = False

    def ended(self, end: Settle) -> None:
        """Note an end that the store did not take note of."""
        if end.id not in self and self._write(Entry(end.id, end=end)):
            self._ended[end.id] = True

    def adopted(self, request_id: str) -> None:
        """Take note that the store knows the lease. One that has ended stays until it knows that too."""
        if request_id not in self:
            self.told(request_id)

    def told(self, request_id: str) -> None:
        """Take note that the store knows all of a request."""
        self.left.discard(request_id)
        if self._ended.pop(request_id, None) is None or self._file is None:
            return
        if self._ended:
            self._write(Entry(request_id))
        else:
            os.ftruncate(self._file, 0)
            self.size_bytes, self.full = 0, False

    def leave(self, request_id: str) -> bool:
        """Leave the telling of an end to this file. Return whether it has it."""
        if request_id in self:
            self.left.add(request_id)
        return request_id in self

    async def keep(self) -> None:
        """Bring what is written to the disk, until cancelled."""
        while True:
            await asyncio.sleep(SYNC_S)
            if self._dirty and self._file is not None:
                self._dirty = False
                await asyncio.to_thread(os.fsync, self._file)

    def close(self) -> None:
        """Let go of the file. What is in it is for the next worker."""
        if self._file is not None:
            if self._ended:
                os.fsync(self._file)
            else:
                self.path.unlink()
            os.close(self._file)
            self._file = None

    def _write(self, entry: Entry) -> bool:
        line = _encode(entry) + b"\n"
        try:
            if self._file is None:
                self._file = _made(self.path)
            if os.write(self._file, line) < len(line):
                os.ftruncate(self._file, self.size_bytes)
                raise OSError("the disk is full")
        except OSError as error:
            self._fill(str(error))
            return False
        self.size_bytes += len(line)
        self._dirty = True
        if self.size_bytes >= self._most_bytes:
            self._fill("spool_max")
        return True

    def _fill(self, reason: str) -> None:
        if not self.full:
            log.error("spool_full", size_bytes=self.size_bytes, reason=reason)
        self.full = True


def _made(path: Path) -> int:
    """Make a file and return its descriptor. It has its name once it is locked: until then nobody could tell whose it is."""
    path.parent.mkdir(mode=PRIVATE_DIRECTORY, parents=True, exist_ok=True)
    unnamed = path.with_suffix(".new")
    file = os.open(unnamed, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_EXCL, PRIVATE_FILE)
    fcntl.flock(file, fcntl.LOCK_EX)
    unnamed.rename(path)
    return file


def left_behind(own: Path) -> Iterator[Path]:
    """Yield the files beside one's own whose processes are gone, each locked until the next is asked for."""
    for path in sorted(own.parent.glob(f"*{SUFFIX}")):
        if path == own:
            continue
        with path.open("rb") as file:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                continue
            yield path


def entries(path: Path, only: set[str] | None = None) -> Iterator[Entry]:
    """Yield what a file has to tell, of these requests or of all: ends in their order, then leases that have none.

    A last line that was cut was never relied on. Raises `msgspec.DecodeError` where another one is not readable.
    """
    told = {entry.id: place for place, entry in _lines(path) if entry.lease is None and entry.end is None}
    leases: dict[str, Entry] = {}
    for place, entry in _lines(path):
        if place <= told.get(entry.id, -1) or (only is not None and entry.id not in only):
            continue
        if entry.end is None:
            leases[entry.id] = entry
        else:
            granted = leases.pop(entry.id, entry)
            yield Entry(entry.id, granted.lease, entry.end)
    yield from leases.values()


def dispose(path: Path) -> None:
    """Remove a file that has been told whole."""
    path.unlink()


def set_aside(path: Path, reason: str) -> None:
    """Keep a file that this release cannot read for a human being."""
    log.error("spool_unreadable", file=path.name, reason=reason)
    path.rename(path.with_suffix(UNREADABLE))


def _lines(path: Path) -> Iterator[tuple[int, Entry]]:
    with path.open("rb") as lines:
        for place, line in enumerate(lines):
            if line.endswith(b"\n"):
                yield place, _decode(line)
