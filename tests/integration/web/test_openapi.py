"""The document at `/openapi.json`: every status that it names is met, and no answer is other than it says."""

from collections.abc import AsyncIterator, Mapping
from typing import Any

import msgspec
import pytest
import pytest_asyncio
from jsonschema_rs import Draft202012Validator

from gateway.web.openapi import document
from tests.fakes.openai import refuses, silence, streams
from tests.fakes.responses import Answering
from tests.integration.scene import Scene, bearer, scene
from tests.integration.test_cuts import spoil
from tests.running import config
from tests.valkey import Valkey

pytestmark = pytest.mark.asyncio(loop_scope="module")

CHAT, COMPLETIONS, MESSAGES, RESPONSES = "/chat/completions", "/completions", "/messages", "/responses"
PATHS = (CHAT, COMPLETIONS, MESSAGES, RESPONSES)
PREFIXES = ("/v1", "/v1/openai", "/deepinfra/v1", "/nebius/v1")
KEYS: list[dict[str, Any]] = [
    {"name": "broke", "budget": {"usd": 0}},
    {"name": "elsewhere", "ips": ["203.0.113.0/24"]},
    {"name": "limited", "limits": {"rpd": 1}},
]
PRICE = {"input": 1.0, "output": 1.0}
ROOM = 2
"""Requests at once; those of a client that waits for each answer have room beside one that is held."""


def secret(name: str) -> str:
    return f"sk-test-secret-of-{name}"


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def gate(valkey_server: Valkey, tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Scene]:
    fast = {"timeouts": {"first_content": "200ms", "total": "200ms"}}
    models = {
        name: {"deployments": [{"provider": "p", "model": f"up-{name}"}], "price": PRICE} for name in ("m", "broken", "slow")
    }
    models["faulty"] = {"deployments": [{"provider": "faulty", "model": "up-m"}], "price": PRICE}
    models["slow"] |= fast
    found = config(dict.fromkeys(("p", "faulty"), "{upstream}"), models)
    for provider in found["providers"].values():
        provider["endpoints"] = ["chat", "completions", "responses"]
    keys = [{"org": "acme", "secret": secret(key["name"]), **key} for key in KEYS]
    whole = {**found, "keys": [*found["keys"], *keys], "limits": {"body": "64KiB", "inflight": ROOM}}
    async with scene(Answering(), whole, valkey_server, tmp_path_factory.mktemp("openapi")) as running:
        spoil(running.run, "faulty")
        yield running


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def told(gate: Scene) -> dict[str, Any]:
    response = await gate.run.client.get("/openapi.json", headers={"authorization": ""})
    assert (response.status_code, response.headers["content-type"]) == (200, "application/json")
    found: dict[str, Any] = response.json()
    return found


def fits(told: Mapping[str, Any], operation: Mapping[str, Any], response: Any) -> str:
    """Hold an answer to what the document says of its status. Return the status."""
    status = str(response.status_code)
    schema = operation["responses"][status]["content"]["application/json"]["schema"]
    Draft202012Validator({**schema, "components": told["components"]}).validate(response.json())
    assert response.headers["x-request-id"]
    return status


@pytest.mark.parametrize("path", PATHS)
@pytest.mark.parametrize("prefix", PREFIXES)
async def test_every_status_is_met_and_every_answer_is_as_it_says(
    prefix: str, path: str, gate: Scene, told: dict[str, Any]
) -> None:
    operation = told["paths"][prefix + path]["post"]
    turns = {"messages": [{"role": "user", "content": "hi"}]}
    bodies: Mapping[str, Mapping[str, Any]] = {
        CHAT: turns,
        COMPLETIONS: {"prompt": "hi"},
        MESSAGES: {"max_tokens": 9, **turns},
        RESPONSES: {"input": "hi"},
    }
    asked = bodies[path]
    good = {"model": "m", **asked}

    async def ask(body: Mapping[str, Any] | bytes, key: str | None = None, **headers: str) -> Any:
        content = body if isinstance(body, bytes) else msgspec.json.encode(body)
        sent = {"content-type": "application/json", **({} if key is None else bearer(key)), **headers}
        return await gate.run.client.post(prefix + path, content=content, headers=sent)

    gate.models.acts |= {"broken": refuses(500), "slow": silence}
    await ask(good, secret("limited"))
    answered = [
        await ask(good),
        await ask({**good, "model": "unknown"}),
        await ask({**good, "temperature": 3, "top_p": 1.5}),
        await ask({**good, "service_tier": "golden"}),
        await ask(b"{", secret("broke")),
        await ask(good, "sk-wrong-0123456789abcdef"),
        await ask(good, secret("broke")),
        await ask(good, secret("elsewhere")),
        await ask(good, secret("limited")),
        await ask(b" " * 70_000),
        await ask(good, **{"content-encoding": "br"}),
        await ask(good, **{"x-long": "x" * 20_000}),
        await ask({**good, "model": "broken"}),
        await ask({**good, "model": "slow"}),
        await ask({**good, "model": "faulty"}),
    ]
    async with gate.filled(*["m"] * ROOM):
        answered.append(await ask(good))
    assert {fits(told, operation, response) for response in answered} == operation["responses"].keys()
    gate.models.acts["m"] = streams()
    response = await ask({**good, "stream": True})
    await gate.rest()
    assert response.headers["content-type"].partition(";")[0] in operation["responses"]["200"]["content"]


@pytest.mark.parametrize("prefix", PREFIXES)
async def test_the_lists_of_models_are_as_it_says(prefix: str, gate: Scene, told: dict[str, Any]) -> None:
    for path, asked in ((f"{prefix}/models", f"{prefix}/models"), (f"{prefix}/models/{{model}}", f"{prefix}/models/m")):
        operation = told["paths"][path]["get"]
        assert fits(told, operation, await gate.run.client.get(asked)) == "200"
        assert fits(told, operation, await gate.run.client.get(asked, headers=bearer("sk-wrong-0123456789"))) == "401"
        assert fits(told, operation, await gate.run.client.get(asked, headers=bearer(secret("elsewhere")))) == "403"
    one = told["paths"][f"{prefix}/models/{{model}}"]["get"]
    assert fits(told, one, await gate.run.client.get(f"{prefix}/models/unknown")) == "404"


@pytest.mark.parametrize("prefix", PREFIXES)
async def test_its_examples_are_answered(prefix: str, told: dict[str, Any], gate: Scene) -> None:
    for path in PATHS:
        [content] = told["paths"][prefix + path]["post"]["requestBody"]["content"].values()
        Draft202012Validator({**content["schema"], "components": told["components"]}).validate(content["example"])
        response = await gate.run.client.post(prefix + path, json={**content["example"], "model": "m"})
        assert response.status_code == 200


async def test_it_is_known_without_a_gateway() -> None:
    assert msgspec.json.decode(document("1.2.3", (), {}))["info"]["version"] == "1.2.3"
