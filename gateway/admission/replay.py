"""The store hears what only a spool knows: what this worker gave up telling it, and what dead workers left behind."""

import asyncio
from collections.abc import Iterator
from itertools import islice
from pathlib import Path

import msgspec
import structlog

from gateway.admission.connection import AdmissionUnavailable
from gateway.admission.failover import Failover
from gateway.admission.spool import Entry, dispose, entries, left_behind, set_aside
from gateway.tasks import Owned

EVERY_S = 1.0
LOOKS_EVERY = 30
"""In how many turns it is looked once, at first and then again, for what others left behind."""

AT_ONCE = 64

log = structlog.get_logger(__name__)


class Replay:
    """One worker's spool, kept and told from `start` to `stop`."""

    def __init__(self, failover: Failover) -> None:
        self._failover = failover
        self._spool = failover.spool
        self._tasks: list[asyncio.Task[None]] = []

    def start(self, tasks: Owned) -> None:
        """Begin to look for what there is to tell."""
        self._tasks = [tasks.spawn(self._spool.keep(), name="spool"), tasks.spawn(self._run(), name="replay")]

    async def stop(self) -> None:
        """Leave the rest to the next worker."""
        for task in self._tasks:
            task.cancel()
        await asyncio.wait(self._tasks)
        self._failover.forget()
        self._spool.close()

    async def tell_own(self) -> None:
        """Tell what was given up. Raises `AdmissionUnavailable`; what was told by then is told again, and changes nothing."""
        if self._spool.left:
            left = {*self._spool.left}
            for path in self._spool.paths:
                for told in await self._tell(entries(path, left)):
                    self._spool.told(told)

    async def tell_left_behind(self) -> bool:
        """Tell what dead workers left. Return whether the store has it for good. Raises as `tell_own` does."""
        return all([await self._tell_all(path) for path in left_behind(self._spool.path)])

    async def _run(self) -> None:
        turns = 0
        while True:
            await asyncio.sleep(EVERY_S)
            if self._failover.alone:
                continue
            try:
                await self.tell_own()
                if turns % LOOKS_EVERY or await self.tell_left_behind():
                    turns += 1
            except (AdmissionUnavailable, OSError) as error:
                log.info("spool_interrupted", reason=str(error))

    async def _tell_all(self, path: Path) -> bool:
        try:
            told = await self._tell(entries(path))
        except msgspec.DecodeError as error:
            set_aside(path, str(error))
            return True
        if not await self._failover.stays():
            return False
        dispose(path)
        log.info("spool_told", file=path.name, requests=len(told))
        return True

    async def _tell(self, found: Iterator[Entry]) -> list[str]:
        told: list[str] = []
        while some := (*islice(found, AT_ONCE),):
            await self._failover.replay(some)
            told += (entry.id for entry in some)
        return told
