"""What a request costs, its org and the operator: through the running gateway, as client, access line and ledger have it."""

from collections.abc import AsyncIterator
from typing import Any

import pytest
import pytest_asyncio

from gateway.config.price_list import price_list
from tests.fakes.openai import BUSY, DONE, answers, event, refuses, streams
from tests.field.metering import Metered, key, metered, prompt_tokens, secret, settings
from tests.valkey import Valkey

pytestmark = pytest.mark.asyncio(loop_scope="module")

LONG = 200_000
PRICE = {
    "input": 1,
    "cached_input": 0.1,
    "cache_write": 1.25,
    "output": 2,
    "reasoning": 3,
    "per_request": 0.001,
    "steps": [{"above": LONG, "input": 2, "output": 4, "reasoning": 4}],
    "tiers": {"flex": {"input": 0.3, "output": 0.6, "reasoning": 0.6}},
}
COST = {"input": 0.5, "output": 1, "tiers": {"flex": {"input": 0.2, "output": 0.2}, "priority": {"input": 7, "output": 7}}}
BEFORE, SINCE = {"input": 9, "output": 9}, {"input": 5, "output": 5, "from": "2026-01-01"}


LONGEST = 10
MOST_NANO_USD = prompt_tokens("priced") * 1_250 + LONGEST * 3_000 + 1_000_000
"""What a short request may cost: all of its input cached anew, all of its output reasoning."""


def model(name: str, *, provider: str = "p", price: Any = None, cost: Any = None, **fields: Any) -> dict[str, Any]:
    found: dict[str, Any] = {"deployments": [{"provider": provider, "model": name, **({} if cost is None else {"cost": cost})}]}
    return {**found, **({} if price is None else {"price": price}), **fields}


MODELS = {
    "priced": model("up-priced", price=PRICE, cost=COST),
    "tiered": model("up-tiered", provider="t", price=PRICE, cost=COST),
    "dated": model("up-dated", price=[BEFORE, SINCE]),
    "other": model("up-other", price={"input": 100, "output": 100}, cost={"input": 50, "output": 50}),
    "unpriced": model("up-unpriced", cost=COST),
    "gpt-4o": model("gpt-4o", provider="known"),
    "vectors": model("up-vectors", price={"input": 0.0375, "output": 8}),
}


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def shared(valkey_server: Valkey, tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Metered]:
    rights = {"models": ["priced"], "tiers": ["default"]}
    budgets = {"poor": MOST_NANO_USD - 1, "rich": MOST_NANO_USD}
    keys = [key(name, **rights, budget={"usd": nano_usd / 10**9}) for name, nano_usd in budgets.items()]
    whole = settings(*keys, models=MODELS)
    usual = whole["providers"]["p"]
    usual["endpoints"] = ["chat", "embeddings"]
    whole["providers"]["t"] = {**usual, "tiers": {"default": "standard", "flex": "slow", "priority": "fast"}}
    whole["providers"]["known"] = {
        "preset": "openai",
        "base_url": usual["base_url"],
        "allow_http": True,
        "api_key": "sk-up-known",
    }
    async with metered(whole, valkey_server, tmp_path_factory.mktemp("prices")) as gate:
        yield gate


@pytest_asyncio.fixture(loop_scope="module")
async def gate(shared: Metered) -> AsyncIterator[Metered]:
    yield shared
    await shared.rest()


def usage(prompt: int, completion: int, **details: int) -> dict[str, Any]:
    found: dict[str, Any] = {"prompt_tokens": prompt, "completion_tokens": completion, "total_tokens": prompt + completion}
    found["prompt_tokens_details"] = {name: details[name] for name in ("cached_tokens", "cache_write_tokens") if name in details}
    found["completion_tokens_details"] = {"reasoning_tokens": details.get("reasoning_tokens", 0)}
    return found


async def costs(gate: Metered, **fields: Any) -> tuple[Any, Any]:
    """Ask, and return what the request cost the org and the operator; the client is told the first."""
    answer = await gate.ask(**fields)
    assert answer.status_code == 200, answer.text
    line = await gate.line()
    told = answer.json()["usage"].get("estimated_cost")
    assert told == (None if line["cost_nano_usd"] is None else pytest.approx(line["cost_nano_usd"] / 10**9))
    return line["cost_nano_usd"], line["own_cost_nano_usd"]


