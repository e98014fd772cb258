"""The corridor end to end: real Valkey, SQLite and HTTP on loopback; the upstream is scripted."""

from pathlib import Path
from typing import Any

import httpx
import msgspec
import pytest

from tests.fakes.http_server import Call, HttpServer
from tests.integration.access import Access
from tests.running import Running, config, running
from tests.valkey import Valkey

ANSWER = {
    "id": "chatcmpl-up",
    "object": "chat.completion",
    "created": 1,
    "model": "up-m",
    "choices": [{"index": 0, "message": {"role": "assistant", "content": "Hello"}, "finish_reason": "stop"}],
    "usage": {"prompt_tokens": 10, "completion_tokens": 20, "total_tokens": 30, "cost": 1},
}
JSON = [("content-type", "application/json")]
SSE = [("content-type", "text/event-stream")]


def chunk(delta: dict[str, Any], finish: str | None = None, **more: Any) -> bytes:
    choices = [{"index": 0, "delta": delta, "finish_reason": finish}]
    found = {"id": "c1", "object": "chat.completion.chunk", "created": 1, "model": "up-m", "choices": choices, **more}
    return b"data: " + msgspec.json.encode(found) + b"\n\n"


USAGE = chunk({}, usage={"prompt_tokens": 10, "completion_tokens": 2, "total_tokens": 12}, choices=[])
DONE = b"data: [DONE]\n\n"


async def answer(call: Call) -> None:
    call.reply(200, msgspec.json.encode(ANSWER), JSON)


async def stream(call: Call) -> None:
    call.head(200, SSE, chunked=True)
    for piece in (
        chunk({"role": "assistant", "content": ""}),
        chunk({"content": "Hel"}),
        chunk({"content": "lo"}),
        chunk({}, "stop"),
    ):
        call.piece(piece)
    call.piece(USAGE)
    call.piece(DONE)
    call.end()


def one_model(server: HttpServer, **sections: Any) -> dict[str, Any]:
    model = {"deployments": [{"provider": "p", "model": "up-m"}], "price": {"input": 1.0, "output": 2.0}}
    return config({"p": server.base_url}, {"m": model}, **sections)


async def test_an_answer_is_the_upstreams_but_for_what_is_edited(valkey: Valkey, tmp_path: Path) -> None:
    async with HttpServer(answer) as server, running(one_model(server), valkey, tmp_path) as run:
        response = await run.chat(unknown_field={"kept": 1.50}, temperature=0.5)
        sent = server.requests[0]
        assert (sent.path, sent.header("authorization")) == ("/v1/chat/completions", "Bearer sk-up-p")
        assert msgspec.json.decode(sent.body) == {
            "model": "up-m",
            "messages": [{"role": "user", "content": "hi"}],
            "unknown_field": {"kept": 1.50},
            "temperature": 0.5,
        }
        expected = {**ANSWER, "model": "m", "service_tier": "default"}
        expected["usage"] = {"prompt_tokens": 10, "completion_tokens": 20, "total_tokens": 30, "estimated_cost": 5e-05}
        assert (response.status_code, response.json()) == (200, expected)
        headers = response.headers
        assert (headers["x-gateway-attempts"], headers["x-gateway-model"], headers["x-gateway-provider"]) == ("m;200", "m", "p")
        [row] = await run.rows()
        assert row["request_id"] == headers["x-request-id"]
        assert (row["outcome"], row["input_tokens"], row["output_tokens"], row["cost_micro_usd"]) == ("ok", 10, 20, 50)
        assert await run.leases() == 0


async def test_two_requests_of_one_id_of_their_clients_are_two(valkey: Valkey, tmp_path: Path) -> None:
    async with HttpServer(answer) as server, running(one_model(server), valkey, tmp_path) as run:
        body = {"model": "m", "messages": [{"role": "user", "content": "hi"}]}
        theirs = {"x-request-id": "the-same"}
        answers = [await run.client.post("/v1/chat/completions", json=body, headers=theirs) for _ in range(2)]
        assert [each.status_code for each in answers] == [200, 200]
        rows = await run.rows()
        assert {row["request_id"] for row in rows} == {each.headers["x-request-id"] for each in answers}
        assert len(rows) == 2


async def test_what_a_client_says_of_itself_is_in_the_access_line(valkey: Valkey, tmp_path: Path) -> None:
    async with HttpServer(answer) as server, running(one_model(server), valkey, tmp_path) as run:
        access = Access(run)
        said = {"x-request-id": "theirs", "x-deepinfra-source": "web-page", "x-stainless-retry-count": "2"}
        body = {"model": "m", "messages": [{"role": "user", "content": "hi"}]}
        assert (await run.client.post("/v1/chat/completions", json=body, headers=said)).status_code == 200
        line = await access.only()
        assert [line[name] for name in ("client_request_id", "client_source", "client_retries")] == [*said.values()]
        assert not said.keys() & {name for name, _ in server.requests[0].headers}


async def test_a_stream_hides_the_usage_that_nobody_asked_for(valkey: Valkey, tmp_path: Path) -> None:
    async with HttpServer(stream) as server, running(one_model(server), valkey, tmp_path) as run:
        response = await run.chat(stream=True)
        payloads = [line[6:] for line in response.text.split("\n\n") if line]
        assert payloads[-1] == "[DONE]"
        chunks = [msgspec.json.decode(payload) for payload in payloads[:-1]]
        assert [c["choices"][0]["delta"].get("content") for c in chunks] == ["", "Hel", "lo", None]
        assert {c["model"] for c in chunks} == {"m"}
        assert not any(c.get("usage") for c in chunks)
        assert msgspec.json.decode(server.requests[0].body)["stream_options"] == {"include_usage": True}
        [row] = await run.rows()
        assert (row["outcome"], row["output_tokens"], row["estimated"]) == ("ok", 2, False)


