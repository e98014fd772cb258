"""The demo provider over real HTTP."""

from collections.abc import AsyncIterator
from typing import Any

import httpx
import pytest

from gateway.demo.provider import Provider
from gateway.demo.serving import serving
from tests.integration.processes.conditions import until

QUESTION: dict[str, Any] = {"model": "demo-brief", "messages": [{"role": "user", "content": "hello"}]}


@pytest.fixture
async def provider() -> Provider:
    return Provider("north", key="the-key")


@pytest.fixture
async def client(provider: Provider) -> AsyncIterator[httpx.AsyncClient]:
    headers = {"authorization": "Bearer the-key"}
    async with serving(provider) as base_url, httpx.AsyncClient(base_url=base_url, headers=headers) as client:
        yield client


async def test_an_answer_and_what_was_seen_of_it(client: httpx.AsyncClient, provider: Provider) -> None:
    answer = await client.post("/chat/completions", json=QUESTION, headers={"x-custom": "1"})
    assert answer.status_code == 200
    assert answer.json()["choices"][0]["message"]["content"] == "demo-brief at north:"
    state = (await client.get(f"http://{client.base_url.netloc.decode()}/demo/state")).json()
    assert (state["open"], state["answered"], state["aborted"], state["broken"]) == (0, 1, 0, 0)
    assert state["seen"][0]["path"] == "/v1/chat/completions"
    assert state["seen"][0]["body"] == QUESTION
    assert state["seen"][0]["headers"]["x-custom"] == "1"
    assert "the-key" not in str(state)


async def test_a_stream(client: httpx.AsyncClient) -> None:
    async with client.stream("POST", "/completions", json={"model": "demo-brief", "prompt": "hello", "stream": True}) as answer:
        lines = [line async for line in answer.aiter_lines() if line]
    assert answer.headers["content-type"] == "text/event-stream"
    assert lines[-1] == "data: [DONE]"
    assert len(lines) == 5


async def test_the_busy_model_says_so_in_the_documented_words(client: httpx.AsyncClient) -> None:
    answer = await client.post("/chat/completions", json={**QUESTION, "model": "demo-busy"})
    assert answer.status_code == 429
    assert answer.json() == {
        "error": {
            "message": "Model busy, retry later",
            "type": "invalid_request_error",
            "param": None,
            "code": "engine_overloaded",
        }
    }


@pytest.mark.parametrize("stream", [True, False])
async def test_the_flaky_model_breaks_in_the_middle(client: httpx.AsyncClient, provider: Provider, stream: bool) -> None:
    model = "demo-flaky?word_ms=0&first_ms=0"
    with pytest.raises(httpx.RemoteProtocolError):
        await client.post("/chat/completions", json={**QUESTION, "model": model, "stream": stream})
    assert provider.state.broken == 1


async def test_a_client_that_leaves_is_noticed(client: httpx.AsyncClient, provider: Provider) -> None:
    async with client.stream("POST", "/chat/completions", json={**QUESTION, "model": "demo-silent", "stream": True}):
        assert provider.state.open == 1

    async def aborted() -> bool:
        return (provider.state.open, provider.state.aborted) == (0, 1)

    await until(aborted)


@pytest.mark.parametrize(
    ("path", "body", "status", "code"),
    [
        ("/chat/completions", {**QUESTION, "model": "gpt-4"}, 404, "model_not_found"),
        ("/chat/completions", {"model": "demo-fast", "prompt": "x"}, 400, "missing_required_parameter"),
        ("/completions", QUESTION, 400, "missing_required_parameter"),
        ("/completions", {"model": "demo-fast", "prompt": 5}, 400, "invalid_value"),
        ("/chat/completions", {**QUESTION, "model": "demo-500"}, 500, "demo_failure"),
        ("/embeddings", {}, 404, "unknown_url"),
    ],
)
async def test_refusals(client: httpx.AsyncClient, path: str, body: dict[str, Any], status: int, code: str) -> None:
    answer = await client.post(path, json=body)
    assert (answer.status_code, answer.json()["error"]["code"]) == (status, code)


async def test_a_wrong_key_is_refused(client: httpx.AsyncClient) -> None:
    for method, path in (("GET", "/models"), ("POST", "/chat/completions")):
        answer = await client.request(method, path, headers={"authorization": "Bearer other"})
        assert answer.status_code == 401


async def test_the_list_of_models(client: httpx.AsyncClient) -> None:
    answer = (await client.get("/models")).json()
    assert {"demo-fast", "demo-busy"} <= {model["id"] for model in answer["data"]}
