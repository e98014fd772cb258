"""Sums kept as requests are stored are the sums of the requests, whatever came in which order, how often and in which batch."""

import asyncio
from collections import Counter
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from sqlalchemy import Text, cast, select

from gateway.policy.record import Attempt
from gateway.stores.database import Reader, Writer
from gateway.stores.events import Event, Rank
from gateway.stores.reports import DIMENSIONS, SUMS, WHATS, WHENS, Question, Reports, Row
from gateway.stores.rollups import DAY_MS, HOUR_MS, SPANS, start_of_hour
from gateway.stores.schema import EVENTS

BEGAN = 1_796_083_200_000 - 2 * DAY_MS
"""Two days before the end of November 2026: months, days and hours all end within what is tried."""

STARTS = [BEGAN + hours * HOUR_MS + late_ms for hours in (0, 1, 25, 47, 48, 60, 24 * 40) for late_ms in (0, HOUR_MS - 1)]
ENDS = ("ok", "cancelled", "interrupted")
FAILED = Attempt(model="m", provider="p", status=429, outcome="busy", sent=True, duration_ms=1)

names = st.sampled_from(["a", "b"])
figures = st.integers(0, 10**12)
known = st.none() | figures


@st.composite
def events(draw: st.DrawFn) -> Event:
    """Return something that happened to one of a few requests; what its opening says is always the same."""
    n = draw(st.integers(0, 7))
    rank = draw(st.sampled_from(Rank))
    opening = Event(
        request_id=f"r{n}",
        started_unix_ms=STARTS[n * 5 % len(STARTS)],
        key="ci" if n % 2 else "batch",
        key_id=f"k{n % 2}",
        org="acme" if n % 3 else "zeta",
        project=None if n % 3 else "search",
        model_requested="m",
        tier_requested=None,
        route="chat",
        stream=False,
        client_request_id=None,
        rank=rank.value,
        user_hash=None if n % 4 else f"u{n % 3}",
    )
    if rank is Rank.OPEN:
        return opening
    used: dict[str, int | None] = {
        name: draw(figures) for name in ("input_tokens", "cached_tokens", "output_tokens", "reasoning_tokens")
    }
    used |= {"cost_nano_usd": draw(known), "own_cost_nano_usd": draw(known), "cache_write_tokens": draw(figures)}
    outcome = "abandoned" if rank is Rank.ABANDONED else draw(st.sampled_from(ENDS))
    served = {} if rank is Rank.ABANDONED else {"model_served": draw(names), "provider": draw(names), "tier_served": draw(names)}
    tried = (FAILED,) if draw(st.booleans()) else ()
    return msgspec.structs.replace(opening, outcome=outcome, estimated=draw(st.booleans()), tried=tried, **used, **served)


batches = st.lists(st.lists(events(), min_size=1, max_size=5), max_size=6)
questions = st.tuples(
    st.lists(st.sampled_from(DIMENSIONS), min_size=1, max_size=3, unique=True),
    st.sampled_from([0, *STARTS, BEGAN + 3 * DAY_MS, BEGAN + 10**12]),
    st.booleans(),
)


async def added_up(reader: Reader, by: Sequence[str], since: int, *, live: bool) -> dict[tuple[object, ...], Row]:
    """Return the answer by the requests alone: every one of them is looked at."""
    found: dict[tuple[object, ...], Counter[str]] = {}
    for row in await reader.fetch(select(EVENTS)):
        if row["started_unix_ms"] < start_of_hour(since) or not (live or row["rank"]):
            continue
        began = datetime.fromtimestamp(row["started_unix_ms"] / 1000, UTC)
        labels = tuple(row[WHATS[name]] if name in WHATS else began.strftime(WHENS[name][1]) for name in by)
        total = found.setdefault(labels, Counter())
        flags = {"requests": 1, "unpriced": row["cost_nano_usd"] is None, "own_unpriced": row["own_cost_nano_usd"] is None}
        total.update({name: int(flags.get(name, row.get(name)) or 0) for name in (*SUMS, "own_unpriced")})
    return {labels: _shown(total) for labels, total in found.items()}


