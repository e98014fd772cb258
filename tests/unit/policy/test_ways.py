from collections import Counter

from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from gateway.policy.admission import Upstream
from gateway.policy.catalogue import Deployment, Tier
from gateway.policy.charging import Target
from gateway.policy.ways import Way, weighted_order
from tests.catalogues import deployment, model, provider


def ways(*deployments: Deployment) -> list[Way]:
    return [Way(Target(model("m", each), each, Tier.DEFAULT), Upstream(each.id), (), None) for each in deployments]


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
