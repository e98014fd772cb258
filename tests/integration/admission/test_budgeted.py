"""A budget over the ends of its periods, on a clock that the test drives: the store forgets, and the ledger tells."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from gateway.admission.client import Admission
from gateway.admission.connection import Connection
from gateway.admission.discovery import locator
from gateway.admission.failover import Failover
from gateway.admission.spool import Spool
from gateway.alerts import Alerts
from gateway.budgets import Budgeted
from gateway.errors import LimiterUnavailable
from gateway.policy.admission import Row, Seed
from gateway.policy.answers import Granted, Level, Refused
from gateway.policy.catalogue import Budget
from gateway.policy.charges import Charge, Estimate
from gateway.policy.limits import budget_charges
from gateway.policy.periods import DAY_MS, bounds_ms
from gateway.stores.database import Reader, Writer
from gateway.stores.events import Event, Rank
from gateway.stores.spending import Spending
from gateway.tasks import Owned
from gateway.telemetry.cells import Cells
from gateway.telemetry.labels import Labels
from tests.integration.admission.rows import Clock, acquire, row, settle
from tests.integration.admission.state import PREFIX, ask
from tests.valkey import Valkey

DAY, TOKENS_A_DAY = budget_charges("kb:ci", Budget(nano_usd=100, tokens=100, period="day"))
MONTH, TOKENS_A_MONTH = budget_charges("ob:acme", Budget(nano_usd=250, tokens=250, period="month"))
MONEY, TOKENS = (DAY, MONTH), (TOKENS_A_DAY, TOKENS_A_MONTH)


def costs(amount: int) -> Estimate:
    """Return what takes so much of either kind of budget."""
    return Estimate(1, 10, 20, 30, cost_nano_usd=amount, budget_tokens=amount)


def asking(amount: int, budgets: tuple[Charge, ...] = MONEY) -> Row:
    return row(budgets, cost=costs(amount))


class Shop:
    """A caller that spends of `budgets`, and the ledger that hears of it."""

    budgets: tuple[Charge, ...] = MONEY

    def __init__(self, budgeted: Budgeted, admission: Admission, clock: Clock, writer: Writer) -> None:
        self.admission = admission
        self.clock = clock
        self.budgeted = budgeted
        self._writer = writer
        self._sold = 0

    async def sells(self, amount: int) -> bool:
        """Ask for something that takes so much. Return whether it was granted; it is paid for then."""
        self._sold += 1
        verdict = await self.budgeted.acquire(acquire(f"sale-{self._sold}", asking(amount, self.budgets)))
        if isinstance(verdict, Refused):
            return False
        assert isinstance(verdict, Granted)
        await self.admission.settle(settle(f"sale-{self._sold}", costs(amount)))
        await self._writer.write([event(f"sale-{self._sold}", self.clock.now_ms, amount)])
        return True

    def beside(self) -> Budgeted:
        """Return another worker's, on the same store and ledger."""
        failover = Failover(self.admission, None, self.budgeted._admission.spool)
        return Budgeted(failover, self.admission, self.budgeted._spending, self.budgeted._alerts, heartbeat_s=1.0)

    async def write(self, event: Event) -> None:
        await self._writer.write([event])

    async def forget(self) -> None:
        await ask(self.admission._connection, "FLUSHALL")


def event(request_id: str, at_ms: int, amount: int) -> Event:
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
        input_tokens=amount // 3,
        output_tokens=amount - amount // 3,
        cost_nano_usd=amount,
    )


@pytest.fixture
async def shop(admission: Admission, clock: Clock, spool: Spool, tmp_path: Path) -> AsyncIterator[Shop]:
    url = f"sqlite:///{tmp_path}/ledger.db"
    writer, reader = Writer(url), Reader(url)
    await writer.migrate()
    alerts = Alerts(admission, Owned(), Cells(Labels.of({}, ())))
    budgeted = Budgeted(Failover(admission, None, spool), admission, Spending(reader), alerts, heartbeat_s=1.0)
    yield Shop(budgeted, admission, clock, writer)
    await budgeted.stop()
    await reader.close()
    await writer.close()


