"""Embeddings on a gateway that runs: the way of every other request, with an input and no output."""

import asyncio
from collections.abc import AsyncIterator
from threading import current_thread, main_thread
from typing import Any

import httpx
import msgspec
import pytest
import pytest_asyncio
from msgspec.structs import replace

from gateway.faults import Failed
from gateway.policy.catalogue import Provider
from gateway.providers.openai import OpenAI
from gateway.providers.protocol import Answer, Edits
from gateway.upstream.attempt import ANSWER_BYTES
from tests.fakes.embeddings import base64_of, embeds, vector_of, vectors
from tests.fakes.http_server import Call
from tests.fakes.openai import BUSY, CONTEXT, JSON, Models, refuses
from tests.integration.scene import Scene, scene
from tests.running import config
from tests.valkey import Valkey

pytestmark = pytest.mark.asyncio(loop_scope="module")

V1, OPENAI, DEEPINFRA, NEBIUS = "/v1", "/v1/openai", "/deepinfra/v1", "/nebius/v1"
PREFIXES = (V1, OPENAI, DEEPINFRA, NEBIUS)
PRICE = {"input": 1.0, "output": 50.0}
COST_MICRO_USD = 9
"""Of one answer: 9 tokens in."""

RIGHTS: dict[str, dict[str, Any]] = {
    "minute": {"limits": {"rpm": 1}, "over_limit": {"rpm": 60}},
    "tokens": {"limits": {"tpm": 40}},
    "outputs": {"limits": {"tpm_out": 1}},
    "prompts": {"max_prompts": 1},
    "budget": {"budget": {"usd": msgspec.Raw(b"0.000030")}},
    "free": {"allow_no_limit": True, "default_tier": "flex"},
}


def secret(name: str) -> str:
    return f"sk-test-secret-of-{name}"


def settings() -> dict[str, Any]:
    def model(*places: tuple[str, str], **fields: Any) -> dict[str, Any]:
        deployments = [{"provider": at, "model": name, "order": order} for order, (at, name) in enumerate(places, 1)]
        return {"deployments": deployments, "price": PRICE, "max_output_tokens": 4_096, **fields}

    models = {
        "m": model(("p", "up-m")),
        "other": model(("p", "up-other")),
        "pair": model(("p", "up-one"), ("p", "up-two")),
        "mixed": model(("chats", "up-chat"), ("p", "up-vectors")),
        "chat": model(("chats", "up-chat")),
        "vectors": model(("both", "up-vectors"), capabilities={"endpoints": ["embeddings"]}),
        "words": model(("both", "up-words"), capabilities={"endpoints": ["chat"]}),
        "backed": model(("chats", "up-chat"), fallbacks=["m"]),
        "one-at-a-time": model(("p", "up-slow")),
    }
    models["one-at-a-time"]["deployments"][0]["max_concurrency"] = 1
    found = config(dict.fromkeys(("p", "chats", "both"), "{upstream}"), models, breaker={"failures": 1_000, "window": "1ms"})
    tiers = {"default": "std", "priority": "fast", "flex": "slow"}
    found["providers"]["p"] |= {"endpoints": ["embeddings"], "tiers": tiers, "quirks": {"fail_fast": True}}
    found["providers"]["chats"]["endpoints"] = ["chat"]
    found["providers"]["both"]["endpoints"] = ["chat", "embeddings"]
    found["keys"] += [{"name": name, "org": "acme", "secret": secret(name), **rights} for name, rights in RIGHTS.items()]
    return found


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def shared(valkey_server: Valkey, tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Scene]:
    async with scene(Models(), settings(), valkey_server, tmp_path_factory.mktemp("embeddings")) as found:
        yield found


@pytest_asyncio.fixture(loop_scope="module")
async def gate(shared: Scene) -> AsyncIterator[Scene]:
    names = ("m", "other", "one", "two", "vectors", "slow")
    shared.models.acts.update({name: embeds() for name in names})
    yield shared
    await shared.rest()


async def ask(gate: Scene, *, prefix: str = V1, key: str | None = None, **fields: Any) -> httpx.Response:
    response = await gate.ask(
        path=f"{prefix}/embeddings",
        key=None if key is None else secret(key),
        **{"model": "m", **fields},
    )
    await gate.run.settled()
    return response


