"""The catalogue that is shipped: it is of its format, and says what the package says that it is made of."""

from fractions import Fraction
from importlib.resources import files
from math import ceil
from pathlib import Path
from typing import Any

import msgspec
import pytest
import yaml

from gateway.config.price_list import FILE, PriceList, price_list
from gateway.config.prices import Pricing, compiled
from gateway.config.structs.supply import Deployment, Provider
from gateway.policy.catalogue import Tier
from gateway.policy.pricing import Tariff
from gateway.policy.tiers import Echo
from gateway.wire.usage import Usage

SAMPLES: list[dict[str, Any]] = msgspec.json.decode((Path(__file__).parents[2] / "catalogue" / "samples.json").read_bytes())
LISTED = price_list()
RAW = (files("gateway.config") / FILE).read_bytes()


def test_it_has_one_line_a_model() -> None:
    models = sum(len(source.models) for source in LISTED.providers.values())
    assert RAW.count(b'\n{"id":') == models > 2000
    assert max(map(len, RAW.splitlines())) < 4_000


def test_it_names_its_source_and_its_version() -> None:
    assert LISTED.source.startswith("genai-prices ")
    assert LISTED.source.endswith("(MIT)")
    day, _, digest = LISTED.version.rpartition("-")
    assert (len(day), len(digest)) == (10, 8)


def test_every_price_can_be_charged() -> None:
    for source in LISTED.providers.values():
        for model in source.models:
            starts = [price.from_date for price in model.prices[1:]]
            assert starts == sorted({start for start in starts if start is not None}), model.id
            for price in model.prices:
                assert Tariff(compiled(price)).cost_nano_usd(Usage(input=1), None) is not None


def test_presets_are_those_that_there_are() -> None:
    presets = yaml.safe_load((files("gateway.providers") / "presets.yaml").read_text())
    named = [preset for source in LISTED.providers.values() for preset in source.presets]
    assert set(named) <= set(presets)
    assert len(named) == len(set(named)) >= 12
    assert set(LISTED.providers) >= {each for source in LISTED.providers.values() for each in source.like}


@pytest.mark.parametrize("sample", SAMPLES, ids=lambda sample: f"{sample['model']}-{sample['tier']}-{sample['usage']['input']}")
def test_a_request_costs_what_the_package_says(sample: dict[str, Any]) -> None:
    source = LISTED.providers[sample["provider"]]
    model = next(each for each in source.models if each.is_called(sample["model"].lower()))
    tariff = Tariff(compiled(model.prices[0]), Echo(Tier(sample["tier"] or "default"), 1.0))
    assert tariff.cost_nano_usd(Usage(**sample["usage"]), None) == ceil(Fraction(sample["nano_usd"]))


SMALL = msgspec.json.decode(
    b"""{"source": "s", "version": "v", "providers": {
    "one": {"presets": ["openai"], "urls": ["https://one.example/*"], "like": ["two"], "models": [
        {"id": "exact", "names": ["exact", "a[[]b]"], "prices": [{"input": "1", "output": "2"}]},
        {"id": "some", "names": ["some*", "!*-tts"], "prices": [{"input": "1", "output": "2"}]}]},
    "two": {"models": [{"id": "other", "names": ["*other", "some-tts"], "prices": [{"input": "1", "output": "2"}]}]}}}""",
    type=PriceList,
)


@pytest.mark.parametrize(
    ("model", "found"),
    [
        ("exact", ("one", "exact")),
        ("EXACT", ("one", "exact")),
        ("exact-2", None),
        ("a[b]", ("one", "exact")),
        ("a[[]b]", ("one", "exact")),
        ("some-thing", ("one", "some")),
        ("some-tts", ("two", "other")),
        ("another", ("two", "other")),
    ],
)
def test_a_model_is_found_by_what_it_is_called_at_its_provider(model: str, found: tuple[str, str] | None) -> None:
    for provider in (Provider(base_url="https://one.example/v1"), Provider(preset="openai", base_url="https://proxy.example/v1")):
        known = SMALL.find(provider, model)
        assert (None if known is None else (known[0], known[1].id)) == found
    assert SMALL.find(Provider(base_url="https://one.example.org/v1"), model) is None


OF_PRESETS = (
    ("anthropic", "claude-haiku-4-5-20251001"),
    ("gemini", "gemini-2.5-pro"),
    ("azure", "gpt-4o"),
    ("xai", "grok-4.5"),
)


@pytest.mark.parametrize(("preset", "model"), OF_PRESETS)
def test_a_presets_models_have_prices(preset: Any, model: str) -> None:
    pricing = Pricing(LISTED, {"p": Provider(preset=preset, base_url="https://mine.example/v1")}, 0)
    price = pricing.of_deployment(Deployment(provider="p", model=model))
    assert price is not None
    assert (price.version, price.since_unix_ms) == (LISTED.version, 0)
    assert price.source.startswith("the catalogue's price of ")


def test_what_anthropic_caches_for_an_hour_costs_twice_the_input() -> None:
    caching = 0
    for model in LISTED.providers["anthropic"].models:
        for price in map(compiled, model.prices):
            for rates in (price, *price.steps):
                caching += rates.cache_write is not None
                assert rates.cache_write_1h == (None if rates.cache_write is None else 2 * rates.input), model.id
    assert caching > 20
