"""Admission values as arguments, and replies as verdicts."""

import struct

import msgspec
import pytest
from msgspec.structs import astuple

from gateway.admission.codec import (
    KEPT_ROWS,
    MOST_SPENT,
    MOST_UNITS,
    EndingEncoder,
    RowEncoder,
    condition,
    doubles,
    encode_estimate,
    encode_lesson,
    posted,
    verdict,
)
from gateway.policy.admission import Ending, Lesson, Precedence, Row, Sign, Upstream
from gateway.policy.answers import Cause, Granted, Growth, Learned, Level, Posted, Refusal, Refused, Spent, Unseeded
from gateway.policy.breaker import Breaker
from gateway.policy.catalogue import Budget, Dynamic, Guards, Key, Limits, Org, Tier
from gateway.policy.charges import Charge, Estimate, Reach
from gateway.policy.charging import Target, Tenant, target_charges
from gateway.policy.limits import budget_charges, charges
from gateway.policy.upstreams import Condition
from tests.catalogues import TERMS, model

PREFIX = "tg:v1:{c0}:"
KEY = charges("k:ci", Limits(rpm=60, concurrency=2), reach=Reach.REQUEST, tenant=True, ends_walk=True)
NOWHERE = Upstream()
[BUDGET] = budget_charges("kb:ci", Budget(nano_usd=5_000_000_000))
GROWS = charges(
    "k:ci",
    Limits(rpm=60, concurrency=2, dynamic=Dynamic(window_ms=900_000, ceiling_milli=20_000)),
    reach=Reach.REQUEST,
    tenant=True,
)
ONE = charges("d:a/one", Limits(rpd=9), reach=Reach.DEPLOYMENT, tenant=False)


def row(charged: tuple[Charge, ...]) -> Row:
    return Row(NOWHERE, "a", Tier.DEFAULT, charged, Estimate(1, 2, 3, 5))


def packed(*figures: object) -> bytes:
    return msgspec.msgpack.encode(list(figures))


def unpacked(figures: bytes) -> list[float]:
    return list(struct.unpack(f"<{len(figures) // 8}d", figures))


def test_charges_are_grouped_by_scope() -> None:
    encoded = RowEncoder(PREFIX).encode(row(KEY + ONE))
    assert encoded.keys == ("tg:v1:{c0}:k:ci", "tg:v1:{c0}:d:a/one")
    assert [unpacked(group) for group in encoded.groups] == [
        [0, 1, 9, 0, 0, 60, 60, 60_000, 1, 24, 2, 4, 2, 0, 1, 1],
        [2, 0, 12, 1, 0, 9, 0, 86_400_000, 0],
    ]


def test_a_budget_has_the_first_place_of_a_scope_of_its_own() -> None:
    encoded = RowEncoder(PREFIX).encode(row((BUDGET, *KEY)))
    assert encoded.keys == ("tg:v1:{c0}:kb:month:ci", "tg:v1:{c0}:k:ci")
    assert unpacked(encoded.groups[0]) == [0, 1, 9, 1, 5, 5_000_000_000, 0, 0, 1]


def test_its_tokens_have_the_same_place_of_another() -> None:
    encoded = RowEncoder(PREFIX).encode(row((*budget_charges("kb:ci", Budget(tokens=700, period="day")), *KEY)))
    assert encoded.keys == ("tg:v1:{c0}:kb:day:ci:tokens", "tg:v1:{c0}:k:ci")
    assert unpacked(encoded.groups[0]) == [0, 1, 9, 1, 6, 700, 0, 86_400_000, 1]