def sent(gate: Scene) -> Any:
    return msgspec.json.decode(gate.server.requests[-1].body)


def code(response: httpx.Response) -> tuple[int, str]:
    return response.status_code, response.json()["error"]["code"]


async def test_an_answer_is_the_providers_but_for_what_is_edited(gate: Scene) -> None:
    response = await ask(gate, input=["a", "b"], user="u", dimensions=3, x_vendor=1)
    answer = response.json()
    assert answer == {
        "object": "list",
        "data": [{"object": "embedding", "index": place, "embedding": vector_of("ab"[place], 3)} for place in (0, 1)],
        "model": "m",
        "service_tier": "default",
        "usage": {"prompt_tokens": 9, "total_tokens": 9, "estimated_cost": 0.000009},
    }
    assert gate.server.requests[-1].path == "/v1/embeddings"
    assert sent(gate) == {"model": "up-m", "input": ["a", "b"], "user": "u", "dimensions": 3, "x_vendor": 1}
    headers = response.headers
    assert (headers["x-gateway-model"], headers["x-gateway-provider"], headers["x-gateway-attempts"]) == ("m", "p", "m;200")
    assert (headers["x-gateway-service-tier"], headers["content-type"]) == ("default", "application/json")
    assert "x-gateway-dropped-params" not in headers


@pytest.mark.parametrize(
    ("prefix", "tier"), [(V1, "default"), (OPENAI, "default"), (DEEPINFRA, "default"), (NEBIUS, "over-limit")]
)
async def test_an_absent_tier_is_the_prefixs(prefix: str, tier: str, gate: Scene) -> None:
    """With its only request of the minute gone, a key is served over the limit where `auto` stands in for no tier."""
    await gate.run.gateway._redis.flushall()
    assert (await ask(gate, prefix=prefix, key="minute")).status_code == 200
    response = await ask(gate, prefix=prefix, key="minute")
    if tier == "default":
        assert code(response) == (429, "rate_limit_exceeded")
    else:
        assert (response.status_code, response.headers["x-gateway-service-tier"]) == (200, tier)


@pytest.mark.parametrize("prefix", PREFIXES)
async def test_no_prefix_adds_an_output_bound(prefix: str, gate: Scene) -> None:
    response = await ask(gate, prefix=prefix)
    assert sent(gate) == {"model": "up-m", "input": "hi"}
    assert "x-gateway-adjusted-params" not in response.headers


