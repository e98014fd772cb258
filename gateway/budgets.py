"""Admission under budgets: where the store knows nothing of one, what was spent is read from the ledger, and it is asked again.

What the store says was spent is what alerts go by.

So a store that was emptied, or a budget that is new, gives nobody a second budget. Without the ledger nothing is granted.
"""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from typing import TypeVar

import structlog

from gateway.admission.client import Admission
from gateway.admission.failover import Failover
from gateway.alerts import Alerts
from gateway.errors import LimiterUnavailable
from gateway.policy.admission import Acquire, Adopt, Seed, Switch
from gateway.policy.answers import Answer, Granted, Levels, Refused, Unseeded
from gateway.policy.charges import Charge, Unit
from gateway.policy.limits import budget_of, payer_of
from gateway.policy.periods import bounds_ms
from gateway.stores.spending import LedgerUnavailableError, Spending

RETRY_AFTER_MS = 1_000
"""When to come back to a budget that nobody can tell the state of."""

Known = TypeVar("Known")

log = structlog.get_logger(__name__)


class Budgeted:
    """`admission`, to which `store` is told what budgets have spent that it does not know."""

    def __init__(self, admission: Failover, store: Admission, spending: Spending, alerts: Alerts) -> None:
        self._admission = admission
        self._store = store
        self._spending = spending
        self._alerts = alerts
        self._telling = asyncio.Lock()

    async def acquire(self, request: Acquire) -> Answer:
        """Take the first row that fits. Raises `AdmissionUnavailable` and `LimiterUnavailable`."""
        return self._seen(await self._answered(partial(self._admission.acquire, request)))

    async def switch(self, request: Switch, opened: bytes, lease: Adopt | None = None) -> Answer:
        """End the lease's attempt or its wait and take the first row that fits. Raises as `acquire` does.

        `lease` is what the request was granted, None where it has only waited.
        """
        return self._seen(await self._answered(partial(self._admission.switch, request, opened, lease)))

    async def confirm(self, request: Acquire) -> Answer:
        """Take the turn that has come of what was asked for. Raises `AdmissionUnavailable` and `LimiterUnavailable`."""
        return self._seen(await self._answered(partial(self._admission.confirm, request)))

    async def levels(self, charges: Sequence[Charge]) -> Levels:
        """Look at buckets, budgets first among them. Raises `AdmissionUnavailable` and `LimiterUnavailable`."""
        return await self._answered(partial(self._admission.levels, charges))

    def _seen(self, verdict: Answer) -> Answer:
        if isinstance(verdict, Granted | Refused) and not verdict.local:
            self._alerts.seen(verdict.levels, verdict.now_ms)
        return verdict

    async def _answered(self, ask: Callable[[], Awaitable[Known | Unseeded]]) -> Known:
        verdict = await ask()
        if not isinstance(verdict, Unseeded):
            return verdict
        # One reads the ledger, the others find told what they came for.
        async with self._telling:
            verdict = await ask()
            if isinstance(verdict, Unseeded):
                await self._tell(verdict)
                verdict = await ask()
        return known(verdict)

    async def _tell(self, unseeded: Unseeded) -> None:
        seeds = []
        for charge in unseeded.charges:
            began_ms, _ = bounds_ms(unseeded.now_ms, charge.period_ms)
            try:
                spent = await self._spending.spent(budget_of(charge), payer_of(charge), began_ms)
            except LedgerUnavailableError as error:
                log.exception("budget_unknown", budget=charge.scope)
                text = "The gateway cannot tell at the moment what is left of a budget"
                raise LimiterUnavailable(text, retry_after_ms=RETRY_AFTER_MS) from error
            seeds.append(Seed(charge, unseeded.now_ms, spent.nano_usd if charge.unit is Unit.NANO_USD else spent.tokens))
        await self._store.seed(seeds)


def known(verdict: Known | Unseeded) -> Known:
    """Return a verdict that needs nothing more to be told. Raises `LimiterUnavailable`."""
    if isinstance(verdict, Unseeded):
        raise LimiterUnavailable("The gateway cannot tell what is left of a budget", retry_after_ms=RETRY_AFTER_MS)
    return verdict
