from collections import Counter
from itertools import groupby

from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from gateway.policy.accounts import credentials
from gateway.policy.admission import Upstream
from gateway.policy.catalogue import Deployment, Tier
from gateway.policy.charging import Target
from gateway.policy.ways import Way, weighted_order
from tests.catalogues import deployment, model, provider


def ways(*deployments: Deployment) -> list[Way]:
    """The ways to these deployments, with each credential of each."""
    targets = [Target(model("m", each), each, Tier.DEFAULT) for each in deployments]
    return [
        Way(target, Upstream(target.deployment.id, name), (), None)
        for target in targets
        for name in credentials(target.deployment.provider)
    ]


@given(st.integers(0, 2**62 - 1))
def test_the_order_is_the_operators_then_chance(dice: int) -> None:
    given_ways = ways(*(deployment("m", provider(f"p{n}"), order=n % 2) for n in range(4)))
    ordered = [way.target.deployment for way in weighted_order(given_ways, dice)]
    assert sorted(d.id for d in ordered) == sorted(way.target.deployment.id for way in given_ways)
    assert [d.order for d in ordered] == [0, 0, 1, 1]


def test_chance_follows_the_weights() -> None:
    given_ways = ways(deployment("m", provider("p1"), weight=3), deployment("m", provider("p2")))
    chances = (weighted_order(given_ways, dice * 0x9E3779B97F4A7C15 & (2**62 - 1))[0] for dice in range(4000))
    firsts = Counter(way.target.deployment.id for way in chances)
    assert 2850 < firsts["m/p1"] < 3150


@given(st.integers(0, 2**62 - 1), st.integers(2, 4), st.booleans())
def test_a_detour_comes_last_whatever_its_order_and_weight(dice: int, count: int, equal: bool) -> None:
    given_ways = ways(*(deployment("m", provider(f"p{n}"), order=1 if equal else n, weight=9 - n) for n in range(count)))
    given_ways[0] = replace(given_ways[0], detour=True)
    ordered = weighted_order(given_ways, dice)
    assert [way.detour for way in ordered] == [False] * (count - 1) + [True]
    assert equal or [way.target.deployment.order for way in ordered] == [*range(1, count), 0]


DICE = st.integers(0, 2**62 - 1)
SPREAD = 0x9E3779B97F4A7C15
"""Apart from each other as dice are."""


@given(DICE, st.lists(st.tuples(st.integers(1, 4), st.integers(1, 2)), min_size=1, max_size=5))
def test_the_credentials_of_a_deployment_follow_each_other_where_the_deployment_stands(
    dice: int, shapes: list[tuple[int, int]]
) -> None:
    deployments = [deployment("m", provider(f"p{n}", credentials=count), order=order) for n, (count, order) in enumerate(shapes)]
    given_ways = ways(*deployments)
    ordered = weighted_order(given_ways, dice)
    assert sorted(map(id, ordered)) == sorted(map(id, given_ways))
    blocks = [(each, len([*block])) for each, block in groupby(way.target.deployment for way in ordered)]
    assert len(blocks) == len(deployments), "none stands in two places"
    assert [each.order for each, _ in blocks] == sorted(each.order for each in deployments)


def test_several_credentials_are_no_more_weight_and_each_comes_first_as_often() -> None:
    given_ways = ways(deployment("m", provider("p1", credentials=3)), deployment("m", provider("p2")))
    firsts = Counter(weighted_order(given_ways, dice * SPREAD & (2**62 - 1))[0].upstream.credential for dice in range(6000))
    assert 2850 < firsts["p2"] < 3150
    for name in ("p1", "p1#2", "p1#3"):
        assert 900 < firsts[name] < 1100


def test_two_credentials_of_the_only_deployment_come_first_as_often() -> None:
    given_ways = ways(deployment("m", provider("p", credentials=2), weight=7))
    firsts = Counter(weighted_order(given_ways, dice * SPREAD & (2**62 - 1))[0].upstream.credential for dice in range(4000))
    assert 1880 < firsts["p"] < 2120