def test_however_many_scopes_a_row_has_one_digit_tells() -> None:
    every, budget = Limits(rpm=1, concurrency=1), Budget(nano_usd=1, tokens=1)
    key = Key(
        id="ci",
        name="ci",
        org="acme",
        plan="p",
        project="search",
        limits=every,
        per_model={"m": every},
        flex=Guards(rpm=1),
        budget=budget,
        project_budgets={"search": budget},
        project_limits={"search": every},
    )
    org, served = Org(name="acme", limits=every, per_model={"m": every}, budget=budget), model("m", limits=every)
    target = Target(served, served.deployments[0], Tier.FLEX)
    charged = target_charges(Tenant(key, org), target, TERMS[Tier.FLEX], walks_past_rates=False)
    encoded = RowEncoder(PREFIX).encode(row(charged))
    assert (len(encoded.keys), [seat[:2] for seat in encoded.seats]) == (14, [b"0e", b"1e"])


def test_a_scope_that_grows_says_by_which_windows_and_how_far() -> None:
    encoded = RowEncoder(PREFIX).encode(row((*GROWS, *ONE)))
    assert unpacked(encoded.groups[0]) == [0, 1, 9, 0, 0, 60, 60, 60_000, 0, 24, 2, 4, 2, 0, 1, 0, 900_000, 20_000]
    assert unpacked(encoded.groups[1]) == [2, 0, 12, 1, 0, 9, 0, 86_400_000, 0]


def test_the_same_charges_are_encoded_once() -> None:
    encoder, charged = RowEncoder(PREFIX), KEY + ONE
    assert encoder.encode(row(charged)) is encoder.encode(row(charged))
    assert encoder.encode(row(KEY + ONE)) is not encoder.encode(row(charged))


def test_a_row_is_never_taken_for_another_with_the_same_charges() -> None:
    encoder, charged = RowEncoder(PREFIX), KEY + ONE
    plain = encoder.encode(row(charged))
    elsewhere = msgspec.structs.replace(
        row(charged), upstream=Upstream("a/one", "one", 8, 700_000), pool="a", precedence=Precedence.FLEX
    )
    assert [msgspec.msgpack.decode(seat[2:]) for seat in encoder.encode(elsewhere).seats] == 2 * [
        [3, "a", "a/one", "one", 8, 700_000]
    ]
    assert encoder.encode(row(charged)) == plain


def test_a_row_that_is_the_last_says_so() -> None:
    assert [seat[:2] for seat in RowEncoder(PREFIX).encode(row(KEY + ONE)).seats] == [b"02", b"12"]


def test_an_ending_is_its_sign_its_figures_and_the_terms() -> None:
    encoder = EndingEncoder(Breaker())
    for ending in (Ending(), Ending(Sign.GOOD), Ending(Sign.GOOD, exhausted_ms=7), Ending(Sign.BUSY, 2_500, 999)):
        told = encoder.encode(ending)
        figures = [ending.hint_ms, ending.dice, ending.exhausted_ms, 5, 500_000, 30_000, 10_000, 300_000, 60_000]
        assert (told[:2], msgspec.msgpack.decode(told[2:])) == (b"%d%d" % (ending.is_news, ending.sign), figures)


def test_what_is_kept_is_bounded() -> None:
    encoder = RowEncoder(PREFIX)
    kept = [KEY + ONE for _ in range(KEPT_ROWS + 1)]
    first = encoder.encode(row(kept[0]))
    for charged in kept:
        encoder.encode(row(charged))
    assert encoder.encode(row(kept[0])) is not first
    assert encoder.encode(row(kept[0])) == first


def test_charges_of_a_scope_stand_together() -> None:
    with pytest.raises(ValueError, match="k:ci"):
        RowEncoder(PREFIX).encode(row(KEY[:1] + ONE + KEY[1:]))


@pytest.mark.parametrize(
    ("figures", "told"),
    [
        (Estimate(1, 2, 3, 5), [1, 2, 3, 5, 1, 0, 0]),
        (Estimate(0, -2, 10**18, 10**18), [0, 0, MOST_UNITS, MOST_UNITS, 1, 0, 0]),
        (Estimate(1, 2, 3, 5, cost_nano_usd=-1), [1, 2, 3, 5, 1, 0, 0]),
        (Estimate(1, 2, 3, 5, cost_nano_usd=10**18, budget_tokens=7), [1, 2, 3, 5, 1, MOST_SPENT, 7]),
        (Estimate(1, 2, 3, 5, budget_tokens=10**18), [1, 2, 3, 5, 1, 0, MOST_SPENT]),
    ],
)
def test_figures_are_bounded(figures: Estimate, told: list[int]) -> None:
    assert unpacked(encode_estimate(figures)) == told


