"""What a provider says of the tier, and what it leaves unsaid: shown, written down and charged alike, streamed or not."""

from collections.abc import AsyncIterator, Sequence
from typing import Any

import msgspec
import pytest
import pytest_asyncio

from tests.fakes.embeddings import embeds
from tests.fakes.openai import DONE, USAGE, Models, answers, event, streams
from tests.integration.scene import Scene, scene
from tests.running import config
from tests.valkey import Valkey

pytestmark = pytest.mark.asyncio(loop_scope="module")

WORDS = {"default": "standard", "priority": "fast", "flex": "slow"}
COST = 10 * 1.0 + 20 * 2.0
"""Micro-USD of an answer at default."""
USAGE_TOO = {"include_usage": True}
FACTOR = {"priority": 1.5, "default": 1.0, "flex": 0.8}


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def shared(valkey_server: Valkey, tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Scene]:
    price = {"input": 1.0, "output": 2.0}
    models = {
        name: {"deployments": [{"provider": name, "model": f"up-{name}"}], "price": price} for name in ("always", "applied")
    }
    settings = config(dict.fromkeys(models, "{upstream}"), models)
    for name, echo in (("always", "always"), ("applied", "when_applied")):
        settings["providers"][name] |= {"tiers": WORDS, "tier_echo": echo, "endpoints": ["chat", "embeddings"]}
    async with scene(Models(), settings, valkey_server, tmp_path_factory.mktemp("echoes")) as found:
        yield found


@pytest_asyncio.fixture(loop_scope="module")
async def at(shared: Scene) -> AsyncIterator[Scene]:
    yield shared
    await shared.rest()


async def is_settled_at(at: Scene, tier: str) -> None:
    (row, *_) = await at.run.rows()
    assert (row["tier_served"], row["cost_micro_usd"]) == (tier, COST * FACTOR[tier])


def shown(text: str) -> list[str]:
    """Return the tier that each event of a stream names."""
    payloads = [each.removeprefix("data: ") for each in text.split("\n\n") if each and not each.endswith("[DONE]")]
    return [msgspec.json.decode(payload)["service_tier"] for payload in payloads]


@pytest.mark.parametrize(
    ("model", "asked", "word", "tier"),
    [
        ("applied", "priority", None, "default"),
        ("applied", "priority", "fast", "priority"),
        ("applied", "priority", "slow", "flex"),
        ("applied", "priority", "unheard-of", "default"),
        ("applied", "default", None, "default"),
        ("applied", "default", "fast", "default"),
        ("applied", "flex", None, "flex"),
        ("always", "priority", None, "priority"),
        ("always", "priority", "unheard-of", "priority"),
        ("always", "priority", "standard", "default"),
        ("always", "flex", "fast", "flex"),
    ],
)
async def test_a_whole_answer(at: Scene, model: str, asked: str, word: str | None, tier: str) -> None:
    at.models.acts[model] = answers(**({} if word is None else {"service_tier": word}))
    answer = await at.ask(model=model, service_tier=asked)
    body = answer.json()
    assert (body["service_tier"], answer.headers["x-gateway-service-tier"]) == (tier, tier)
    assert body["usage"]["estimated_cost"] * 1e6 == pytest.approx(COST * FACTOR[tier])
    await is_settled_at(at, tier)


def told(words: Sequence[str | None]) -> tuple[bytes, ...]:
    """Return a stream whose beginning, text, finish and usage name these tiers."""
    members: list[dict[str, Any]] = [{} if word is None else {"service_tier": word} for word in words]
    return (
        event({"role": "assistant", "content": ""}, **members[0]),
        event({"content": "Hello"}, **members[1]),
        event({}, "stop", **members[2]),
        event({}, choices=[], usage=USAGE, **members[3]),
        DONE,
    )


STREAMS = [
    pytest.param("applied", [None] * 4, ["default"] * 4, id="silent to the end"),
    pytest.param("applied", ["fast", None, None, None], ["priority"] * 4, id="named on the first chunk alone"),
    pytest.param("applied", [None, None, "fast", None], ["default"] * 2 + ["priority"] * 2, id="named with the finish"),
    pytest.param("applied", [None, None, None, "fast"], ["default"] * 3 + ["priority"], id="named with the usage"),
    pytest.param("applied", ["fast", None, "standard", None], ["priority"] * 2 + ["default"] * 2, id="the last word counts"),
    pytest.param("always", [None] * 4, ["priority"] * 4, id="silence says nothing"),
    pytest.param("always", [None, None, "slow", None], ["priority"] * 2 + ["flex"] * 2, id="lower, and late"),
]


@pytest.mark.parametrize(("model", "words", "tiers"), STREAMS)
class TestAStream:
    async def test_of_chat(self, at: Scene, model: str, words: list[str | None], tiers: list[str]) -> None:
        at.models.acts[model] = streams(*told(words))
        answer = await at.ask(model=model, service_tier="priority", stream=True, stream_options=USAGE_TOO)
        assert shown(answer.text) == tiers
        assert answer.headers["x-gateway-service-tier"] in tiers, "as far as it was known with the first content"
        await is_settled_at(at, tiers[-1])

    async def test_of_completions_made_of_chat(self, at: Scene, model: str, words: list[str | None], tiers: list[str]) -> None:
        at.models.acts[model] = streams(*told(words))
        answer = await at.ask(path="/v1/completions", model=model, service_tier="priority", stream=True, stream_options=USAGE_TOO)
        assert shown(answer.text) == tiers[1:]
        await is_settled_at(at, tiers[-1])

    async def test_of_messages_made_of_chat(self, at: Scene, model: str, words: list[str | None], tiers: list[str]) -> None:
        at.models.acts[model] = streams(*told(words))
        answer = await at.ask(path="/v1/messages", model=model, service_tier="priority", stream=True)
        found = [msgspec.json.decode(line.removeprefix("data: ")) for line in answer.text.splitlines() if line.startswith("data")]
        usages = [found[0]["message"]["usage"], next(each for each in found if each["type"] == "message_delta")["usage"]]
        names = {"default": "standard"}
        assert [usage["service_tier"] for usage in usages] == [names.get(tier, tier) for tier in (tiers[0], tiers[-1])]
        await is_settled_at(at, tiers[-1])


async def test_where_no_tier_is_sent_silence_says_nothing(at: Scene) -> None:
    at.models.acts["applied"] = embeds("asked")
    answer = await at.ask(path="/v1/embeddings", model="applied", service_tier="priority")
    assert (answer.status_code, answer.json()["service_tier"]) == (200, "priority")
    (row, *_) = await at.run.rows()
    assert row["tier_served"] == "priority"
