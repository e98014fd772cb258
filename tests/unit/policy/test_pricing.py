"""What an answer costs, against a model of the same in fractions; and what it may cost at the most."""

from fractions import Fraction
from math import ceil
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from gateway.policy.catalogue import Tier
from gateway.policy.prices import Price, Rates, Step, Stepped
from gateway.policy.pricing import LONGEST_WAIT_MS, Tariff, in_force, near, timetable
from gateway.policy.tiers import NO_ECHOES, Echo, Echoes
from gateway.wire.usage import Usage

AMOUNTS = st.builds(Fraction, st.integers(0, 10**9), st.sampled_from((1, 10, 1000)))
PARTS = {name: st.none() | AMOUNTS for name in ("cached_input", "cache_write", "cache_write_1h", "reasoning")}
RATES: dict[str, Any] = {"input": AMOUNTS, "output": AMOUNTS, "per_request": AMOUNTS, **PARTS}
STEPS = st.lists(st.builds(Step, **RATES, above=st.integers(1, 2000)), max_size=3, unique_by=lambda step: step.above).map(
    lambda steps: tuple(sorted(steps, key=lambda step: step.above))
)
STEPPED = st.builds(Stepped, **RATES, steps=STEPS)
PRICES = st.builds(
    Price, **RATES, steps=STEPS, tiers=st.dictionaries(st.sampled_from(("flex", "default", "priority")), STEPPED, max_size=2)
)
MULTIPLIERS = st.sampled_from((0.0, 0.1, 0.5, 0.8, 1.0, 1.1, 1.5, 1.333333, 3.0))
TERMS = st.builds(Echo, st.sampled_from((Tier.PRIORITY, Tier.DEFAULT)), MULTIPLIERS)
LOWER = st.builds(Echo, st.just(Tier.FLEX), MULTIPLIERS)
ECHOES = LOWER.flatmap(
    lambda echo: st.sampled_from((NO_ECHOES, Echoes({"slow": echo}), Echoes({}, echo), Echoes({"x": echo}, echo)))
)
TOKENS = st.integers(0, 3_000)


@st.composite
def usages(draw: st.DrawFn, most_input: int = 3_000, most_output: int = 3_000) -> Usage:
    tokens, output = draw(st.integers(0, most_input)), draw(st.integers(0, most_output))
    cached = draw(st.integers(0, tokens))
    written, reasoning = draw(st.integers(0, tokens - cached)), draw(st.integers(0, output))
    hour = draw(st.integers(0, written))
    return Usage(input=tokens, output=output, cached=cached, cache_write=written, cache_write_1h=hour, reasoning=reasoning)


def modelled(price: Price, terms: Echo, usage: Usage) -> int:
    """The price list in plain words: the tier's own rates or the multiplied ones, the highest step reached, rounded up once."""
    own = price.tiers.get(terms.tier)
    listed: Stepped = price if own is None else own
    rates: Rates = listed
    for step in listed.steps:
        if usage.input > step.above:
            rates = step
    if usage.input + usage.output == 0:
        return 0

    def of(part: int | Fraction | None, whole: int | Fraction) -> Fraction:
        return Fraction(whole if part is None else part)

    spent = (
        Fraction(rates.per_request)
        + (usage.input - usage.cached - usage.cache_write) * Fraction(rates.input)
        + usage.cached * of(rates.cached_input, rates.input)
        + (usage.cache_write - usage.cache_write_1h) * of(rates.cache_write, rates.input)
        + usage.cache_write_1h * of(rates.cache_write_1h, of(rates.cache_write, rates.input))
        + (usage.output - usage.reasoning) * Fraction(rates.output)
        + usage.reasoning * of(rates.reasoning, rates.output)
    )
    return ceil(spent * (Fraction(str(terms.multiplier)) if own is None else 1))


@given(PRICES, TERMS, ECHOES, usages())
def test_an_answer_costs_what_the_price_list_says(price: Price, terms: Echo, echoes: Echoes, usage: Usage) -> None:
    tariff = Tariff(price, terms, echoes)
    assert tariff.cost_nano_usd(usage, None) == modelled(price, terms, usage)
    for echo in echoes:
        assert tariff.cost_nano_usd(usage, echo) == modelled(price, echo, usage)


@given(PRICES, TERMS, ECHOES, usages())
def test_what_the_operator_pays_no_multiplier_changes(price: Price, terms: Echo, echoes: Echoes, usage: Usage) -> None:
    tariff = Tariff(None, terms, echoes, price)
    assert (tariff.cost_nano_usd(usage, None), tariff.most_nano_usd(9, 9), tariff.version) == (None, 0, None)
    for echo in (None, *echoes):
        tier = terms.tier if echo is None else echo.tier
        assert tariff.own_cost_nano_usd(usage, echo) == modelled(price, Echo(tier, 1.0), usage)


@given(PRICES, TERMS, ECHOES, st.tuples(TOKENS, TOKENS), st.data())
def test_nothing_within_the_bounds_costs_more(
    price: Price, terms: Echo, echoes: Echoes, bounds: tuple[int, int], data: st.DataObject
) -> None:
    tariff, usage = Tariff(price, terms, echoes), data.draw(usages(*bounds))
    brief = replace(usage, cache_write_1h=0)
    for echo in (None, *echoes):
        assert (tariff.cost_nano_usd(usage, echo) or 0) <= tariff.most_nano_usd(*bounds)
        assert (tariff.cost_nano_usd(brief, echo) or 0) <= tariff.most_nano_usd(*bounds, an_hour=False)


