"""Closing the books on a request: the settlement is asked for until the store has it, then the record is projected.

A store that is away for a while costs nothing but the wait: a lease that expires meanwhile is settled late, and only the
difference is posted. One that is away for longer hears of it from the spool. Seconds.
"""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from typing import Protocol

import structlog

from gateway.admission.connection import AdmissionUnavailable
from gateway.admission.failover import Failover
from gateway.alerts import Alerts
from gateway.policy.admission import Settle
from gateway.policy.answers import Posted
from gateway.policy.charges import Charge
from gateway.policy.experience import Experience
from gateway.policy.record import Record

FIRST_PAUSE_S = 0.1
LONGEST_PAUSE_S = 2.0

PATIENCE_S = 30.0
"""How long a settlement is tried from memory: beyond a failover or a restart of the store. Then the spool tells it alone."""

log = structlog.get_logger(__name__)


class Observer(Protocol):
    """Who projects records."""

    def begin(self, record: Record, fields: Mapping[bytes, bytes]) -> None:
        """Take a record whose request, with these headers, has begun; it is in flight until `observe`."""
        ...

    def observe(self, record: Record) -> None:
        """Take a record that is complete."""
        ...


class Bookkeeper:
    """Settles leases, keeps what the store has learned by it, and hands records on; a `gateway.exchange.Books`."""

    def __init__(
        self, admission: Failover, observer: Observer, experience: Experience, alerts: Alerts, now_s: Callable[[], float]
    ) -> None:
        self._admission = admission
        self._observer = observer
        self._experience = experience
        self._alerts = alerts
        self.now_s = now_s
        """Returns the monotonic clock."""
        self.durable = admission.durable
        """Ends are on disk before their clients have the last."""

    def begin(self, record: Record, fields: Mapping[bytes, bytes]) -> None:
        """Count a request with these headers as in flight."""
        self._observer.begin(record, fields)

    def observe(self, record: Record) -> None:
        """Project a record that is complete."""
        self._observer.observe(record)

    async def secure(self, end: Callable[[], Settle]) -> None:
        """Bring an end to the disk."""
        await self._admission.secure(end)

    async def settle(self, settlement: Settle, budgets: Sequence[Charge]) -> Posted | None:
        """Settle, however long the store takes; return None when patience ended."""
        give_up_s = self.now_s() + PATIENCE_S
        pause_s = FIRST_PAUSE_S
        while True:
            try:
                posted = await self._admission.settle(settlement)
            except AdmissionUnavailable:
                if self.now_s() >= give_up_s:
                    if not self._admission.leave(settlement.id):
                        log.exception("settlement_lost", request_id=settlement.id)
                    return None
            else:
                if settlement.lesson is not None and posted.learned is not None:
                    self._experience.note(settlement.lesson, posted.learned)
                self._alerts.settled(budgets, posted.budgets, posted.now_ms)
                return posted
            await asyncio.sleep(pause_s)
            pause_s = min(2 * pause_s, LONGEST_PAUSE_S)