def test_a_lesson_and_what_it_comes_to() -> None:
    assert encode_lesson(None) == ()
    assert encode_lesson(Lesson("acme", "m", 300_000, 700)) == ("acme", "m", 300_000, 700)
    assert encode_lesson(Lesson("acme", "m", 0, 10**18)) == ("acme", "m", 0, MOST_UNITS)
    assert posted(7, 1) == Posted(7, opened=True)
    assert posted(7, 1, [50, 9]) == Posted(7, opened=True, budgets=(50, 9))
    assert posted(7, 0, [], 300_000, 735, 20) == Posted(7, opened=False, learned=Learned(300_000, 735, 20))


def test_a_grant() -> None:
    rows = (row(ONE), row(KEY))
    found = verdict(packed(0, 7, 1, [1, 2, 3, 4, 5, 0], [0, 0, -1, 1], 1, 9), rows)
    levels = (Level(KEY[0], 1, 2, 3), Level(KEY[1], 4, 5, 0))
    assert found == Granted(1, 7, levels, (Refusal(0, ONE[0], None, Cause.TOO_LARGE),), watched=True, epoch=9)


def test_a_grant_of_the_release_before_tells_no_epoch() -> None:
    found = verdict(packed(0, 7, 0, [1, 2, 3], [], 0), (row(ONE[:1]),))
    assert isinstance(found, Granted)
    assert found.epoch is None


def test_the_level_of_what_grows_is_that_of_the_charge_in_force() -> None:
    found = verdict(packed(0, 7, 0, [1, 2, 3, 4, 5, 0, 6, 7, 8, 1500, 30, 9], [], 0), (row((*GROWS, *ONE)),))
    assert isinstance(found, Granted)
    grown, slots, fixed = found.levels
    assert (grown.charge.capacity, grown.charge.rate, grown.charge.limit) == (90, 90, 90)
    assert (grown.level, grown.held, grown.reset_ms, grown.growth) == (1, 2, 3, Growth(1500, 30, 9))
    assert (slots, fixed) == (Level(GROWS[1], 4, 5, 0), Level(ONE[0], 6, 7, 8))


def test_a_refusal_has_the_levels_of_the_last_row_that_was_tested() -> None:
    rows = (row(ONE), row(KEY), row(ONE))
    found = verdict(packed(1, 7, 1, [1, 2, 3, 4, 5, 0], [0, 0, 9, 0, 1, 1, -1, 2], 0), rows)
    levels = (Level(KEY[0], 1, 2, 3), Level(KEY[1], 4, 5, 0))
    assert found == Refused(7, (Refusal(0, ONE[0], 9), Refusal(1, KEY[1], None, Cause.COOLING)), levels)


def test_nothing_to_choose_from() -> None:
    assert verdict(packed(1, 7, 0, [], [], 0), ()) == Refused(7, (), ())


def test_a_spent_lease() -> None:
    assert verdict(packed(2, 7, 0, [], [], 0), (row(KEY),)) == Spent(7)


def test_a_condition_is_read_in_the_scripts_order() -> None:
    found = condition(doubles([*range(1, 12), 1]) + b"lease-7")
    assert astuple(found) == (*range(1, 12), "lease-7", True)
    assert condition(None) == Condition()


def test_budgets_that_nothing_is_known_of() -> None:
    rows = (row((BUDGET, *KEY)), row((BUDGET, *ONE)))
    assert verdict(packed(4, 7, 0, [0], [], 0), rows) == Unseeded(7, (BUDGET,))