def _shown(total: Counter[str]) -> Row:
    shown: dict[str, Any] = {name: total[name] for name in SUMS}
    for money, unknown in (("cost", "unpriced"), ("own_cost", "own_unpriced")):
        nano_usd = shown.pop(f"{money}_nano_usd")
        shown[f"{money}_micro_usd"] = None if total[unknown] == total["requests"] else -(-nano_usd // 1000)
    return shown


async def answered(reader: Reader, by: Sequence[str], since: int, *, live: bool) -> dict[tuple[object, ...], Row]:
    rows = await Reports(reader).rows(Question(by=tuple(by), since_unix_ms=since, live=live))
    return {tuple(row.pop(name) for name in by): row for row in rows}


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
@given(batches=batches, asked=st.lists(questions, min_size=4, max_size=4))
async def test_a_report_is_the_sum_of_the_requests(
    writer: Writer, reader: Reader, batches: list[list[Event]], asked: list[tuple[list[str], int, bool]]
) -> None:
    # The examples of one run share a database: the law holds for whatever they have left in it.
    for batch in batches:
        await writer.write(batch)
        await writer.write(batch[:1])
    for by, since, live in asked:
        assert await answered(reader, by, since, live=live) == await added_up(reader, by, since, live=live)


def closed(n: int, **changes: Any) -> Event:
    event = Event(
        request_id=f"r{n}",
        started_unix_ms=BEGAN,
        key="ci",
        key_id="k1",
        org="acme",
        project=None,
        model_requested="m",
        tier_requested=None,
        route="chat",
        stream=False,
        client_request_id=None,
        rank=Rank.CLOSED.value,
        outcome="ok",
        model_served="m",
        output_tokens=5,
    )
    return msgspec.structs.replace(event, **changes)


async def test_of_two_equal_ends_the_first_stays(writer: Writer, reader: Reader) -> None:
    for tokens in (5, 7):
        await writer.write([closed(1, output_tokens=tokens)])
    [total] = await Reports(reader).rows(Question(by=("org",)))
    [row] = await Reports(reader).rows(Question())
    assert (total["requests"], total["output_tokens"], row["output_tokens"]) == (1, 5, 5)


async def test_two_writers_that_both_believe_to_be_the_only_one_count_once(url: str, reader: Reader) -> None:
    writers = [Writer(url) for _ in range(2)]
    lapsed = {"rank": Rank.ABANDONED.value, "outcome": "abandoned", "model_served": None}
    for turn in range(5):
        batch = [closed(n) for n in range(turn * 40, turn * 40 + 40)]
        await writers[0].write([closed(n, **lapsed) for n in range(turn * 40, turn * 40 + 20)])
        await asyncio.gather(*(writer.write(batch) for writer in writers))
    for writer in writers:
        await writer.close()
    [total] = await Reports(reader).rows(Question(by=("org", "outcome", "model")))
    assert (total["requests"], total["output_tokens"]) == (200, 1000)


async def test_one_request_and_the_open_ones_are_added_up_too(writer: Writer, reader: Reader) -> None:
    await writer.write([closed(1), closed(2), closed(3, rank=Rank.OPEN.value, outcome=None, model_served=None)])
    reports = Reports(reader)
    assert [row["requests"] for row in await reports.rows(Question(by=("org",), request_id="r1"))] == [1]
    assert await reports.rows(Question(by=("org",), request_id="r3")) == []
    assert [row["requests"] for row in await reports.rows(Question(by=("org",), request_id="r3", live=True))] == [1]
    rows = await reports.rows(Question(by=("model", "month"), live=True))
    assert [(row["model"], row["requests"]) for row in rows] == [("m", 2), (None, 1)]


async def test_what_nobody_counts_any_more_is_in_no_report(writer: Writer, reader: Reader) -> None:
    await writer.write([closed(1, rank=Rank.ABANDONED.value, outcome="abandoned", output_tokens=0)])
    await writer.write([closed(1)])
    assert [row["outcome"] for row in await Reports(reader).rows(Question(by=("outcome",)))] == ["ok"]
    for span in SPANS:
        held = await reader.fetch(select(cast(span.table.c.outcome, Text), span.table.c.requests).order_by("outcome"))
        assert [(row["outcome"], row["requests"]) for row in held] == [("abandoned", 0), ("ok", 1)]


@pytest.mark.parametrize("since", [0, 1, BEGAN, 2**62])
async def test_any_instant_may_be_asked_from(reader: Reader, since: int) -> None:
    for by in DIMENSIONS:
        assert await Reports(reader).rows(Question(by=(by,), since_unix_ms=since)) == []
