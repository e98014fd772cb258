"""That the tables of `make chaos` and `make side-by-side` can fail: each fault made on purpose is told by its line alone."""

from random import Random
from typing import Any

import pytest
from msgspec.structs import replace

from tests.chaos.books import LOST_S, Facts, table
from tests.chaos.kills import ALONE, Kill, order
from tests.chaos.load import Got
from tests.chaos.upstream import Served
from tests.side_by_side.__main__ import AT_A_TIME, BURST, ON_BUDGET, RPM, SLOTS, limits, most_at_once, too_many

ROW: dict[str, Any] = {
    "client_request_id": "a",
    "outcome": "ok",
    "org": "acme",
    "model_served": "quick",
    "tier_served": "default",
    "input_tokens": 10,
    "output_tokens": 5,
    "estimated": False,
    "cost_nano_usd": 25_000,
}
SUMS = {"org": "acme", "requests": 1, "input_tokens": 10, "output_tokens": 5}
TWICE = {**SUMS, "requests": 2, "input_tokens": 20, "output_tokens": 10}
CALL = Served("a", "quick", "whole", 100.0, 101.0, 10, 5)
GOT = Got("a", "whole", 101.0, 200)
WELL = Facts(got=[GOT], served=[CALL], kills=[], rows=[ROW], sums=[SUMS], strict=True)


def wrong(facts: Facts) -> list[str]:
    return [line.what for line in table(facts) if line.is_bad]


def test_books_that_agree_have_nothing_wrong() -> None:
    assert wrong(WELL) == []


@pytest.mark.parametrize(
    ("facts", "told"),
    [
        (replace(WELL, rows=[], sums=[]), ["completed without a row that says so"]),
        (replace(WELL, rows=[{**ROW, "outcome": "abandoned"}]), ["completed without a row that says so"]),
        (replace(WELL, served=[replace(CALL, output_tokens=6)]), ["completed with other tokens than the provider's"]),
        (replace(WELL, rows=[{**ROW, "cost_nano_usd": 25_001}]), ["completed with another cost than their tokens'"]),
        (replace(WELL, rows=[ROW, ROW], sums=[TWICE]), ["two rows of one request"]),
        (replace(WELL, got=[replace(GOT, end="left")], rows=[{**ROW, "outcome": None}], sums=[]), ["rows that never ended"]),
        (replace(WELL, got=[], served=[CALL]), ["rows that nobody asked for"]),
        (replace(WELL, got=[replace(GOT, end="lost")], rows=[], sums=[]), ["served without a row"]),
        (replace(WELL, got=[GOT, Got("b", "stuck", 1.0)]), ["requests that nobody answered"]),
        (replace(WELL, sums=[{**SUMS, "input_tokens": 11}]), ["sums that are not their rows'"]),
    ],
)  # fmt: skip
def test_each_fault_has_its_line(facts: Facts, told: list[str]) -> None:
    assert wrong(facts) == told


@pytest.mark.parametrize("late_s", [LOST_S - 0.1, LOST_S + 0.1])
def test_standard_is_excused_for_the_bound_that_it_states_and_no_longer(late_s: float) -> None:
    lost = replace(WELL, rows=[], sums=[], strict=False, kills=[Kill("worker", GOT.ended_unix_s + late_s)])
    assert bool(wrong(lost)) == (late_s > LOST_S)
    assert wrong(replace(lost, strict=True)) == ["completed without a row that says so"]


def test_each_is_killed_as_often_as_is_said() -> None:
    kinds = order(5, Random(1))
    assert {kind: kinds.count(kind) for kind in kinds} == {"consumer": 5, "worker": 5, "supervisor": 5, "store": 5, ALONE: 1}


def calls(count: int, *, every_s: float, last_s: float = 0.0) -> list[Served]:
    return [Served(str(n), "slow", "whole", n * every_s, n * every_s + last_s, 1, 1) for n in range(count)]


def test_what_is_under_way_at_once_is_counted() -> None:
    assert most_at_once([]) == 0
    assert most_at_once(calls(9, every_s=1.0, last_s=0.9)) == 1
    assert most_at_once(calls(9, every_s=1.0, last_s=2.5)) == 3


def test_a_window_may_have_the_burst_and_what_leaked_since() -> None:
    per_s = RPM / 60
    assert too_many(calls(60, every_s=1 / per_s)) == 0
    assert too_many(calls(int(RPM * BURST), every_s=0.0)) == 0
    assert too_many(calls(int(2 * RPM * BURST), every_s=0.0)) > 0
    assert too_many([*calls(60, every_s=10.0), *calls(int(2 * RPM * BURST), every_s=0.001)]) > 0, "after a rest too"


def test_limits_that_are_broken_have_their_lines() -> None:
    crowd = calls(SLOTS + 1, every_s=0.0, last_s=1.0)
    rows = [{"client_request_id": call.id, "key": "k", "org": ON_BUDGET, "cost_nano_usd": 10**9} for call in crowd]
    found = [line.what for line in limits(crowd, {call.id: "k" for call in crowd}, rows) if line.is_bad]
    assert SLOTS + 1 > AT_A_TIME
    assert found == [
        "keys with more at a time than their limit",
        "deployments with more than their slots",
        "budgets that are overrun",
    ]
