"""What the store has not heard yet, on disk: what was granted and what ended while it was away outlives the worker.

A line is added for each lease granted without the store, each end that it took no note of (of a strict ledger: every end), and
each request that it knows all of after all; a file in which that is every one is emptied, or removed where another follows it. A
file is its process's for as long as it is locked. So what a dead worker left behind is found by the next one of its directory,
and told to the store under the same ids, for which it takes everything once (replay.py). Lines are written at once and reach the
disk within a second, or when somebody waits for it: a process that is killed loses nothing, a machine that fails the last second.
"""

import asyncio
import fcntl
import os
from collections.abc import Iterator, Sequence
from pathlib import Path

import msgspec
import structlog

from gateway.admission.spool_file import SpoolFile, sync
from gateway.policy.admission import Adopt, Settle
from gateway.tasks import Owned

SUFFIX, UNREADABLE = ".ndjson", ".unreadable"
SYNC_S = 1.0

FILE_BYTES = 16 << 20
"""How long a file grows before the next is begun: what is told is given back piece by piece, however busy the worker is."""


log = structlog.get_logger(__name__)


class Entry(msgspec.Struct, frozen=True, omit_defaults=True, gc=False):
    """What is to be told of one request: the lease that it was granted here, and how it ended. Neither: nothing any more."""

    id: str
    lease: Adopt | None = None
    end: Settle | None = None


_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder(Entry).decode


class Spool:
    """One worker's files, made when they are needed; once they have `most_bytes`, or cannot be written, it is `full`."""

    def __init__(self, path: Path, most_bytes: int, file_bytes: int = FILE_BYTES) -> None:
        self.path = path
        """The first file; later ones have numbers behind its name."""
        self.full = False
        """Whether nothing more should be granted that only these files know."""
        self.left: set[str] = set()
        """Requests whose end nobody but these files will tell."""
        self._most_bytes = most_bytes
        self._file_bytes = file_bytes
        self._files: list[SpoolFile] = []
        """Requests that are new come into the last."""
        self._begun = 0
        self._file_of: dict[str, SpoolFile] = {}
        """By each request that the store has yet to hear of."""
        self._ended: set[str] = set()
        """Those of them whose end is written down."""
        self._dirty: set[SpoolFile] = set()
        self._rounds = Owned()
        self._next: asyncio.Task[bool] | None = None
        """The round of bringing to disk that has yet to begin."""
        self._round: asyncio.Task[bool] | None = None
        """The one that began last."""

    def __contains__(self, request_id: str) -> bool:
        """Return whether a request's end is written down."""
        return request_id in self._ended

    @property
    def size_bytes(self) -> int:
        """Return how much is on disk."""
        return sum(file.size_bytes for file in self._files)

    @property
    def paths(self) -> Sequence[Path]:
        """Return the files that there are."""
        return [file.path for file in self._files]

    def granted(self, lease: Adopt) -> None:
        """Note a lease that the store does not know."""
        self._write(Entry(lease.id, lease=lease))

    def ended(self, end: Settle) -> None:
        """Note an end that the store did not take note of."""
        if end.id not in self and self._write(Entry(end.id, end=end)):
            self._ended.add(end.id)

    def adopted(self, request_id: str) -> None:
        """Take note that the store knows the lease. One that has ended stays until it knows that too."""
        if request_id not in self:
            self.told(request_id)

    def told(self, request_id: str) -> None:
        """Take note that the store knows all of a request."""
        self.left.discard(request_id)
        self._ended.discard(request_id)
        file = self._file_of.pop(request_id, None)
        if file is None:
            return
        file.requests -= 1
        if file.requests:
            self._add(file, Entry(request_id))
            return
        if file is self._files[-1]:
            file.empty()
        else:
            self._files.remove(file)
            self._dirty.discard(file)
            file.close()
        self.full = False

    def leave(self, request_id: str) -> bool:
        """Leave the telling of an end to these files. Return whether they have it."""
        if request_id in self:
            self.left.add(request_id)
        return request_id in self

    async def on_disk(self) -> bool:
        """Wait until all that was written by now is on disk: all who wait at one time share a round. Return whether it is."""
        if self._next is None:
            self._next = self._rounds.spawn(self._bring(self._round), name="spool round")
        return await asyncio.shield(self._next)

    async def keep(self) -> None:
        """Bring what is written to the disk, until cancelled."""
        while True:
            await asyncio.sleep(SYNC_S)
            if self.full and not self._file_of:
                self._look_for_room()
            if self._dirty:
                await self.on_disk()

    def close(self) -> None:
        """Let go of the files. What is in them is for the next worker."""
        for file in self._files:
            file.close()
        self._files, self._dirty = [], set()

    async def _bring(self, before: asyncio.Task[bool] | None) -> bool:
        if before is not None:
            await asyncio.wait({before})
        # Whoever comes from here on may have written too late for this round.
        self._next, self._round = None, asyncio.current_task()
        dirty, self._dirty = self._dirty, set()
        try:
            await asyncio.to_thread(sync, *(file.again() for file in dirty))
        except OSError as error:
            self._fill(str(error))
            return False
        return True

    def _write(self, entry: Entry) -> bool:
        """Write down what is to be told: all of one request in one file."""
        try:
            file = self._file_of.get(entry.id) or self._current()
        except OSError as error:
            self._fill(str(error))
            return False
        if not self._add(file, entry):
            return False
        if entry.id not in self._file_of:
            self._file_of[entry.id] = file
            file.requests += 1
        if self.size_bytes >= self._most_bytes:
            self._fill("spool_max")
        return True

    def _current(self) -> SpoolFile:
        """Return the file for what is new. Raises OSError."""
        if not self._files or self._files[-1].size_bytes >= self._file_bytes:
            name = f"{self.path.stem}-{self._begun}" if self._begun else self.path.stem
            self._files.append(SpoolFile(self.path.with_name(name + SUFFIX)))
            self._begun += 1
        return self._files[-1]

    def _add(self, file: SpoolFile, entry: Entry) -> bool:
        try:
            file.add(_encode(entry) + b"\n")
        except OSError as error:
            self._fill(str(error))
            return False
        self._dirty.add(file)
        return True

    def _look_for_room(self) -> None:
        """See whether there is room by now, of which nothing is needed yet."""
        try:
            self._current().add(_encode(Entry("")) + b"\n")
            self._files[-1].empty()
        except OSError:
            return
        self.full = False

    def _fill(self, reason: str) -> None:
        if not self.full:
            log.error("spool_full", size_bytes=self.size_bytes, reason=reason)
        self.full = True


def left_behind(own: Path) -> Iterator[Path]:
    """Yield the files beside one's own whose processes are gone, each locked until the next is asked for."""
    for path in sorted(own.parent.glob(f"*{SUFFIX}")):
        if path == own:
            continue
        try:
            file = path.open("rb")
        except FileNotFoundError:
            continue  # another worker has told it by now
        with file:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                continue
            if os.fstat(file.fileno()).st_nlink:  # else it was told between the two calls
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
