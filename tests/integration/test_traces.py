"""What becomes of requests, as the operator finds it by id and as a client hears it that may ask."""

import uuid
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import httpx
import msgspec
import pytest
from redis.asyncio import Redis

from gateway.admission.client import traces_key
from gateway.policy.trace import Trace
from gateway.stores.traces import TraceReader
from tests.fakes.http_server import HttpServer
from tests.fakes.openai import BUSY, DONE, USUAL_STREAM, Models, refuses, streams
from tests.integration.scene import bearer
from tests.running import SECRET, Running, config, running
from tests.valkey import Valkey

QUIET = "sk-test-secret-of-the-quiet-one"
OVER = "sk-test-secret-of-the-one-over"
OVER_LIMIT = {"limits": {"rpm": 1}, "over_limit": {"rpm": 600}, "explain": True}
EXPLAIN = {"x-gateway-explain": "true"}


class Scene:
    def __init__(self, run: Running, models: Models, reader: TraceReader) -> None:
        self.run = run
        self.models = models
        self.reader = reader

    async def ask(self, *, key: str = SECRET, headers: dict[str, str] | None = None, **fields: Any) -> httpx.Response:
        body = {"messages": [{"role": "user", "content": "a-secret-prompt"}], **(fields or {"model": "m"})}
        return await self.run.client.post("/v1/chat/completions", json=body, headers={**bearer(key), **(headers or {})})

    async def trace(self, answer: httpx.Response) -> Trace:
        await self.run.settled()
        await self.run.gateway._traces.flush()
        found = await self.reader.find(answer.headers["x-request-id"])
        assert found is not None
        return found


@pytest.fixture
async def scene(valkey: Valkey, tmp_path: Path) -> AsyncIterator[Scene]:
    models = Models()
    async with HttpServer(models) as server, Redis(unix_socket_path=valkey.socket) as redis:
        served = {name: {"deployments": [{"provider": "p", "model": f"up-{name}"}]} for name in ("m", "n")}
        settings = config(
            {"p": server.base_url},
            served,
            tiers={"default": {"queue": "0s"}, "over-limit": {}},
            plan={"tiers": ["default"]},
            key={"explain": True},
        )
        settings["keys"].append({"name": "over", "org": "acme", "secret": OVER, **OVER_LIMIT})
        settings["keys"].append({"name": "quiet", "org": "acme", "secret": QUIET, "limits": {"rpm": 1}})
        async with running(settings, valkey, tmp_path) as run:
            yield Scene(run, models, TraceReader(redis, traces_key()))


def explained(answer: httpx.Response) -> Any:
    return msgspec.json.decode(answer.headers["x-gateway-explain"])


async def test_a_walk_is_told_step_by_step(scene: Scene) -> None:
    scene.models.acts["m"] = refuses(429, BUSY, retry_after_ms="5000")
    answer = await scene.ask(models=["m", "n"], headers=EXPLAIN)
    assert answer.status_code == 200
    told = explained(answer)
    assert [(step["model"], step["status"], step["outcome"]) for step in told["attempts"]] == [
        ("m", 429, "busy"),
        ("n", 200, "ok"),
    ]
    found = await scene.trace(answer)
    assert (found.key, found.org, found.models_requested, found.outcome) == ("test", "acme", ["m", "n"], "ok")
    assert [(each.model, each.provider, each.sent) for each in found.attempts] == [("m", "p", True), ("n", "p", True)]
    assert found.duration_ms is not None
    # What cools the deployment now passes it over, and for that long.
    again = explained(await scene.ask(models=["m", "n"], headers=EXPLAIN))["attempts"][0]
    assert (again["outcome"], again["reason"]["cause"]) == ("refused", "cooling")
    assert 0 < again["reason"]["wait_ms"] <= 5_500


async def test_a_refusal_names_the_bucket_to_the_operator_and_to_nobody_who_may_not_ask(scene: Scene) -> None:
    first = await scene.ask(key=QUIET, headers=EXPLAIN)
    refused = await scene.ask(key=QUIET, headers=EXPLAIN)
    assert (first.status_code, refused.status_code) == (200, 429)
    assert "x-gateway-explain" not in first.headers
    assert "x-gateway-explain" not in refused.headers
    found = await scene.trace(refused)
    assert (found.status, found.error_code, found.outcome) == (429, "rate_limit_exceeded", "rejected")
    [attempt] = found.attempts
    reason = attempt.reason
    assert reason is not msgspec.UNSET
    assert (reason.cause, reason.scope, reason.dimension) == ("limit", "key", "rpm")
    assert reason.wait_ms is not None
    assert "a-secret-prompt" not in str(found)


async def test_service_over_the_limit_names_the_limit(scene: Scene) -> None:
    assert "limited" not in explained(await scene.ask(key=OVER, headers=EXPLAIN))
    told = explained(await scene.ask(key=OVER, headers=EXPLAIN))
    assert (told["tier_served"], told["limited"]["scope"], told["limited"]["dimension"]) == ("over-limit", "key", "rpm")


async def test_a_stream_is_told_in_its_head_and_an_error_too(scene: Scene) -> None:
    scene.models.acts["m"] = streams(*USUAL_STREAM, DONE)
    streamed = await scene.ask(model="m", stream=True, headers=EXPLAIN)
    assert [step["outcome"] for step in explained(streamed)["attempts"]] == ["ok"]
    scene.models.acts["m"] = refuses(500)
    failed = await scene.ask(headers=EXPLAIN)
    assert failed.status_code == 502
    assert [step["status"] for step in explained(failed)["attempts"]] == [500]
    assert explained(await scene.ask(model="unknown", headers=EXPLAIN)) == {"attempts": []}
    assert "x-gateway-explain" not in (await scene.ask(headers={"x-gateway-explain": "false"})).headers


async def test_whoever_is_not_let_in_leaves_a_trace_too(scene: Scene) -> None:
    answer = await scene.ask(key="sk-of-nobody-at-all", headers=EXPLAIN)
    assert answer.status_code == 401
    assert "x-gateway-explain" not in answer.headers
    found = await scene.trace(answer)
    assert (found.key, found.status, found.error_code) == (None, 401, "invalid_api_key")
    assert await scene.reader.find(str(uuid.uuid4())) is None