async def test_every_part_has_its_price(gate: Metered) -> None:
    stated = usage(1_000, 100, cached_tokens=600, cache_write_tokens=300, reasoning_tokens=40)
    gate.models.acts["priced"] = answers(usage=stated)
    charged = 100 * 1_000 + 600 * 100 + 300 * 1_250 + 60 * 2_000 + 40 * 3_000 + 1_000_000
    assert await costs(gate, model="priced") == (charged, 1_000 * 500 + 100 * 1_000)
    line = await gate.line()
    assert line["cache_write_tokens"] == 300
    assert line["price_version"].startswith("config-")
    row = (await gate.run.rows())[0]
    assert (row["cost_micro_usd"], row["own_cost_micro_usd"]) == (-(-charged // 1_000), 600)
    assert (row["price_version"], row["cache_write_tokens"]) == (line["price_version"], 300)


@pytest.mark.parametrize(("tokens", "rates"), [(LONG, (1_000, 2_000)), (LONG + 1, (2_000, 4_000))])
async def test_a_step_prices_the_whole_request(tokens: int, rates: tuple[int, int], gate: Metered) -> None:
    gate.models.acts["priced"] = answers(usage=usage(tokens, 10))
    charged, _ = await costs(gate, model="priced")
    assert charged == tokens * rates[0] + 10 * rates[1] + 1_000_000


async def test_a_multiple_is_charged_and_not_paid(gate: Metered) -> None:
    gate.models.acts["priced"] = answers(usage=usage(1_000, 100))
    assert await costs(gate, model="priced", service_tier="priority") == (
        (1_000 * 1_000 + 100 * 2_000 + 1_000_000) * 3 // 2,
        1_000 * 500 + 100 * 1_000,
    )


async def test_a_tiers_own_price_replaces_the_multiple(gate: Metered) -> None:
    gate.models.acts["tiered"] = answers(usage=usage(1_000, 100), service_tier="slow")
    assert await costs(gate, model="tiered", service_tier="flex") == (1_000 * 300 + 100 * 600 + 1_000_000, 1_100 * 200)


@pytest.mark.parametrize("stream", [False, True], ids=["whole", "stream"])
async def test_a_tier_that_is_echoed_lower_is_charged_and_paid_lower(stream: bool, gate: Metered) -> None:
    told = usage(1_000, 100)
    if stream:
        pieces = (event({"content": "x"}, service_tier="standard"), event({}, "stop"), event({}, choices=[], usage=told), DONE)
        gate.models.acts["tiered"] = streams(*pieces)
    else:
        gate.models.acts["tiered"] = answers(usage=told, service_tier="standard")
    answer = await gate.ask(model="tiered", service_tier="priority", stream=stream)
    assert answer.status_code == 200
    line = await gate.line()
    charged = 1_000 * 1_000 + 100 * 2_000 + 1_000_000
    assert (line["tier_served"], line["cost_nano_usd"], line["own_cost_nano_usd"]) == (
        "default",
        charged,
        1_000 * 500 + 100 * 1_000,
    )


async def test_a_later_price_holds_from_its_day_on(gate: Metered) -> None:
    assert await costs(gate, model="dated") == (30 * 5_000, None)


async def test_the_price_is_that_of_the_model_that_served(gate: Metered) -> None:
    gate.models.acts["priced"] = refuses(429, BUSY)
    assert await costs(gate, model=..., models=["priced", "other"]) == (30 * 100_000, 30 * 50_000)
    assert (await gate.line())["model_served"] == "other"


async def test_nothing_is_charged_for_what_nobody_took_on(gate: Metered) -> None:
    gate.models.acts["priced"] = refuses(429, BUSY)
    assert (await gate.ask(model="priced", fail_fast=True)).status_code == 429
    line = await gate.line()
    assert (line["cost_nano_usd"] or 0, line["own_cost_nano_usd"] or 0) == (0, 0)


async def test_what_has_no_price_costs_what_nobody_knows(gate: Metered) -> None:
    assert await costs(gate, model="unpriced") == (None, 10 * 500 + 20 * 1_000)
    assert (await gate.line())["price_version"] is None
    row = (await gate.run.rows())[0]
    assert (row["cost_micro_usd"], row["own_cost_micro_usd"], row["price_version"]) == (None, 25, None)


async def test_the_catalogue_stands_in_for_a_price(gate: Metered) -> None:
    gate.models.acts["gpt-4o"] = answers(usage=usage(1_000, 100, cached_tokens=400), service_tier="default")
    paid = 600 * 2_500 + 400 * 1_250 + 100 * 10_000
    assert await costs(gate, model="gpt-4o") == (paid, paid)
    assert (await gate.line())["price_version"] == price_list().version


async def test_vectors_cost_their_input(gate: Metered) -> None:
    body = {"object": "list", "data": [{"object": "embedding", "index": 0, "embedding": [0.5]}], "model": "up"}
    gate.models.acts["vectors"] = answers(**body, usage={"prompt_tokens": 3, "total_tokens": 3})
    answer = await gate.ask(path="/v1/embeddings", model="vectors")
    assert answer.status_code == 200, answer.text
    # Three times 37.5 nano-USD, rounded up once.
    assert (await gate.line())["cost_nano_usd"] == 113


async def test_the_models_list_has_the_prices_of_today(gate: Metered) -> None:
    listed = {}
    for path in ("/deepinfra/v1/models", "/nebius/v1/models?verbose=true"):
        answer = await gate.run.client.get(path)
        listed[path] = {each["id"]: each for each in answer.json()["data"]}
    theirs, verbose = listed.values()
    assert theirs["vectors"]["metadata"]["pricing"] == {"input_tokens": 0.0375, "output_tokens": 8.0}
    assert theirs["dated"]["metadata"]["pricing"] == {"input_tokens": 5.0, "output_tokens": 5.0}
    assert theirs["gpt-4o"]["metadata"]["pricing"] == {"input_tokens": 2.5, "output_tokens": 10.0, "cache_read_tokens": 1.25}
    assert verbose["vectors"]["pricing"] == {"prompt": "0.0000000375", "completion": "0.000008000"}
    assert verbose["unpriced"]["pricing"] is None


async def test_a_budget_is_held_to_the_dearest_of_all_parts(gate: Metered) -> None:
    tokens = prompt_tokens("priced")
    gate.models.acts["priced"] = answers(usage=usage(tokens, LONGEST, cache_write_tokens=tokens, reasoning_tokens=LONGEST))
    refused, served = [
        await gate.ask(key=secret(name), model="priced", service_tier="default", max_tokens=LONGEST) for name in ("poor", "rich")
    ]
    assert (refused.status_code, refused.json()["error"]["code"]) == (402, "insufficient_quota")
    assert served.status_code == 200
    assert (await gate.notes.lines())[-1]["cost_nano_usd"] == MOST_NANO_USD
