"""Route prefixes: below each one, the contract that it pins, cell by cell; what is set on a plan stands above it."""

from collections.abc import AsyncIterator
from typing import Any

import msgspec
import pytest
import pytest_asyncio

from tests.fakes.openai import Models
from tests.integration.scene import Scene, scene
from tests.running import config
from tests.valkey import Valkey

pytestmark = pytest.mark.asyncio(loop_scope="module")

V1, OPENAI, DEEPINFRA, NEBIUS, OWN = "/v1", "/v1/openai", "/deepinfra/v1", "/nebius/v1", "/team/v1"
PREFIXES = (V1, OPENAI, DEEPINFRA, NEBIUS, OWN)
LIKE_DEEPINFRA = (OPENAI, DEEPINFRA, OWN)
CHAT, COMPLETIONS = "/chat/completions", "/completions"
PATHS = (CHAT, COMPLETIONS)
LONGEST = 16_384
PLANS: dict[str, dict[str, Any]] = {
    "decided": {"auto": "overflow", "default_tier": "flex"},
    "eager": {"auto": "priority"},
    "plain": {"tiers": ["default"]},
}


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def gate(valkey_server: Valkey, tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Scene]:
    model = {
        "deployments": [{"provider": "p", "model": "up-m"}],
        "context_window": 131_072,
        "max_output_tokens": LONGEST,
        "price": {"input": 0.5, "output": 1.25, "cached_input": 0.1},
    }
    found = config({"p": "{upstream}"}, {"m": model}, dialects={OWN: "deepinfra"})
    plans = {name: {**found["plans"]["all"], **plan} for name, plan in PLANS.items()}
    keys = [{"name": name, "org": "acme", "plan": name, "secret": secret(name)} for name in plans]
    whole = {**found, "plans": {**found["plans"], **plans}, "keys": [*found["keys"], *keys]}
    async with scene(Models(), whole, valkey_server, tmp_path_factory.mktemp("prefixes")) as running:
        yield running


def secret(name: str) -> str:
    return f"sk-test-secret-of-{name}"


async def sent(gate: Scene, path: str, **fields: Any) -> Any:
    """Return what the upstream was sent for a request that is served."""
    answer = await gate.ask(path=path, model="m", **fields)
    assert answer.status_code == 200, answer.text
    return msgspec.json.decode(gate.server.requests[-1].body)


AUTO = {V1: "default", NEBIUS: "default"}
ABSENT = {V1 + CHAT: "auto", NEBIUS + CHAT: "auto", NEBIUS + COMPLETIONS: "auto"}
"""By route, where it is not default."""


@pytest.mark.parametrize("path", PATHS)
@pytest.mark.parametrize("prefix", PREFIXES)
async def test_what_auto_and_an_absent_tier_mean(gate: Scene, prefix: str, path: str) -> None:
    async def tier(**fields: Any) -> str:
        answer = await gate.ask(path=prefix + path, model="m", **fields)
        assert answer.status_code == 200
        return str(answer.json()["service_tier"])

    assert await tier(service_tier="auto") == AUTO.get(prefix, "priority")
    assert await tier(service_tier="auto", key=secret("plain")) == "default", "never an error for want of the right"
    assert await tier(service_tier="auto", key=secret("decided")) == "default", "the plan's word goes first"
    assert await tier(service_tier="auto", key=secret("eager")) == "priority"
    absent = ABSENT.get(prefix + path, "default")
    assert await tier(key=secret("eager")) == ("priority" if absent == "auto" else "default")
    assert await tier(key=secret("decided")) == "flex"


@pytest.mark.parametrize("path", PATHS)
@pytest.mark.parametrize("prefix", PREFIXES)
async def test_how_long_an_answer_may_be(gate: Scene, prefix: str, path: str) -> None:
    usual = 8192 if prefix == NEBIUS else None
    assert (await sent(gate, prefix + path)).get("max_tokens") == usual
    assert (await sent(gate, prefix + path, max_tokens=None)).get("max_tokens") == usual
    assert (await sent(gate, prefix + path, max_tokens=LONGEST))["max_tokens"] == LONGEST
    beyond = await gate.ask(path=prefix + path, model="m", max_tokens=LONGEST + 1)
    if prefix == NEBIUS:
        assert (beyond.status_code, beyond.json()["error"]["code"]) == (400, "context_length_exceeded")
    else:
        assert (beyond.status_code, beyond.headers["x-gateway-adjusted-params"]) == (200, f"max_tokens={LONGEST}")


@pytest.mark.parametrize("path", PATHS)
@pytest.mark.parametrize("prefix", PREFIXES)
async def test_how_many_choices_and_stops_there_may_be(gate: Scene, prefix: str, path: str) -> None:
    most_choices, most_stops = 4 if prefix in LIKE_DEEPINFRA else 128, 4 if prefix == NEBIUS else 16
    stops = [f"s{number}" for number in range(most_stops + 1)]
    assert (await sent(gate, prefix + path, n=most_choices, stop=stops[1:]))["n"] == most_choices
    refused = await gate.ask(path=prefix + path, model="m", n=most_choices + 1, stop=stops)
    assert (refused.status_code, refused.json()["error"]["code"]) == (422, "out_of_range")
    assert sorted(each["loc"][1] for each in refused.json()["detail"]) == ["n", "stop"]


