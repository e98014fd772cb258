"""What the ledger says was spent: by whom, and in the period in which each request ended."""

from pathlib import Path

import msgspec
import pytest
from sqlalchemy import insert

from gateway.policy.catalogue import Budget
from gateway.policy.limits import budget_charges, budget_of, payer_of
from gateway.policy.periods import DAY_MS
from gateway.stores.database import Reader, Writer
from gateway.stores.engine import Database
from gateway.stores.events import Event, Rank, decode
from gateway.stores.spending import LedgerUnavailableError, Spending, Spent
from gateway.stores.tenancy_schema import OPENING_BALANCES
from tests.integration.stores.ledger_world import fields

BEGAN_MS = 1_793_491_200_000
MINUTE_MS = 60_000
ANSWER_TOKENS = 30
"""In and out, of each request; what is cached or reasoning is in them."""


def event(n: int, started_ms: int, cost_nano_usd: int | None, **changes: object) -> Event:
    stored = decode({name.encode(): part for name, part in fields("close", n).items()})
    return msgspec.structs.replace(stored, started_unix_ms=BEGAN_MS + started_ms, cost_nano_usd=cost_nano_usd, **changes)


@pytest.fixture
async def spending(writer: Writer, reader: Reader) -> Spending:
    lapsed = {"rank": Rank.ABANDONED.value, "outcome": "abandoned", "duration_ms": None}
    await writer.write(
        [
            event(1, -DAY_MS // 2, 1, duration_ms=MINUTE_MS),
            event(2, -MINUTE_MS, 10, duration_ms=MINUTE_MS),
            event(3, -MINUTE_MS, 100, duration_ms=MINUTE_MS - 1),
            event(4, 0, 1_000, project="search"),
            event(5, 5, 10_000, key_id="k2", **lapsed),
            event(6, 5, None),
            event(7, 5, 100_000, org="zeta", project="search"),
            event(8, 5, 1_000_000, rank=Rank.OPEN.value, outcome=None, duration_ms=None, tried=()),
        ]
    )
    return Spending(reader)


@pytest.mark.parametrize(
    ("budget", "nano_usd", "tokens"),
    [
        ("ob:month:acme", 11_010, 4 * ANSWER_TOKENS),
        ("kb:month:k1", 101_010, 4 * ANSWER_TOKENS),
        ("kb:month:k2", 10_000, ANSWER_TOKENS),
        ("pb:month:acme:search", 1_000, ANSWER_TOKENS),
        ("ob:month:nobody", 0, 0),
    ],
)
async def test_what_ended_in_the_period_counts(spending: Spending, budget: str, nano_usd: int, tokens: int) -> None:
    assert await spent(spending, budget) == Spent(nano_usd, tokens)


async def spent(spending: Spending, budget: str, since_ms: int = BEGAN_MS) -> Spent:
    whose, _, name = budget.split(":", 2)
    [charge] = budget_charges(f"{whose}:{name}", Budget(nano_usd=1))
    assert budget_of(charge) == budget
    return await spending.spent(budget, payer_of(charge), since_ms)


async def test_what_was_spent_elsewhere_counts_in_its_own_period(spending: Spending, url: str) -> None:
    before = [
        ("ob:month:acme", BEGAN_MS, 5, 7),
        ("ob:month:acme", BEGAN_MS - DAY_MS, 500, 700),
        ("ob:month:nobody", BEGAN_MS, 3, 0),
    ]
    columns = ("scope", "period_start_unix_ms", "nano_usd", "tokens")
    engine = Database(url).open_to_write()
    async with engine.begin() as connection:
        await connection.execute(insert(OPENING_BALANCES), [dict(zip(columns, each, strict=True)) for each in before])
    await engine.dispose()
    assert await spent(spending, "ob:month:acme") == Spent(11_015, 4 * ANSWER_TOKENS + 7)
    assert await spent(spending, "ob:month:nobody") == Spent(3, 0)
    assert await spent(spending, "kb:month:k1") == Spent(101_010, 4 * ANSWER_TOKENS)


async def test_a_ledger_that_is_not_there_says_nothing(tmp_path: Path) -> None:
    reader = Reader(f"sqlite:///{tmp_path}/none.db")
    with pytest.raises(LedgerUnavailableError):
        await spent(Spending(reader), "ob:month:acme")
    await reader.close()
