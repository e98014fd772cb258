"""The leases of one worker, kept alive: what each has used so far goes to the store at every heartbeat, idle or not.

A lease that the store does not know is put back there, by what it was granted: what runs counts, however it came to run. A store
that does not answer is asked again soon, for then it may have lost them all. Seconds.
"""

import asyncio
import secrets
from collections.abc import Callable, Iterator

import msgspec

from gateway.admission.connection import AdmissionUnavailable
from gateway.admission.failover import Failover
from gateway.policy.admission import Adopt, Progress
from gateway.policy.charges import Estimate
from gateway.tasks import Owned

AGAIN_S = 0.5
AGAIN_SPREAD_MS = 500
"""How soon a beat that failed is made up for, at random, so that workers do not all come at once to a store that is back."""


class Kept(msgspec.Struct, frozen=True):
    """A live lease: what it takes to put it back, and what tells what it has used so far."""

    lease: Adopt
    source: Callable[[], Estimate]


class Leases:
    """The registry of live leases, and the loop that serves it between `start` and `stop`."""

    def __init__(self, admission: Failover, owned: Owned, *, heartbeat_s: float) -> None:
        self._admission = admission
        self._owned = owned
        self._heartbeat_s = heartbeat_s
        self._kept: dict[str, Kept] = {}
        self._loop: asyncio.Task[None] | None = None
        self.missed_beats = 0
        """Calls that the store did not answer."""
        self.lost_leases = 0
        """Leases that the store did not know while we held them."""

    def __len__(self) -> int:
        return len(self._kept)

    def deployments(self) -> Iterator[str]:
        """Yield the deployment of each lease, from any thread."""
        return (kept.lease.row.upstream.deployment for kept in list(self._kept.values()))

    def add(self, lease: Adopt, source: Callable[[], Estimate]) -> None:
        """Keep a lease alive; `source` tells what it has used so far."""
        self._kept[lease.id] = Kept(lease, source)

    def remove(self, lease_id: str) -> None:
        """Let a lease go; one that is not here is none of ours."""
        self._kept.pop(lease_id, None)

    def start(self) -> None:
        """Begin to beat."""
        self._loop = self._owned.spawn(self._beats(), name="admission-heartbeat")

    async def stop(self) -> None:
        """End the loop."""
        if self._loop is not None:
            self._loop.cancel()
            await asyncio.wait([self._loop])

    async def beat(self) -> bool:
        """Report every lease once, and put back those that were lost. Return whether the store answered."""
        reports = [Progress(lease_id, kept.source()) for lease_id, kept in self._kept.items()]
        try:
            unknown = await self._admission.progress(reports)
            lost = [self._kept[lease_id].lease for lease_id in unknown if lease_id in self._kept]
            self.lost_leases += len(lost)
            for lease_id in await self._admission.adopt(lost):
                self.remove(lease_id)
        except AdmissionUnavailable:
            self.missed_beats += 1
            return False
        return True

    async def _beats(self) -> None:
        pause_s = self._heartbeat_s
        while True:
            await asyncio.sleep(pause_s)
            again_s = AGAIN_S + secrets.randbelow(AGAIN_SPREAD_MS) / 1000
            pause_s = self._heartbeat_s if await self.beat() else min(again_s, self._heartbeat_s)
