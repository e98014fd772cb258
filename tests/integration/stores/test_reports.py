"""Sums that are exact, and rows that name their figures as they are promised."""

from pathlib import Path
from typing import Any

import msgspec
import pytest

from gateway.stores.database import MissingLedgerError, Reader, Writer
from gateway.stores.events import Event, Rank, decode
from gateway.stores.reports import LedgerAwayError, Question, Reports
from gateway.stores.versions import SchemaVersionError
from tests.integration.stores.ledger_world import fields

HOUR_MS = 3_600_000
NOVEMBER_UNIX_MS = 1_793_491_200_000


def event(n: int, **changes: object) -> Event:
    stored = decode({name.encode(): part for name, part in fields("close", n).items()})
    return msgspec.structs.replace(stored, started_unix_ms=NOVEMBER_UNIX_MS + n * HOUR_MS, **changes)


@pytest.fixture
async def reports(writer: Writer, reader: Reader) -> Reports:
    await writer.write(
        [
            event(-1, org="zeta", cost_nano_usd=999),
            event(0, project="search"),
            event(1, cost_nano_usd=None, estimated=True, outcome="cancelled"),
            event(2, provider="nebius", cost_nano_usd=1, own_cost_nano_usd=1_001, price_version="v", cache_write_tokens=3),
            event(3, rank=Rank.OPEN.value, outcome=None, duration_ms=None, tried=()),
        ]
    )
    return Reports(reader)


async def test_a_request_has_the_promised_fields(reports: Reports) -> None:
    (row,) = await reports.rows(Question(request_id="req-000000"))
    assert list(row)[:21] == [
        *("request_id", "key", "org", "project", "model_requested", "model_served", "provider", "tier_requested", "tier_served"),
        *("outcome", "attempts", "input_tokens", "cached_tokens", "output_tokens", "reasoning_tokens", "cost_micro_usd"),
        *("estimated", "queued_ms", "ttft_ms", "duration_ms", "started_at"),
    ]
    assert (row["key"], row["project"], row["attempts"], row["estimated"]) == ("ci", "search", 2, False)
    assert row["cost_micro_usd"] == 2
    assert row["started_at"] == "2026-11-01T00:00:00.000Z"


async def test_requests_come_newest_first_and_the_live_ones_only_when_asked_for(reports: Reports) -> None:
    rows = await reports.rows(Question(limit=2))
    assert [row["started_at"][11:13] for row in rows] == ["02", "01"]
    assert [row["cost_micro_usd"] for row in rows] == [1, None]
    told = [(row["own_cost_micro_usd"], row["price_version"], row["cache_write_tokens"]) for row in rows]
    assert told == [(2, "v", 3), (None, None, 0)]
    newest, *_ = await reports.rows(Question(live=True))
    assert (newest["started_at"][11:13], newest["outcome"], newest["duration_ms"]) == ("03", None, None)


async def test_sums_are_exact_and_rounded_once(reports: Reports) -> None:
    first, second = await reports.rows(Question(by=("month", "org")))
    assert first == {
        "month": "2026-11",
        "org": "acme",
        "requests": 3,
        "input_tokens": 30,
        "cached_tokens": 12,
        "output_tokens": 60,
        "reasoning_tokens": 15,
        "cost_micro_usd": 2,
        "own_cost_micro_usd": 2,
        "cache_write_tokens": 3,
        "unpriced": 1,
        "estimated": 1,
    }
    assert (second["month"], second["org"], second["cost_micro_usd"], second["own_cost_micro_usd"]) == (
        "2026-10",
        "zeta",
        1,
        None,
    )


@pytest.mark.parametrize(
    ("by", "labels"),
    [
        ("hour", ["2026-11-01T02:00Z", "2026-11-01T01:00Z", "2026-11-01T00:00Z", "2026-10-31T23:00Z"]),
        ("day", ["2026-11-01", "2026-10-31"]),
        ("month", ["2026-11", "2026-10"]),
        ("provider", ["deepinfra", "nebius"]),
        ("org", ["acme", "zeta"]),
        ("outcome", ["ok", "cancelled"]),
        ("project", [None, "search"]),
        ("model", ["llama"]),
        ("tier", ["default"]),
        ("key", ["ci"]),
    ],
)
async def test_what_is_added_up(reports: Reports, by: str, labels: list[str | None]) -> None:
    assert [row[by] for row in await reports.rows(Question(by=(by,)))] == labels


async def test_the_users_of_a_client_are_told_apart_by_the_requests_themselves(writer: Writer, reader: Reader) -> None:
    users = ("ann", "bob", "ann", None)
    await writer.write([event(n, user_hash=user, output_tokens=10**n) for n, user in enumerate(users)])
    await writer.write([event(4, rank=Rank.OPEN.value, outcome=None, user_hash="bob", output_tokens=0)])
    asked = Reports(reader)

    async def told(*names: str, **wanted: Any) -> list[tuple[Any, ...]]:
        rows = await asked.rows(Question(**{"by": ("user",), **wanted}))
        return [tuple(row[name] for name in ("user", "requests", "output_tokens", *names) if name in row) for row in rows]

    assert await told() == [("ann", 2, 101), (None, 1, 1000), ("bob", 1, 10)]
    assert await told(limit=1) == [("ann", 2, 101)]
    assert await told(since_unix_ms=NOVEMBER_UNIX_MS + HOUR_MS + 1) == [(None, 1, 1000), ("ann", 1, 100), ("bob", 1, 10)]
    assert await told(live=True, user_hash="bob") == [("bob", 2, 10)]
    assert await told(by=("hour",), user_hash="ann") == [(1, 100), (1, 1)]
    assert await told("org", by=("user", "org"), user_hash="ann") == [("ann", 2, 101, "acme")]
    listed = await asked.rows(Question(user_hash="ann"))
    assert [(row["request_id"], row["user_hash"]) for row in listed] == [("req-000002", "ann"), ("req-000000", "ann")]
    assert await told(user_hash="carl") == []


async def test_since_and_limit(reports: Reports) -> None:
    since = NOVEMBER_UNIX_MS + HOUR_MS
    (day,) = await reports.rows(Question(by=("day",), since_unix_ms=since))
    assert (day["requests"], day["cost_micro_usd"]) == (2, 1)
    assert len(await reports.rows(Question(by=("hour",), limit=2))) == 2


async def test_a_sum_without_any_price_is_unknown_not_zero(reports: Reports) -> None:
    _, cancelled = await reports.rows(Question(by=("outcome",)))
    assert (cancelled["cost_micro_usd"], cancelled["unpriced"]) == (None, 1)


async def test_a_file_that_is_not_there_is_said(tmp_path: Path) -> None:
    reader = Reader(f"sqlite:///{tmp_path}/none.db")
    with pytest.raises(MissingLedgerError):
        await Reports(reader).rows(Question())
    await reader.close()


async def test_a_ledger_of_another_release_is_not_guessed_at(writer: Writer, reader: Reader) -> None:
    async with writer._engine.begin() as connection:
        await connection.exec_driver_sql("UPDATE alembic_version SET version_num = '9999'")
    with pytest.raises(LedgerAwayError, match="9999"):
        await Reports(reader).rows(Question())
    with pytest.raises(SchemaVersionError):
        await writer.write([event(1)])
