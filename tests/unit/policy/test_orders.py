from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from gateway.policy import orders
from gateway.policy.admission import Upstream
from gateway.policy.catalogue import Deployment, Tier
from gateway.policy.charging import Target
from gateway.policy.orders import AS_FAST, EXPLORING, Look, group_of
from gateway.policy.pace import FADES_S, Pace, after_answer
from gateway.policy.ways import Way, weighted_order
from tests.catalogues import deployment, model, provider

DICE = st.integers(0, 2**62 - 1)


def least_busy_order(ways: Sequence[Way], under_way: Sequence[int]) -> list[Way]:
    return [ways[place] for place in orders.least_busy_order(ways, under_way)]


def latency_order(ways: Sequence[Way], dice: int, looks: Sequence[Look], now_s: float) -> list[Way]:
    return [ways[place] for place in orders.latency_order(ways, dice, looks, now_s)]


def way(place: int, at: Deployment, *, detour: bool = False) -> Way:
    return Way(Target(model("m", at), at, Tier.DEFAULT), Upstream(f"{place}"), (), None, detour=detour)


def ways(*deployments: Deployment) -> list[Way]:
    return [way(place, each) for place, each in enumerate(deployments)]


def several(count: int, **fields: float) -> list[Way]:
    return ways(*(deployment("m", provider(f"p{place}"), **fields) for place in range(count)))


@st.composite
def any_ways(draw: st.DrawFn) -> list[Way]:
    """Up to six, of few orders and weights, with ceilings and without."""
    found = []
    for place in range(draw(st.integers(1, 6))):
        at = deployment(
            "m",
            provider(f"p{place}"),
            order=draw(st.integers(1, 2)),
            weight=draw(st.sampled_from((0.5, 1.0, 3.0))),
            max_concurrency=draw(st.sampled_from((None, 1, 4, 100))),
        )
        found.append(way(place, at, detour=draw(st.integers(0, 4)) == 0))
    return found


LOOKS = st.builds(
    Look,
    st.one_of(
        st.none(), st.builds(Pace, st.floats(0, 99), st.floats(1, 99), st.floats(1, 4), st.floats(0, 99), st.floats(0, 999))
    ),
    st.integers(0, 3),
)


def keeps_the_operators_word(ordered: Sequence[Way], given_ways: Sequence[Way]) -> bool:
    return [group_of(each) for each in ordered] == sorted(group_of(each) for each in given_ways)


def is_permutation(ordered: Sequence[Way], given_ways: Sequence[Way]) -> bool:
    return sorted(each.upstream.deployment for each in ordered) == sorted(each.upstream.deployment for each in given_ways)


@given(any_ways(), st.data())
def test_the_least_busy_comes_first_of_its_order(given_ways: list[Way], data: st.DataObject) -> None:
    counts = [data.draw(st.integers(0, 9)) for _ in given_ways]
    ordered = least_busy_order(given_ways, counts)
    assert is_permutation(ordered, given_ways)
    assert keeps_the_operators_word(ordered, given_ways)
    under_way = {each.upstream.deployment: count for each, count in zip(given_ways, counts, strict=True)}
    for group in {group_of(each) for each in given_ways}:
        members = [each for each in ordered if group_of(each) == group]
        at, is_bounded = (
            [each.target.deployment for each in members],
            all(each.target.deployment.max_concurrency for each in members),
        )
        shares = [
            under_way[each.upstream.deployment] / ((on.max_concurrency or 0) if is_bounded else on.weight)
            for each, on in zip(members, at, strict=True)
        ]
        assert shares == sorted(shares)


@given(any_ways(), DICE, st.data())
def test_the_fastest_comes_first_of_its_order(given_ways: list[Way], dice: int, data: st.DataObject) -> None:
    looks, now_s = [data.draw(LOOKS) for _ in given_ways], data.draw(st.floats(0, 2_000))
    ordered = latency_order(given_ways, dice, looks, now_s)
    assert is_permutation(ordered, given_ways)
    assert keeps_the_operators_word(ordered, given_ways)
    expected = {each.upstream.deployment: look.seconds(now_s) for each, look in zip(given_ways, looks, strict=True)}
    if dice % EXPLORING:
        for earlier, later in pairwise(ordered):
            seconds = expected[earlier.upstream.deployment], expected[later.upstream.deployment]
            assert group_of(earlier) != group_of(later) or seconds[0] <= max(seconds[1] * AS_FAST, seconds[1])


def dices(count: int = 4_000) -> Iterator[int]:
    return (each * 0x9E3779B97F4A7C15 & (2**62 - 1) for each in range(count))


Order = Callable[[Sequence[Way]], list[Way]]


def by_busyness(given_ways: Sequence[Way]) -> list[Way]:
    return least_busy_order(given_ways, [2] * len(given_ways))


def by_speed(given_ways: Sequence[Way]) -> list[Way]:
    return latency_order(given_ways, 1, [Look(after_answer(None, 1.0, 1, 0), awaited=1)] * len(given_ways), 0)


def by_nothing(given_ways: Sequence[Way]) -> list[Way]:
    return latency_order(given_ways, 1, [Look()] * len(given_ways), 0)


