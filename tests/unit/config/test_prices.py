"""What the file and the catalogue say of prices, as requests are charged by it."""

from fractions import Fraction

import msgspec
import pytest

from gateway.config.check import check
from gateway.config.price_list import PriceList
from gateway.config.prices import Pricing, compiled, version
from gateway.config.structs.supply import Model, Price
from gateway.policy import prices as policy
from gateway.policy.prices import Step, Stepped
from tests.unit.config.reading import lines, read

NEW_YEAR_MS = 1_798_761_600_000
DAY_MS = 86_400_000

FILE = """
providers: {p: {base_url: https://a}}
models: {m: {deployments: [{provider: p, model: m}], price: PRICE}}
"""


def price_of(written: str) -> Price:
    parsed = read(FILE.replace("PRICE", written))
    assert parsed.problems == ()
    price = parsed.config.models["m"].price
    assert isinstance(price, Price)
    return price


def test_all_of_a_price_is_exact() -> None:
    written = "{input: 0.0375, output: 0.4, cached_input: 0.01, cache_write: 0.05, reasoning: 0.5, per_request: 0.0000000001}"
    found = compiled(price_of(written))
    assert (found.input, found.output) == (Fraction(75, 2), 400)
    assert (found.cached_input, found.cache_write, found.reasoning) == (10, 50, 500)
    assert found.per_request == Fraction(1, 10)


def test_a_step_leaves_as_it_is_what_it_does_not_say() -> None:
    found = compiled(
        price_of("{input: 1, output: 2, steps: [{above: 200, output: 9}, {above: 100, input: 3, cached_input: 0.5}]}")
    )
    assert found.steps == (
        Step(above=100, input=3_000, output=2_000, cached_input=500),
        Step(above=200, input=3_000, output=9_000, cached_input=500),
    )


def test_what_a_tier_says_no_step_of_the_price_changes() -> None:
    written = """{input: 1, output: 2, steps: [{above: 100, input: 3, output: 4}],
        tiers: {flex: {input: 0.5}, priority: {input: 5, output: 6, steps: [{above: 300, input: 7}]}}}"""
    found = compiled(price_of(written))
    assert found.tiers == {
        "flex": Stepped(input=500, output=2_000, steps=(Step(above=100, input=500, output=4_000),)),
        "priority": Stepped(input=5_000, output=6_000, steps=(Step(above=300, input=7_000, output=6_000),)),
    }


def test_equal_prices_have_one_version() -> None:
    one, same, other = (price_of(f"{{input: {usd}, output: 1}}") for usd in ("1.5", "1.500", "1.6"))
    assert version(one) == version(same) != version(other)
    assert version(one).startswith("config-")


LISTED = msgspec.json.decode(
    b"""{"source": "s", "version": "v1", "providers": {"one": {"urls": ["https://one.example/*"], "models": [
        {"id": "known", "names": ["known"], "prices": [
            {"input": "1", "output": "2", "from": "2026-01-01", "tiers": {"flex": {"input": "0.5", "output": "1"}}},
            {"input": "3", "output": "4", "from": "2027-01-01"}]}]}}}""",
    type=PriceList,
)
KNOWN = """
providers: {p: {base_url: https://one.example/v1, tiers: {flex: flex}}, q: {base_url: https://else.example/v1}}
models: {m: {deployments: [{provider: q, model: known, COST}, {provider: p, model: known}], PRICE}}
"""


def pricing_of(price: str = "", cost: str = "", now_unix_ms: int = 0) -> tuple[Pricing, Model]:
    parsed = read(KNOWN.replace("PRICE", price).replace("COST", cost))
    assert parsed.problems == ()
    return Pricing(LISTED, parsed.config.providers, now_unix_ms), parsed.config.models["m"]


def eras(price: policy.Price | None) -> list[tuple[int, object, str]]:
    return [] if price is None else [(each.since_unix_ms, each.input, each.version) for each in price.eras()]