@pytest.mark.parametrize("path", PATHS)
@pytest.mark.parametrize("prefix", PREFIXES)
async def test_what_an_empty_stream_options_asks_for(gate: Scene, prefix: str, path: str) -> None:
    answer = await gate.ask(path=prefix + path, model="m", stream=True, stream_options={})
    asks = prefix in LIKE_DEEPINFRA or (prefix, path) == (V1, COMPLETIONS)
    assert answer.text.count('"usage":{') == asks
    assert answer.text.endswith("data: [DONE]\n\n")


@pytest.mark.parametrize("path", PATHS)
@pytest.mark.parametrize("prefix", PREFIXES)
async def test_where_usage_is_told_that_was_not_asked_for(gate: Scene, prefix: str, path: str) -> None:
    answer = await gate.ask(path=prefix + path, model="m", stream=True)
    *events, end, _ = answer.text.split("\n\n")
    told = ['"usage":{' in event for event in events]
    assert (told.count(True), told[-1], end) == (*((1, True) if prefix in LIKE_DEEPINFRA else (0, False)), "data: [DONE]")
    assert '"finish_reason":"stop"' in events[-1]


@pytest.mark.parametrize("path", PATHS)
@pytest.mark.parametrize("prefix", PREFIXES)
async def test_what_stands_beside_an_error(gate: Scene, prefix: str, path: str) -> None:
    wrong = (await gate.ask(path=prefix + path, model="m", temperature=9)).json()
    assert [each["loc"] for each in wrong["detail"]] == [["body", "temperature"]]
    for status, fields in ((404, {"model": "nope"}), (401, {"model": "m", "key": "sk-test-nobody"})):
        answer = await gate.ask(path=prefix + path, **fields)
        told = answer.json()
        assert answer.status_code == status
        assert told.get("detail") == (None if prefix == V1 else told["error"]["message"])


@pytest.mark.parametrize("path", ["/models", "/models/m", "/key", "/nowhere"])
@pytest.mark.parametrize("prefix", PREFIXES)
async def test_what_stands_beside_an_error_of_anything_else(gate: Scene, prefix: str, path: str) -> None:
    answer = await gate.run.client.get(f"{prefix}{path}", headers={"authorization": "Bearer sk-test-nobody"})
    told = answer.json()
    assert answer.status_code == (404 if path == "/nowhere" else 401)
    assert told.get("detail") == (None if prefix == V1 else told["error"]["message"])


@pytest.mark.parametrize(
    "path", ["/health", "/openapi.json", *(f"{prefix}{path}" for prefix in PREFIXES for path in ("/models", "/key"))]
)
async def test_what_may_be_got_may_be_asked_for_its_head(gate: Scene, path: str) -> None:
    got, asked = await gate.run.client.get(path), await gate.run.client.head(path)
    assert (asked.status_code, asked.content) == (200, b"")
    assert asked.headers["content-length"] == got.headers["content-length"]


async def test_how_a_model_is_listed(gate: Scene) -> None:
    async def listed(url: str) -> Any:
        answer = await gate.run.client.get(url)
        assert answer.status_code == 200
        return answer.json()["data"]

    card = {"id": "m", "object": "model", "created": 1_735_689_600, "owned_by": "tiergate"}
    assert await listed(f"{V1}/models") == await listed(f"{NEBIUS}/models") == [card]
    pricing = {"input_tokens": 0.5, "output_tokens": 1.25, "cache_read_tokens": 0.1}
    metadata: dict[str, Any] = {
        "description": None,
        "context_length": 131_072,
        "max_tokens": LONGEST,
        "pricing": pricing,
        "tags": [],
    }
    for prefix in LIKE_DEEPINFRA:
        assert await listed(f"{prefix}/models") == [{**card, "root": "m", "parent": None, "metadata": metadata}]
        assert (await gate.run.client.get(f"{prefix}/models/m")).json()["metadata"] == metadata
    sampling = ["temperature", "top_p", "max_tokens", "stop", "seed", "presence_penalty", "frequency_penalty", "logit_bias"]
    verbose = {
        **card,
        "name": "m",
        "context_length": 131_072,
        "architecture": {"modality": "text+image->text"},
        "quantization": None,
        "pricing": {"prompt": "0.000000500", "completion": "0.000001250"},
        "per_request_limits": None,
        "regions": [],
        "supported_features": ["tools", "logprobs"],
        "supported_sampling_parameters": [*sampling, "logprobs", "top_logprobs"],
    }
    for word in ("true", "True", "1"):
        assert await listed(f"{NEBIUS}/models?verbose={word}") == [verbose]
        assert (await gate.run.client.get(f"{NEBIUS}/models/m?verbose={word}")).json() == verbose
    for word in ("false", "0", ""):
        assert await listed(f"{NEBIUS}/models?verbose={word}") == [card]
    assert (await gate.run.client.get(f"{NEBIUS}/models/m")).json() == card