def test_an_hour_is_held_for_only_where_it_may_be_asked_for() -> None:
    tariff = Tariff(Price(input=3, output=7, cache_write=4, cache_write_1h=6))
    assert (tariff.most_nano_usd(70, 80, an_hour=False), tariff.most_nano_usd(70, 80)) == (840, 980)


LONG = Price(input=3, output=7, steps=(Step(input=6, output=9, above=69), Step(input=1, output=1, above=70)))


@pytest.mark.parametrize(
    ("tariff", "most"),
    [
        (Tariff(Price(input=3, output=7), Echo(Tier.PRIORITY, 1.5)), 1_155),
        (Tariff(Price(input=3, output=7, cached_input=1)), 770),
        (Tariff(Price(input=3, output=7, cached_input=4)), 840),
        (Tariff(Price(input=3, output=7, cache_write=4)), 840),
        (Tariff(Price(input=3, output=7, cache_write=4, cache_write_1h=6)), 980),
        (Tariff(Price(input=3, output=7, cache_write_1h=2)), 770),
        (Tariff(Price(input=3, output=7, reasoning=8)), 850),
        (Tariff(Price(input=3, output=7, per_request=30)), 800),
        (Tariff(LONG), 1_140),
        (Tariff(Price(input=3, output=7), echoes=Echoes({"dear": Echo(Tier.FLEX, 2.0)})), 1_540),
        (Tariff(Price(input=3, output=7), echoes=Echoes({"cheap": Echo(Tier.FLEX, 0.5)})), 770),
        (Tariff(Price(input=3, output=7), Echo(Tier.FLEX, 0.5), Echoes({}, Echo(Tier.DEFAULT, 1.0))), 770),
        (Tariff(Price(input=3, output=7), Echo(Tier.FLEX, 0.5), Echoes({}, Echo(Tier.DEFAULT, 1.0))).without_echoes, 385),
        (
            Tariff(Price(input=3, output=7, tiers={"flex": Stepped(input=9, output=7)}), echoes=Echoes({}, Echo(Tier.FLEX, 0.5))),
            1_190,
        ),
        (Tariff(), 0),
    ],
)
def test_the_dearest_of_parts_steps_and_tiers_counts(tariff: Tariff, most: int) -> None:
    assert tariff.most_nano_usd(70, 80) == most


@pytest.mark.parametrize(("tokens", "nano_usd"), [(69, 69 * 3), (70, 70 * 6), (71, 71)])
def test_a_step_prices_the_whole_request_above_it(tokens: int, nano_usd: int) -> None:
    assert Tariff(LONG).cost_nano_usd(Usage(input=tokens), None) == nano_usd


@pytest.mark.parametrize(
    ("usage", "nano_usd"),
    [
        (Usage(input=3), 2),
        (Usage(input=4), 2),
        (Usage(input=5, cached=1), 3),
        (Usage(input=4, cached=9, cache_write=9, output=2, reasoning=9), 2 + 2 * 11),
    ],
)
def test_parts_of_a_nano_usd_add_up_before_they_are_rounded(usage: Usage, nano_usd: int) -> None:
    price = Price(input=Fraction(1, 2), cached_input=Fraction(1, 2), output=2, cache_write=100, reasoning=11)
    assert Tariff(price).cost_nano_usd(usage, None) == nano_usd


def test_a_multiplier_is_what_is_written() -> None:
    tariff = Tariff(Price(input=10, output=10), Echo(Tier.PRIORITY, 1.1))
    assert tariff.cost_nano_usd(Usage(input=1), None) == 11


def test_a_request_that_was_never_taken_on_costs_nothing() -> None:
    tariff = Tariff(Price(input=1, output=1, per_request=50), cost=Price(input=1, output=1, per_request=50))
    assert (tariff.cost_nano_usd(Usage(), None), tariff.own_cost_nano_usd(Usage(), None)) == (0, 0)
    assert tariff.cost_nano_usd(Usage(input=1), None) == 51


def test_prices_follow_each_other() -> None:
    price = Price(
        input=1, output=1, version="a", since_unix_ms=100, later=Price(input=2, output=2, version="b", since_unix_ms=300)
    )
    tariffs = timetable(price, Echo(Tier.DEFAULT, 1.0), NO_ECHOES, Price(input=5, output=5, since_unix_ms=200))
    assert [each.since_unix_ms for each in tariffs] == [0, 100, 200, 300]
    one = Usage(input=1)
    told = [
        (each.cost_nano_usd(one, None), each.own_cost_nano_usd(one, None), each.version)
        for each in (in_force(tariffs, unix_ms) for unix_ms in (99, 100, 200, 299, 10**15))
    ]
    assert told == [(None, None, None), (1, None, "a"), (1, 5, "a"), (1, 5, "a"), (2, 5, "b")]


@pytest.mark.parametrize(
    ("after_ms", "starts"),
    [
        (-LONGEST_WAIT_MS - 1, [0]),
        (-LONGEST_WAIT_MS, [0, 1]),
        (LONGEST_WAIT_MS - 1, [0, 1]),
        (LONGEST_WAIT_MS, [1]),
        (9 * LONGEST_WAIT_MS, [1, 2]),
        (99 * LONGEST_WAIT_MS, [2]),
    ],
)
def test_money_is_held_for_the_prices_of_the_hour(after_ms: int, starts: list[int]) -> None:
    start = 10**12
    price = Price(
        input=2, output=2, since_unix_ms=start, later=Price(input=3, output=3, since_unix_ms=start + 10 * LONGEST_WAIT_MS)
    )
    tariffs = timetable(price, Echo(Tier.DEFAULT, 1.0), NO_ECHOES, None)
    assert [tariffs.index(each) for each in near(tariffs, start + after_ms)] == starts
