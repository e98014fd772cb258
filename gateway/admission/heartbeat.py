"""The leases of one worker, kept alive: what each has used so far goes to the store at every heartbeat, idle or not.

A store that does not answer is asked again at the next beat: a lease outlives several. Seconds.
"""

import asyncio
from collections.abc import Callable

from gateway.admission.client import Admission
from gateway.admission.connection import AdmissionUnavailable
from gateway.policy.admission import Estimate, Progress
from gateway.tasks import Owned


class Leases:
    """The registry of live leases, and the loop that serves it between `start` and `stop`."""

    def __init__(self, admission: Admission, owned: Owned, *, heartbeat_s: float) -> None:
        self._admission = admission
        self._owned = owned
        self._heartbeat_s = heartbeat_s
        self._sources: dict[str, Callable[[], Estimate]] = {}
        self._loop: asyncio.Task[None] | None = None
        self.missed_beats = 0
        """Calls that the store did not answer."""
        self.lost_leases = 0
        """Leases that the store knew no more while we held them."""

    def __len__(self) -> int:
        return len(self._sources)

    def add(self, lease_id: str, source: Callable[[], Estimate]) -> None:
        """Keep a lease alive; `source` tells what it has used so far."""
        self._sources[lease_id] = source

    def remove(self, lease_id: str) -> None:
        """Let a lease go; one that is not here is none of ours."""
        self._sources.pop(lease_id, None)

    def start(self) -> None:
        """Begin to beat."""
        self._loop = self._owned.spawn(self._beats(), name="admission-heartbeat")

    async def stop(self) -> None:
        """End the loop."""
        if self._loop is not None:
            self._loop.cancel()
            await asyncio.wait([self._loop])

    async def beat(self) -> None:
        """Report every lease once."""
        reports = [Progress(lease_id, source()) for lease_id, source in self._sources.items()]
        try:
            lost = await self._admission.progress(reports)
        except AdmissionUnavailable:
            self.missed_beats += 1
            return
        self.lost_leases += sum(lease_id in self._sources for lease_id in lost)

    async def _beats(self) -> None:
        while True:
            await asyncio.sleep(self._heartbeat_s)
            await self.beat()