@pytest.mark.parametrize(
    ("word", "served", "price"),
    [("default", "default", 1.0), ("priority", "priority", 1.5), ("flex", "flex", 0.8), ("no-limit", "no-limit", 1.0)],
)
async def test_tiers_are_served_and_priced_and_never_sent(word: str, served: str, price: float, gate: Scene) -> None:
    response = await ask(gate, key="free", service_tier=word)
    assert (response.json()["service_tier"], response.headers["x-gateway-service-tier"]) == (served, served)
    assert "service_tier" not in sent(gate)
    row = (await gate.run.rows())[0]
    assert (row["tier_requested"], row["tier_served"], row["cost_micro_usd"]) == (word, served, -(-COST_MICRO_USD * price // 1))
    assert (row["input_tokens"], row["output_tokens"], row["route"], row["outcome"]) == (9, 0, "/v1/embeddings", "ok")


async def test_the_keys_own_default_tier_stands_above_all(gate: Scene) -> None:
    assert (await ask(gate, key="free")).json()["service_tier"] == "flex"


async def test_a_tier_without_entitlement_is_refused(gate: Scene) -> None:
    response = await ask(gate, service_tier="no-limit")
    assert (code(response), response.json()["error"]["param"]) == ((400, "invalid_value"), "service_tier")


@pytest.mark.parametrize("name", ["chat", "words"])
@pytest.mark.parametrize("prefix", PREFIXES)
async def test_a_model_that_embeds_nowhere_says_so(prefix: str, name: str, gate: Scene) -> None:
    response = await ask(gate, prefix=prefix, model=name)
    error = response.json()["error"]
    assert (code(response), error["param"], error["type"]) == ((400, "unsupported_parameter"), "model", "invalid_request_error")
    assert (error["message"], gate.models.asked) == (f"The model '{name}' does not serve embeddings", [])
    assert ("detail" in response.json()) == (prefix != V1)


async def test_a_model_that_is_no_ones_is_not_found(gate: Scene) -> None:
    assert code(await ask(gate, model="none")) == (404, "model_not_found")


async def test_a_model_for_vectors_alone_is_never_asked_to_chat(gate: Scene) -> None:
    assert (await ask(gate, model="vectors")).status_code == 200
    response = await gate.ask(model="vectors")
    assert code(response) == (400, "unsupported_parameter")
    assert gate.models.asked == ["vectors"]


async def test_only_deployments_that_embed_are_asked(gate: Scene) -> None:
    assert (await ask(gate, model="mixed")).headers["x-gateway-attempts"] == "mixed;200"
    assert gate.models.asked == ["vectors"]


async def test_a_fallback_list_is_walked(gate: Scene) -> None:
    gate.models.acts["other"] = refuses(429, BUSY)
    response = await ask(gate, model=..., models=["other", "m"])
    assert (response.json()["model"], response.headers["x-gateway-attempts"]) == ("m", "other;429, m;200")
    assert all("fail_fast" not in msgspec.json.decode(each.body) for each in gate.server.requests[-2:])


@pytest.mark.parametrize(
    "body",
    [
        b'{"object":"list","data":[],"model":"up","usage":{"prompt_tokens":0,"total_tokens":0}}',
        b"{}",
        b"<html>",
        b"",
        CONTEXT[:-3],
    ],
)
async def test_what_is_no_answer_leads_to_the_next_provider(body: bytes, gate: Scene) -> None:
    gate.models.acts["one"] = refuses(200, body)
    response = await ask(gate, model="pair", encoding_format="base64")
    assert response.json()["data"][0]["embedding"] == base64_of(vector_of("hi"))
    assert gate.models.asked == ["one", "two"]


async def test_an_answer_beyond_all_bounds_leads_to_the_next_provider(gate: Scene) -> None:
    gate.models.acts["one"] = refuses(200, b" " * (ANSWER_BYTES + 1))
    assert (await ask(gate, model="pair")).json()["data"][0]["embedding"] == vector_of("hi")
    assert gate.models.asked == ["one", "two"]


async def test_a_refusal_of_the_request_is_told_in_the_providers_words(gate: Scene) -> None:
    gate.models.acts["one"] = refuses(400, CONTEXT)
    response = await ask(gate, model="pair")
    assert code(response) == (400, "context_length_exceeded")
    assert gate.models.asked == ["one"]


async def test_tokens_are_the_inputs_alone(gate: Scene) -> None:
    """An answer's 4096 tokens would never fit: 40 a minute hold 3, and post the 9 that are told."""
    await gate.run.gateway._redis.flushall()
    assert [(await ask(gate, key="tokens", input="twelve bytes")).status_code for _ in range(2)] == [200] * 2
    probe = await ask(gate, key="tokens", input="x" * 400)
    assert code(probe) == (429, "rate_limit_exceeded")
    assert probe.headers["x-should-retry"] == "false"
    assert 40 - 18 <= int(probe.headers["x-ratelimit-remaining-tokens"]) < 40 - 9
    assert [(await ask(gate, key="outputs")).status_code for _ in range(3)] == [200] * 3


async def test_token_ids_are_counted(gate: Scene) -> None:
    await gate.run.gateway._redis.flushall()
    assert code(await ask(gate, key="tokens", input=[7] * 41)) == (429, "rate_limit_exceeded")
    assert (await ask(gate, key="tokens", input=[7] * 40)).status_code == 200


async def test_prompts_are_bounded_and_inputs_are_not(gate: Scene) -> None:
    assert (await ask(gate, key="prompts", input=["x"] * 100)).status_code == 200
    assert code(await ask(gate, input=["x"] * 2_049)) == (422, "out_of_range")


async def test_a_budget_is_spent_by_input_alone(gate: Scene) -> None:
    """Three answers' worth: each is held to its input, which no output price touches, and none gets an output bound."""
    assert [(await ask(gate, key="budget")).status_code for _ in range(3)] == [200] * 3
    assert sent(gate) == {"model": "up-m", "input": "hi"}
    response = await ask(gate, key="budget", input="x" * 12)
    assert (code(response), response.headers["x-should-retry"]) == ((402, "insufficient_quota"), "false")


async def test_an_answer_without_usage_is_estimated_by_its_input(gate: Scene) -> None:
    gate.models.acts["other"] = embeds(usage=None)
    assert (await ask(gate, model="other", input="x" * 28)).json()["usage"] is None
    row = (await gate.run.rows())[0]
    assert (row["input_tokens"], row["output_tokens"], row["estimated"], row["cost_micro_usd"]) == (10, 0, True, 10)


class Watched(OpenAI):
    """The dialect, and on which threads it reads answers."""

    def __init__(self, provider: Provider) -> None:
        super().__init__(provider)
        self.beside_the_loop: list[bool] = []

    def answer(self, body: bytes, edits: Edits) -> Answer | Failed:
        self.beside_the_loop.append(current_thread() is not main_thread())
        return super().answer(body, edits)


async def test_many_vectors_are_converted_beside_the_loop(gate: Scene) -> None:
    corridor = gate.run.gateway._corridor
    before = corridor.snapshot
    watched = Watched(before.catalogue.models["m"].deployments[0].provider)
    corridor.snapshot = replace(before, dialects={**before.dialects, "p": watched})
    try:
        for inputs in (["a"], [str(number) for number in range(40)]):
            answer = (await ask(gate, input=inputs, dimensions=3_000, encoding_format="base64")).json()
            assert [each["embedding"] for each in answer["data"]] == [base64_of(vector_of(each, 3_000)) for each in inputs]
    finally:
        corridor.snapshot = before
    assert watched.beside_the_loop == [False, True]


async def test_who_finds_no_room_waits(gate: Scene) -> None:
    held, free = asyncio.Event(), asyncio.Event()

    async def slow(call: Call) -> None:
        held.set()
        await free.wait()
        call.reply(200, vectors(msgspec.json.decode(call.request.body), base64=False), JSON)

    gate.models.acts["slow"] = slow
    first = asyncio.create_task(gate.ask(path="/v1/embeddings", input="a", model="one-at-a-time"))
    await held.wait()
    busy = await gate.ask(path="/v1/embeddings", input="b", model="one-at-a-time", fail_fast=True)
    assert code(busy) == (429, "engine_overloaded")
    second = asyncio.create_task(gate.ask(path="/v1/embeddings", input="b", model="one-at-a-time"))
    await gate.run.waiting(1)
    free.set()
    assert [(await each).json()["data"][0]["embedding"] for each in (first, second)] == [vector_of("a"), vector_of("b")]


async def test_a_stream_is_nothing_that_it_knows(gate: Scene) -> None:
    """The field is another endpoint's: it travels like any unknown one, and the answer is whole."""
    response = await ask(gate, stream=True)
    assert (response.headers["content-type"], sent(gate)["stream"]) == ("application/json", True)
    assert (await gate.run.rows())[0]["stream"] is False


async def test_it_has_a_route_of_its_own_in_the_metrics(gate: Scene) -> None:
    await ask(gate, prefix=NEBIUS)
    text = (await gate.run.gateway._exposition.render()).decode()
    assert 'route="/nebius/v1/embeddings"' in text
    assert 'route="other"' not in text


@pytest.mark.parametrize("prefix", PREFIXES)
async def test_it_is_described(prefix: str, gate: Scene) -> None:
    described = (await gate.run.client.get("/openapi.json")).json()
    operation, schemas = described["paths"][f"{prefix}/embeddings"]["post"], described["components"]["schemas"]
    assert [*operation["responses"]["200"]["content"]] == ["application/json"]
    assert set(schemas["CreateEmbeddingRequest"]["properties"]) == {
        *("input", "encoding_format", "dimensions", "user", "prompt_cache_key", "service_tier", "fail_fast", "extra_body"),
    }
    example = operation["requestBody"]["content"]["application/json"]["example"]
    answer = (await ask(gate, prefix=prefix, **{**example, "model": "m"})).json()
    assert set(schemas["CreateEmbeddingResponse"]["required"]) <= set(answer)


async def test_other_methods_are_refused(gate: Scene) -> None:
    response = await gate.run.client.get("/v1/embeddings")
    assert (code(response), response.headers["allow"]) == ((405, "method_not_allowed"), "POST")