EQUAL = pytest.mark.parametrize("order", [by_busyness, by_speed, by_nothing])


@EQUAL
@given(st.integers(1, 6), DICE)
def test_where_all_is_equal_or_nothing_is_known_the_weights_have_decided(order: Order, count: int, dice: int) -> None:
    drawn = list(weighted_order(several(count, max_concurrency=4), dice))
    assert order(drawn) == drawn


@EQUAL
def test_equal_ones_have_their_weights_share(order: Order) -> None:
    both = ways(*(deployment("m", provider(f"p{place}"), weight=weight) for place, weight in enumerate((3.0, 3.0))))
    heavy = ways(
        *(deployment("m", provider(f"p{place}"), weight=weight, max_concurrency=4) for place, weight in enumerate((3.0, 1.0)))
    )
    for given_ways, share in (both, 2_000), (heavy, 3_000):
        firsts = Counter(order(list(weighted_order(given_ways, dice)))[0].target.deployment.id for dice in dices())
        assert share - 150 < firsts["m/p0"] < share + 150


def test_one_without_a_ceiling_has_all_of_its_order_measured_by_weight() -> None:
    given_ways = ways(deployment("m", provider("p0"), max_concurrency=100, weight=1), deployment("m", provider("p1"), weight=2))
    assert least_busy_order(given_ways, [3, 5])[0] is given_ways[1]
    assert least_busy_order(given_ways, [2, 5])[0] is given_ways[0]
    beside = [*given_ways, way(2, deployment("m", provider("p2"), order=2)), given_ways[0]]
    assert [each.upstream.deployment for each in least_busy_order(beside, [3, 5, 9, 7])] == ["1", "0", "0", "2"]


SLOW = after_answer(None, 10.0, 1, 0)
FAST = after_answer(None, 1.0, 1, 0)


def first_of(dice: int, *looks: Look, now_s: float = 0) -> str:
    return latency_order(several(len(looks)), dice, looks, now_s)[0].upstream.deployment


IS_EXPLORING, NOT_EXPLORING = 3 * EXPLORING, 3 * EXPLORING + 1


def test_what_is_untried_is_tried_first_by_one_request_at_a_time() -> None:
    assert first_of(NOT_EXPLORING, Look(FAST, 3), Look()) == "1"
    assert first_of(NOT_EXPLORING, Look(FAST, 3), Look(awaited=1)) == "0"
    assert first_of(NOT_EXPLORING, Look(SLOW, 3), Look(awaited=1)) == "0", "what may be hanging is behind what is slow"


def test_what_was_slow_is_looked_at_again_in_time_by_one_request() -> None:
    assert first_of(NOT_EXPLORING, Look(FAST, 1), Look(SLOW), now_s=2 * FADES_S) == "0"
    assert first_of(NOT_EXPLORING, Look(FAST, 1), Look(SLOW), now_s=4 * FADES_S) == "1"
    assert first_of(NOT_EXPLORING, Look(FAST, 1), Look(SLOW, 1), now_s=4 * FADES_S) == "0"


def test_a_small_share_of_requests_looks_elsewhere() -> None:
    firsts = Counter(first_of(dice, Look(FAST, 1), Look(SLOW)) for dice in dices(10_000))
    assert 10_000 / EXPLORING * 0.8 < firsts["1"] < 10_000 / EXPLORING * 1.25
    assert {first_of(dice, Look(FAST, 1), Look(SLOW, 1)) for dice in dices()} == {"0"}, "one at a time"


def test_it_looks_where_the_latest_word_is_the_oldest() -> None:
    later = replace(SLOW, told_s=60.0)
    assert first_of(IS_EXPLORING, Look(replace(FAST, told_s=90.0), 1), Look(SLOW), Look(later), now_s=100) == "1"
    assert first_of(IS_EXPLORING, Look(replace(FAST, told_s=90.0), 1), Look(later), Look(SLOW), now_s=100) == "2"
    assert first_of(IS_EXPLORING, Look(FAST, 1), Look(later), Look(SLOW, 1), now_s=100) == "1"


def test_what_is_untried_goes_before_what_is_looked_at_again() -> None:
    assert {first_of(dice, Look(FAST), Look()) for dice in dices()} == {"1"}


def test_it_looks_at_nothing_of_a_later_order() -> None:
    given_ways = [
        several(1)[0],
        way(1, deployment("m", provider("p1"), order=2)),
        way(2, deployment("m", provider("p2")), detour=True),
    ]
    looks = [Look(FAST, 1), Look(SLOW), Look(SLOW)]
    assert {latency_order(given_ways, dice, looks, 0)[0].upstream.deployment for dice in dices()} == {"0"}


def test_one_that_is_about_as_fast_shares() -> None:
    near, far = (after_answer(None, AS_FAST * factor, 1, 0) for factor in (0.99, 1.05))
    for place in (0, 1):
        first, second = (Look(FAST, 1), Look(near, 1))[:: 1 - 2 * place]
        assert first_of(NOT_EXPLORING, first, second) == "0", "as chance had it"
    assert first_of(NOT_EXPLORING, Look(far, 1), Look(FAST, 1)) == "1"