@pytest.mark.parametrize("budgets", [MONEY, TOKENS])
@pytest.mark.parametrize("forgets", [False, True])
async def test_each_period_has_its_budget_and_no_other(
    shop: Shop, clock: Clock, forgets: bool, budgets: tuple[Charge, ...]
) -> None:
    shop.budgets = budgets
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


async def test_however_many_workers_tell_at_once_it_is_told_once(shop: Shop, clock: Clock) -> None:
    shop.budgets = MONEY + TOKENS
    assert await shop.sells(30)
    await shop.forget()
    asked = [shop.beside() for _ in range(8)]
    verdicts = await asyncio.gather(
        *(each.acquire(acquire(f"of-{at}", asking(15, shop.budgets))) for at, each in enumerate(asked))
    )
    assert sum(isinstance(verdict, Granted) for verdict in verdicts) == (100 - 30) // 15
    levels = await shop.budgeted.levels(shop.budgets)
    assert [(level.level, level.held) for level in levels.levels] == [(30, 60)] * 4
    for each in asked:
        await each.stop()


async def test_what_the_store_lost_after_it_was_told_is_told_again(shop: Shop, clock: Clock) -> None:
    """A request that the store had lost ends, and only the ledger hears of it; a lower figure is none."""
    for amount in (20, 10):
        assert await shop.sells(amount)
    await shop.forget()
    assert await shop.sells(5)
    await shop.write(event("lost", clock.now_ms, 40))
    async with asyncio.timeout(10.0):
        while [level.level for level in (await shop.budgeted.levels(MONEY)).levels] != [75, 75]:
            await asyncio.sleep(0.05)
    await shop.admission.seed([Seed(charge, clock.now_ms, 60) for charge in MONEY])
    assert [level.level for level in (await shop.budgeted.levels(MONEY)).levels] == [75, 75]
    assert not await shop.sells(26)
    assert await shop.sells(25)


async def test_what_is_to_be_done_once_one_alone_is_told_to_do(shop: Shop) -> None:
    assert [await shop.admission.claim("alerted:a", 60_000) for _ in range(3)] == [True, False, False]
    assert await shop.admission.claim("alerted:b", 60_000)
    assert 0 < await ask(shop.admission._connection, "PTTL", f"{PREFIX}alerted:a") <= 60_000


async def test_an_alert_that_the_store_did_not_take_is_brought_up_again(
    shop: Shop, connection: Connection, clock: Clock, valkey: Valkey
) -> None:
    lost, cells, tasks = Connection(locator(valkey.url), Owned(), timeout_s=1.0), Cells(Labels.of({}, ())), Owned()
    told = Alerts(Admission(lost), tasks, cells)
    for store, count in ((told._store, 0), (shop.admission, 1), (shop.admission, 1)):
        told._store = store
        told.settled((DAY, MONTH), (80, 80), clock.now_ms)
        told.seen([Level(DAY, 85, 0, 0), Level(MONTH, 85, 0, 0)], clock.now_ms)
        await tasks.wait()
        assert cells.budget_alerts == ({("key",): count} if count else {})
    told.settled((DAY, MONTH), (), clock.now_ms)
    told.settled((DAY, MONTH), (100, 200), clock.now_ms + DAY_MS)
    await tasks.wait()
    assert cells.budget_alerts == {("key",): 2, ("org",): 1}, "the next day's, and the month's"


async def test_where_the_ledger_is_silent_nothing_is_granted_and_nothing_held(shop: Shop, tmp_path: Path) -> None:
    (tmp_path / "ledger.db").rename(tmp_path / "away.db")
    with pytest.raises(LimiterUnavailable):
        await shop.sells(1)
    assert await ask(shop.admission._connection, "KEYS", f"{PREFIX}*") == []
    (tmp_path / "away.db").rename(tmp_path / "ledger.db")
    assert await shop.sells(1)
