"""What an answer may cost at the most: never less than any answer within its bounds does cost."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.policy.catalogue import Price, Tier
from gateway.policy.pricing import Tariff
from gateway.policy.tiers import Echo, Echoes
from gateway.wire.usage import Usage

PRICES = st.builds(
    Price, input=st.integers(0, 10**6), output=st.integers(0, 10**6), cached_input=st.none() | st.integers(0, 10**6)
)
MULTIPLIERS = st.sampled_from((0.5, 0.8, 1.0, 1.1, 1.5))
TOKENS = st.integers(0, 10**6)


@given(
    PRICES, MULTIPLIERS, st.tuples(*[st.none() | MULTIPLIERS] * 2), st.tuples(TOKENS, TOKENS), st.tuples(*[st.floats(0, 1)] * 3)
)
def test_nothing_within_the_bounds_costs_more(
    price: Price,
    own: float,
    echoed: tuple[float | None, float | None],
    bounds: tuple[int, int],
    parts: tuple[float, float, float],
) -> None:
    slow, silent = (None if multiplier is None else Echo(Tier.FLEX, multiplier) for multiplier in echoed)
    echoes = Echoes({} if slow is None else {"slow": slow}, silent)
    tariff = Tariff(price, own, echoes)
    given_tokens, produced = int(bounds[0] * parts[0]), int(bounds[1] * parts[1])
    usage = Usage(input=given_tokens, output=produced, cached=int(given_tokens * parts[2]))
    for echo in (None, *echoes):
        assert (tariff.cost_nano_usd(usage, echo) or 0) <= tariff.most_nano_usd(*bounds)


@pytest.mark.parametrize(
    ("tariff", "most"),
    [
        (Tariff(Price(input=3, output=7), 1.5), 1_155),
        (Tariff(Price(input=3, output=7, cached_input=1)), 770),
        (Tariff(Price(input=3, output=7, cached_input=4)), 840),
        (Tariff(Price(input=3, output=7), 1.0, Echoes({"dear": Echo(Tier.FLEX, 2.0)})), 1_540),
        (Tariff(Price(input=3, output=7), 1.0, Echoes({"cheap": Echo(Tier.FLEX, 0.5)})), 770),
        (Tariff(Price(input=3, output=7), 0.5, Echoes({}, Echo(Tier.DEFAULT, 1.0))), 770),
        (Tariff(Price(input=3, output=7), 0.5, Echoes({}, Echo(Tier.DEFAULT, 1.0))).without_echoes(), 385),
        (Tariff(), 0),
    ],
)
def test_the_dearest_of_caches_and_tiers_counts(tariff: Tariff, most: int) -> None:
    assert tariff.most_nano_usd(70, 80) == most
