"""A vendor is a block of the file, through the running gateway: one that nobody has heard of, and some of the shipped ones.

All of them are the same scripted server; what tells them apart is what the gateway says to it.
"""

from collections.abc import AsyncIterator
from typing import Any

import msgspec
import pytest
import pytest_asyncio
import yaml

from tests.fakes.http_server import Request
from tests.fakes.openai import DONE, USUAL_STREAM, Models, event, streams
from tests.integration.scene import Scene, scene
from tests.running import config
from tests.valkey import Valkey

pytestmark = pytest.mark.asyncio(loop_scope="module")

NEW_VENDOR = """
acme:
  base_url: "{upstream}/api/v3"
  api_key: sk-acme
  allow_http: true
  endpoints: [chat, completions]
  tiers: {default: calm, priority: urgent}
  quirks: {max_tokens_field: max_completion_tokens}
  headers: {x-acme-team: search}
"""

SHIPPED = """
groq: {preset: groq, api_key: sk-groq, base_url: "{upstream}/openai/v1", allow_http: true}
mistral: {preset: mistral, base_url: "{upstream}/v1", allow_http: true}
eager: {preset: mistral, base_url: "{upstream}/v1", allow_http: true, unknown_fields: forward, quirks: {stream_options: true}}
deepinfra: {preset: deepinfra, base_url: "{upstream}/v1/openai", allow_http: true}
"""


def settings() -> dict[str, Any]:
    providers = yaml.safe_load(NEW_VENDOR) | yaml.safe_load(SHIPPED)
    models = {name: {"deployments": [{"provider": name, "model": f"up-{name}"}]} for name in providers}
    models["both"] = {
        "deployments": [{"provider": "deepinfra", "model": "up-both"}, {"provider": "acme", "model": "up", "order": 2}]
    }
    models["wide"] = {
        "deployments": [{"provider": "groq", "model": "up-wide"}, {"provider": "deepinfra", "model": "up", "order": 2}]
    }
    return {**config({}, models), "providers": providers}


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def shared(valkey_server: Valkey, tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Scene]:
    async with scene(Models(), settings(), valkey_server, tmp_path_factory.mktemp("presets")) as found:
        yield found


@pytest_asyncio.fixture(loop_scope="module")
async def at(shared: Scene) -> AsyncIterator[Scene]:
    yield shared
    await shared.rest()


def sent(at: Scene) -> tuple[Request, dict[str, Any]]:
    """Return the last request that the vendor got, and what its body says beside the question."""
    request = at.server.requests[-1]
    body = msgspec.json.decode(request.body)
    return request, {name: value for name, value in body.items() if name not in ("messages", "prompt", "stream")}


async def test_a_new_vendor_is_one_block_of_the_file(at: Scene) -> None:
    answer = await at.ask(model="acme", max_tokens=7, service_tier="priority")
    assert (answer.status_code, answer.json()["choices"][0]["message"]["content"]) == (200, "Hello")
    assert answer.headers["x-gateway-provider"] == "acme"
    request, body = sent(at)
    assert request.path == "/api/v3/chat/completions"
    assert (request.header("authorization"), request.header("x-acme-team")) == ("Bearer sk-acme", "search")
    assert body == {"model": "up-acme", "max_completion_tokens": 7, "service_tier": "urgent"}


async def test_a_new_vendor_streams_and_completes(at: Scene) -> None:
    at.models.acts["acme"] = streams(*USUAL_STREAM, DONE)
    answer = await at.ask(model="acme", stream=True)
    assert (answer.status_code, answer.content.count(DONE)) == (200, 1)
    at.models.acts["acme"] = streams(event({}, choices=[{"index": 0, "text": "Hello", "finish_reason": "stop"}]), DONE)
    answer = await at.ask(model="acme", path="/v1/completions", stream=True, max_tokens=7)
    assert b'"text":"Hello"' in answer.content
    request, body = sent(at)
    assert request.path == "/api/v3/completions"
    assert body["max_tokens"] == 7


async def test_a_preset_says_what_the_file_does_not(at: Scene) -> None:
    answer = await at.ask(model="groq", x_vllm=1)
    assert (answer.status_code, answer.headers["x-gateway-dropped-params"]) == (200, "x_vllm")
    request, body = sent(at)
    assert (request.path, request.header("authorization")) == ("/openai/v1/chat/completions", "Bearer sk-groq")
    assert body == {"model": "up-groq", "service_tier": "on_demand"}


@pytest.mark.parametrize(
    ("name", "hints"),
    [("groq", ("prompt_cache_key", "safety_identifier", "verbosity")), ("mistral", ("metadata", "seed", "user", "verbosity"))],
)
async def test_a_preset_leaves_out_what_its_vendor_refuses(name: str, hints: tuple[str, ...], at: Scene) -> None:
    fields: dict[str, Any] = {**dict.fromkeys(hints, 1), "prompt_cache_key": "k", "user": "u"}
    answer = await at.ask(model=name, **fields)
    assert answer.status_code == 200
    assert answer.headers["x-gateway-dropped-params"] == ", ".join(hints)
    assert not {*hints} & sent(at)[1].keys()


async def test_what_a_vendor_lacks_is_for_another(at: Scene) -> None:
    for fields in ({"logprobs": True}, {"n": 2}, {"logit_bias": {"5": 1}}):
        answer = await at.ask(model="wide", **fields)
        assert (answer.status_code, answer.headers["x-gateway-provider"]) == (200, "deepinfra")
        answer = await at.ask(model="groq", **fields)
        error = answer.json()["error"]
        assert (answer.status_code, error["code"], error["param"]) == (400, "unsupported_parameter", next(iter(fields)))
    answer = await at.ask(model="wide", logprobs=False, n=1)
    assert answer.headers["x-gateway-provider"] == "groq"
    assert sent(at)[1] == {"model": "up-wide", "service_tier": "on_demand"}
    assert "x-gateway-dropped-params" not in answer.headers


async def test_a_preset_serves_completions_through_chat_where_the_vendor_has_none(at: Scene) -> None:
    answer = await at.ask(model="groq", path="/v1/completions")
    assert (answer.status_code, answer.json()["choices"][0]["text"]) == (200, "Hello")
    assert sent(at)[0].path == "/openai/v1/chat/completions"


@pytest.mark.parametrize(
    ("name", "more"),
    [("mistral", {}), ("eager", {"stream_options": {"include_usage": True}, "x_vllm": 1})],
    ids=["preset", "file"],
)
async def test_the_file_has_the_last_word(name: str, more: dict[str, Any], at: Scene) -> None:
    at.models.acts[name] = streams(*USUAL_STREAM, DONE)
    answer = await at.ask(model=name, stream=True, max_completion_tokens=9, x_vllm=1)
    assert answer.status_code == 200
    assert sent(at)[1] == {"model": f"up-{name}", "max_tokens": 9, **more}


async def test_a_preset_keeps_a_vendor_from_queueing_while_another_remains(at: Scene) -> None:
    for model, more in (("deepinfra", {}), ("both", {"fail_fast": True})):
        assert (await at.ask(model=model, service_tier="default")).status_code == 200
        assert sent(at)[1] == {"model": f"up-{model}", "service_tier": "default", **more}
