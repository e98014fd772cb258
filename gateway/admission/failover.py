"""Admission that goes on while the store is away: by this worker's own share of every limit, from the same rules.

A call that the store did not answer may still have run there: its lease is settled like any other once the store is back, and so
is what was granted here. Of that nothing is posted to the shared buckets: at most one burst of each rate.
"""

from collections.abc import Callable, Sequence

import structlog

from gateway.admission.client import Admission
from gateway.admission.connection import AdmissionUnavailable
from gateway.policy.admission import Acquire, Report, Row, Settle, Switch
from gateway.policy.answers import Granted, Posted, Queued, Refused, Spent, Unseeded, Verdict
from gateway.policy.catalogue import USUAL_BREAKER, Breaker
from gateway.policy.leases import Buckets
from gateway.policy.shares import placed, shared

FOR_EVER_MS = 10**12
"""A lease of this worker's own ends with its request, or with the worker."""

log = structlog.get_logger(__name__)


class Local:
    """This worker's own buckets. While the store is there they only leak: one that comes and goes is worth one burst."""

    def __init__(
        self, now_ms: Callable[[], int], is_orphan: Callable[[], bool] = lambda: False, breaker: Breaker = USUAL_BREAKER
    ) -> None:
        self._now_ms = now_ms
        self._is_orphan = is_orphan
        self._buckets = Buckets(lambda _: None, breaker=breaker)

    def __contains__(self, lease_id: str) -> bool:
        return lease_id in self._buckets.leases

    def decide(self, request: Acquire | Switch, gateways: int) -> Granted | Refused | None:
        """Return a verdict by the share of one of so many gateways, None where nothing of what is asked may be served alone.

        An orphan ends too soon to settle what it would grant.
        """
        places, rows = shared(request.rows, gateways)
        if not rows or self._is_orphan():
            return None
        verdict: Verdict
        if isinstance(request, Switch) and request.id in self:
            verdict = self._buckets.switch(Switch(request.id, request.ending, rows, FOR_EVER_MS), self._now_ms())
        else:
            verdict = self._buckets.acquire(Acquire(request.id, rows, FOR_EVER_MS, b""), self._now_ms())
        return None if isinstance(verdict, Queued | Spent | Unseeded) else placed(verdict, places)

    def report(self, reports: Sequence[Report]) -> None:
        """Say how upstreams do that this worker's own leases have."""
        self._buckets.report(reports, self._now_ms())

    def settle(self, request: Settle) -> None:
        """End a lease of this worker's own, where it is one."""
        if request.id in self:
            self._buckets.settle(request, self._now_ms())
            del self._buckets.done[request.id]


class Failover:
    """The store, and `local` in its place while it is away; None there refuses instead."""

    def __init__(self, store: Admission, local: Local | None) -> None:
        self._store = store
        self._local = local
        self._alone = False

    async def acquire(self, request: Acquire) -> Verdict:
        """Take the first row that fits. Raises `AdmissionUnavailable`."""
        try:
            verdict = await self._store.acquire(request)
        except AdmissionUnavailable as lost:
            return self._decide(request, lost)
        self._met()
        return verdict

    async def switch(self, request: Switch) -> Verdict:
        """End the lease's attempt and take the first row that fits. Raises `AdmissionUnavailable`."""
        if self._local is not None and request.id in self._local:
            return self._decide(request, AdmissionUnavailable("the lease is this worker's own"))
        try:
            return await self._store.switch(request)
        except AdmissionUnavailable as lost:
            return self._decide(request, lost)

    async def confirm(self, lease_id: str, rows: Sequence[Row]) -> Verdict:
        """Take the turn that has come. Raises `AdmissionUnavailable`: who waits for a store that is away waits in vain."""
        return await self._store.confirm(lease_id, rows)

    async def report(self, reports: Sequence[Report]) -> None:
        """Say how upstreams do while attempts go on, here and in the store. Raises `AdmissionUnavailable`."""
        if self._local is not None:
            self._local.report(reports)
        await self._store.report(reports)

    async def settle(self, request: Settle) -> Posted:
        """End a lease, here and in the store. Raises `AdmissionUnavailable` until the store has taken note."""
        if self._local is not None:
            self._local.settle(request)
        return await self._store.settle(request)

    def _decide(self, request: Acquire | Switch, lost: AdmissionUnavailable) -> Verdict:
        if self._local is None:
            raise lost
        verdict = self._local.decide(request, max(1, self._store.gateways))
        if not self._alone:
            self._alone = True
            log.error("admission_alone", gateways=self._store.gateways, reason=str(lost))
        if verdict is None:
            raise lost
        return verdict

    def _met(self) -> None:
        if self._alone:
            self._alone = False
            log.info("admission_shared_again")
