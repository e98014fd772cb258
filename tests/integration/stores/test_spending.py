"""What the ledger says was spent: by whom, and in the period in which each request ended."""

from pathlib import Path

import msgspec
import pytest

from gateway.policy.periods import DAY_MS
from gateway.stores.database import Reader, Writer
from gateway.stores.events import Event, Rank, decode
from gateway.stores.spending import LedgerUnavailableError, Spending, Spent
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
    ("payer", "nano_usd", "tokens"),
    [
        ({"org": "acme"}, 11_010, 4 * ANSWER_TOKENS),
        ({"key_id": "k1"}, 101_010, 4 * ANSWER_TOKENS),
        ({"key_id": "k2"}, 10_000, ANSWER_TOKENS),
        ({"org": "acme", "project": "search"}, 1_000, ANSWER_TOKENS),
        ({"org": "nobody"}, 0, 0),
    ],
)
async def test_what_ended_in_the_period_counts(spending: Spending, payer: dict[str, str], nano_usd: int, tokens: int) -> None:
    assert await spending.spent(payer, BEGAN_MS) == Spent(nano_usd, tokens)


async def test_a_ledger_that_is_not_there_says_nothing(tmp_path: Path) -> None:
    reader = Reader(f"sqlite:///{tmp_path}/none.db")
    with pytest.raises(LedgerUnavailableError):
        await Spending(reader).spent({"org": "acme"}, BEGAN_MS)
    await reader.close()