async def test_a_broken_stream_says_so(valkey: Valkey, tmp_path: Path) -> None:
    async def broken(call: Call) -> None:
        call.head(200, SSE, chunked=True)
        call.piece(chunk({"content": "half"}))
        call.reset()

    async with HttpServer(broken) as server, running(one_model(server), valkey, tmp_path) as run:
        response = await run.chat(stream=True)
        last = response.text.strip().rpartition("data: ")[2]
        assert msgspec.json.decode(last)["error"]["code"] == "stream_interrupted"
        assert "[DONE]" not in response.text
        [row] = await run.rows()
        assert (row["outcome"], row["estimated"]) == ("interrupted", True)


@pytest.mark.parametrize(
    ("status", "body", "expected", "code"),
    [
        (400, b'{"error":{"message":"bad thing","param":"x","code":"invalid_value"}}', 400, "invalid_value"),
        (401, b'{"error":{"message":"key sk-up-p is wrong"}}', 502, "upstream_auth_error"),
        (429, b'{"error":{"message":"Model busy, retry later","code":"engine_overloaded"}}', 429, "engine_overloaded"),
        (500, b"<html>", 502, "upstream_unavailable"),
        (504, b"", 504, "upstream_timeout"),
    ],
)
async def test_an_upstreams_failure_has_one_meaning(
    status: int, body: bytes, expected: int, code: str, valkey: Valkey, tmp_path: Path
) -> None:
    async def fail(call: Call) -> None:
        call.reply(status, body, JSON)

    async with HttpServer(fail) as server, running(one_model(server), valkey, tmp_path) as run:
        response = await run.chat(fail_fast=True)
        assert (response.status_code, response.json()["error"]["code"]) == (expected, code)
        assert response.headers["x-gateway-attempts"] == f"m;{status}"
        assert "sk-up" not in response.text
        assert len(await run.rows()) == 1


async def test_a_limit_refuses_and_consumes_nothing(valkey: Valkey, tmp_path: Path) -> None:
    async with HttpServer(answer) as server, running(one_model(server, plan={"limits": {"rpm": 2}}), valkey, tmp_path) as run:
        responses = [await run.chat() for _ in range(4)]
        assert [r.status_code for r in responses] == [200, 200, 429, 429]
        error = responses[2].json()["error"]
        assert (error["code"], error["type"]) == ("rate_limit_exceeded", "requests")
        assert responses[2].headers["retry-after"] == "30"
        assert responses[0].headers["x-ratelimit-remaining-requests"] == "1"
        assert len(server.requests) == 2
        assert len(await run.rows()) == 2


async def test_a_client_that_leaves_takes_its_upstream_along(valkey: Valkey, tmp_path: Path) -> None:
    async def silent(call: Call) -> None:
        await call.gone.wait()

    async with HttpServer(silent) as server, running(one_model(server), valkey, tmp_path) as run:
        with pytest.raises(httpx.ReadTimeout):
            await run.client.post(
                "/v1/chat/completions", json={"model": "m", "messages": [{"role": "user", "content": "hi"}]}, timeout=0.2
            )
        await server.until(lambda: not server.lines)
        [row] = await run.rows()
        assert row["outcome"] == "cancelled"
        assert await run.leases() == 0


async def test_the_next_model_answers_for_a_busy_one(valkey: Valkey, tmp_path: Path) -> None:
    async def by_model(call: Call) -> None:
        if b"up-busy" in call.request.body:
            call.reply(429, b'{"error":{"message":"Model busy, retry later","code":"engine_overloaded"}}', JSON)
        else:
            await answer(call)

    models = {name: {"deployments": [{"provider": "p", "model": f"up-{name}"}]} for name in ("busy", "m")}
    async with HttpServer(by_model) as server, running(config({"p": server.base_url}, models), valkey, tmp_path) as run:
        response = await run.chat(model=..., models=["busy", "m"])
        assert (response.status_code, response.json()["model"]) == (200, "m")
        assert response.headers["x-gateway-attempts"] == "busy;429, m;200"
        [row] = await run.rows()
        assert (row["model_requested"], row["model_served"], row["attempts"]) == ("busy", "m", 2)


async def models_of(run: Running) -> list[str]:
    return [card["id"] for card in (await run.client.get("/v1/models")).json()["data"]]


async def test_models_health_and_unknown_paths(valkey: Valkey, tmp_path: Path) -> None:
    async with HttpServer(answer) as server, running(one_model(server), valkey, tmp_path) as run:
        assert await models_of(run) == ["m"]
        assert (await run.client.get("/v1/models/m")).json()["id"] == "m"
        assert (await run.client.get("/health")).json() == {"message": "ok"}
        for method, path, status, code in (
            ("GET", "/v1/models/none", 404, "model_not_found"),
            ("GET", "/nowhere", 404, "unknown_url"),
            ("GET", "/v1/chat/completions", 405, "method_not_allowed"),
            ("DELETE", "/v1/models", 405, "method_not_allowed"),
        ):
            response = await run.client.request(method, path)
            assert (response.status_code, response.json()["error"]["code"]) == (status, code)
        anonymous = await run.client.get("/v1/models", headers={"authorization": ""})
        assert anonymous.status_code == 401
