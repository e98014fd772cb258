"""Word to the operator that a budget nears its end: one line and one count a budget and period, over all gateways.

Every settlement and every admission under a budget tells what was spent of it by then, so that what one worker did not get to
say the next one does. Who says it first, the store knows.
"""

from collections.abc import Sequence

import structlog

from gateway.admission.client import Admission
from gateway.admission.connection import AdmissionUnavailable
from gateway.policy.alerts import Alert, alert, is_due
from gateway.policy.answers import Level
from gateway.policy.charges import Charge
from gateway.tasks import Owned
from gateway.telemetry.cells import Cells

log = structlog.get_logger(__name__)


class Alerts:
    """Hears what is spent, and tells the operator."""

    def __init__(self, store: Admission, tasks: Owned, cells: Cells) -> None:
        self._store = store
        self._tasks = tasks
        self._cells = cells
        self._told: dict[str, str] = {}
        """By budget, the last alert of it that somebody has told."""
        self.heard: dict[str, tuple[int, int]] = {}
        """By budget of an org, what was spent of it and when (Unix ms), as this worker last heard."""

    def seen(self, levels: Sequence[Level], now_ms: int) -> None:
        """Take what an admission says of a row's buckets: budgets stand first."""
        for level in levels:
            if not level.charge.is_budget:
                return
            self._note(level.charge, level.level, now_ms)

    def settled(self, budgets: Sequence[Charge], spent: Sequence[int], now_ms: int) -> None:
        """Take what a settlement says was spent of a request's budgets; it says nothing where it ended nothing."""
        for charge, units in zip(budgets, spent, strict=False):
            self._note(charge, units, now_ms)

    def _note(self, charge: Charge, spent: int, now_ms: int) -> None:
        if charge.scope.startswith("ob:"):
            self.heard[charge.scope] = spent, now_ms
        if not is_due(charge, spent):
            return
        due = alert(charge, spent, now_ms)
        if self._told.get(charge.scope) != due.name:
            self._told[charge.scope] = due.name
            self._tasks.detach(self._tell(due, charge.scope, now_ms), name="budget-alert")

    async def _tell(self, due: Alert, budget: str, now_ms: int) -> None:
        try:
            is_first = await self._store.claim(f"alerted:{due.name}", due.ends_ms - now_ms)
        except AdmissionUnavailable:
            self._told.pop(budget, None)  # the budget's next request brings it up again
            return
        if is_first:
            self._cells.budget_alerts[due.scope,] += 1
            figures = {f"limit_{due.unit}": due.limit, f"spent_{due.unit}": due.spent}
            log.warning("budget_alert", scope=due.scope, name=due.whose, period=due.period, share=due.share, **figures)