def test_a_model_without_a_price_costs_what_its_first_known_deployment_does() -> None:
    pricing, model = pricing_of()
    assert eras(pricing.of_model(model)) == [(0, 1_000, "v1"), (NEW_YEAR_MS, 3_000, "v1")]
    assert [eras(pricing.of_deployment(each)) for each in model.deployments] == [[], eras(pricing.of_model(model))]


def test_a_price_that_is_over_is_forgotten() -> None:
    pricing, model = pricing_of(now_unix_ms=NEW_YEAR_MS)
    assert eras(pricing.of_model(model)) == [(NEW_YEAR_MS, 3_000, "v1")]


def test_the_files_price_holds_whole_from_its_day_on() -> None:
    pricing, model = pricing_of("price: {input: 9, output: 9}")
    (whole,) = eras(pricing.of_model(model))
    assert whole[:2] == (0, 9_000)
    pricing, model = pricing_of("price: [{input: 8, output: 8, from: 2027-01-02}, {input: 9, output: 9, from: 2027-01-03}]")
    starts = [(since, amount) for since, amount, _ in eras(pricing.of_model(model))]
    assert starts == [(0, 1_000), (NEW_YEAR_MS, 3_000), (NEW_YEAR_MS + DAY_MS, 8_000), (NEW_YEAR_MS + 2 * DAY_MS, 9_000)]


def test_what_the_operator_pays_has_the_tiers_that_the_provider_is_asked_for() -> None:
    pricing, model = pricing_of(cost="cost: {input: 1, output: 1, tiers: {flex: {input: 0.5}}}")
    first, second = map(pricing.of_deployment, model.deployments)
    assert first is not None
    assert second is not None
    assert (dict(first.tiers), list(second.tiers)) == ({}, ["flex"])
    assert first.source == "the deployment's cost"


@pytest.mark.parametrize(
    ("written", "problem"),
    [
        (
            "[{input: 1, output: 1}, {input: 2, output: 2}]",
            "price[1].from: is missing: of several prices only the first one may go without",
        ),
        (
            "[{input: 1, output: 1, from: 2027-01-01}, {input: 2, output: 2, from: 2027-01-01}]",
            "price[1].from: must be after 2027-01-01, when the price before it begins",
        ),
        (
            "{input: 1, output: 1, steps: [{above: 5, input: 1}, {above: 5, input: 2}]}",
            "price.steps[1].above: 5 is there already: two steps cannot both hold",
        ),
        (
            "{input: 1, output: 1, tiers: {flex: {steps: [{above: 5, input: 1}, {above: 5, input: 2}]}}}",
            "price.tiers.flex.steps[1].above: 5 is there already: two steps cannot both hold",
        ),
    ],
)
def test_prices_that_cannot_follow_each_other_are_refused(written: str, problem: str) -> None:
    found = check(read(FILE.replace("PRICE", written)))
    assert [line for line in lines(found.errors) if "price" in line] == [f"models.m.{problem}"]


@pytest.mark.parametrize(
    ("model", "price", "errors"),
    [
        ("gpt-4o", "", 0),
        ("gpt-4o", "price: {input: 1, output: 1, from: 2999-01-01}", 0),
        ("mine", "", 1),
        ("mine", "price: {input: 1, output: 1, from: 2999-01-01}", 1),
        ("mine", "price: {input: 1, output: 1, from: 2026-01-01}", 0),
    ],
)
def test_a_model_under_a_budget_needs_a_price_today(model: str, price: str, errors: int) -> None:
    text = f"""
providers: {{p: {{preset: openai, api_key: 0123456789abcdef}}}}
models: {{m: {{deployments: [{{provider: p, model: {model}}}], {price}}}}}
plans: {{free: {{budget: {{usd: 1}}}}}}
orgs: {{o: {{}}}}
keys: [{{name: k, org: o, plan: free, secret: 0123456789abcdef}}]
"""
    assert len([line for line in lines(check(read(text)).errors) if "nobody would know what it spends" in line]) == errors
