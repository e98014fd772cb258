"""A budget over the ends of its periods, on a clock that the test drives: the store forgets, and the ledger tells."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from gateway.admission.client import Admission
from gateway.admission.failover import Failover
from gateway.admission.spool import Spool
from gateway.alerts import Alerts
from gateway.budgets import Budgeted
from gateway.errors import LimiterUnavailable
from gateway.policy.admission import Row
from gateway.policy.answers import Granted, Refused
from gateway.policy.catalogue import Budget
from gateway.policy.charges import Estimate
from gateway.policy.limits import budget_charges
from gateway.policy.periods import bounds_ms
from gateway.stores.database import Reader, Writer
from gateway.stores.events import Event, Rank
from gateway.stores.spending import Spending
from gateway.tasks import Owned
from gateway.telemetry.cells import Cells
from gateway.telemetry.labels import Labels
from tests.integration.admission.rows import Clock, acquire, row, settle
from tests.integration.admission.state import PREFIX, ask

[DAY] = budget_charges("kb:ci", Budget(nano_usd=100, period="day"))
[MONTH] = budget_charges("ob:acme", Budget(nano_usd=250, period="month"))


def costs(nano_usd: int) -> Estimate:
    return Estimate(1, 10, 20, 30, cost_nano_usd=nano_usd)


def asking(nano_usd: int) -> Row:
    return row((DAY, MONTH), cost=costs(nano_usd))


class Shop:
    """A caller that spends, and the ledger that hears of it."""

    def __init__(self, budgeted: Budgeted, admission: Admission, clock: Clock, writer: Writer) -> None:
        self.admission = admission
        self.clock = clock
        self.budgeted = budgeted
        self._writer = writer
        self._sold = 0

    async def sells(self, nano_usd: int) -> bool:
        """Ask for something that costs so much. Return whether it was granted; it is paid for then."""
        self._sold += 1
        verdict = await self.budgeted.acquire(acquire(f"sale-{self._sold}", asking(nano_usd)))
        if isinstance(verdict, Refused):
            return False
        assert isinstance(verdict, Granted)
        await self.admission.settle(settle(f"sale-{self._sold}", costs(nano_usd)))
        await self._writer.write([event(f"sale-{self._sold}", self.clock.now_ms, nano_usd)])
        return True

    async def forget(self) -> None:
        await ask(self.admission._connection, "FLUSHALL")


def event(request_id: str, at_ms: int, nano_usd: int) -> Event:
    return Event(
        request_id=request_id,
        started_unix_ms=at_ms,
        key="ci",
        key_id="ci",
        org="acme",
        project=None,
        model_requested="m",
        tier_requested=None,
        route="chat",
        stream=False,
        client_request_id=None,
        rank=Rank.CLOSED.value,
        outcome="ok",
        cost_nano_usd=nano_usd,
    )


@pytest.fixture
async def shop(admission: Admission, clock: Clock, spool: Spool, tmp_path: Path) -> AsyncIterator[Shop]:
    url = f"sqlite:///{tmp_path}/ledger.db"
    writer, reader = Writer(url), Reader(url)
    await writer.migrate()
    alerts = Alerts(admission, Owned(), Cells(Labels.of((), ())))
    yield Shop(Budgeted(Failover(admission, None, spool), admission, Spending(reader), alerts), admission, clock, writer)
    await reader.close()
    await writer.close()


@pytest.mark.parametrize("forgets", [False, True])
async def test_each_period_has_its_budget_and_no_other(shop: Shop, clock: Clock, forgets: bool) -> None:
    clock.now_ms = bounds_ms(clock.now_ms, MONTH.period_ms)[0]
    for day, sold in enumerate(([60, 40], [60, 40], [50], [])):
        assert [await shop.sells(cost) for cost in sold] == [True] * len(sold), day
        assert not await shop.sells(50), day
        if forgets:
            await shop.forget()
            assert not await shop.sells(50), day
        clock.now_ms = bounds_ms(clock.now_ms, DAY.period_ms)[1]
    clock.now_ms = bounds_ms(clock.now_ms, MONTH.period_ms)[1] - 1
    assert not await shop.sells(1), "the last of the month"
    clock.now_ms += 1
    assert await shop.sells(100)


async def test_where_the_ledger_is_silent_nothing_is_granted_and_nothing_held(shop: Shop, tmp_path: Path) -> None:
    (tmp_path / "ledger.db").rename(tmp_path / "away.db")
    with pytest.raises(LimiterUnavailable):
        await shop.sells(1)
    assert await ask(shop.admission._connection, "KEYS", f"{PREFIX}*") == []
    (tmp_path / "away.db").rename(tmp_path / "ledger.db")
    assert await shop.sells(1)
