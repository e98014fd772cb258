"""Two providers of one model: which trouble of the first becomes an answer of the second, and what each is told and not told.

T is at `p` as T1 and at `q` as T2, tried in this order.
"""

from typing import Any

import msgspec
import pytest

from tests.fakes.http_server import Call, Script
from tests.fakes.openai import BUSY, CONTEXT, DONE, SSE, USUAL_STREAM, answers, error, event, refuses, streams
from tests.integration.scene import Scene

pytestmark = pytest.mark.asyncio(loop_scope="module")

TROUBLE: dict[str, tuple[Script, int]] = {
    "busy": (refuses(429, BUSY), 429),
    "throttled": (refuses(429, error("Rate limit reached", code="rate_limit_exceeded")), 429),
    "unavailable": (refuses(503), 503),
    "overloaded": (refuses(529), 529),
    "server_error": (refuses(500, b"<html>"), 500),
    "bad_gateway": (refuses(502), 502),
    "our_key": (refuses(401, error("Incorrect API key")), 401),
    "our_bill": (refuses(402), 402),
    "our_bill_as_400": (refuses(400, error("Your credit balance is too low", code="insufficient_quota")), 400),
    "forbidden": (refuses(403), 403),
    "stale_model": (refuses(404, error("The model `up-T1` does not exist", code="model_not_found")), 404),
    "conflict": (refuses(409), 409),
    "its_timeout": (refuses(408), 408),
    "gateway_timeout": (refuses(504), 504),
    "html": (refuses(200, b"<html>"), 200),
    "error_in_200": (refuses(200, error("overloaded", code="engine_overloaded")), 200),
    "nothing_in_200": (refuses(200), 200),
}


@pytest.mark.parametrize("stream", [False, True], ids=["whole", "stream"])
@pytest.mark.parametrize("name", TROUBLE)
async def test_trouble_of_one_provider_is_an_answer_of_the_other(name: str, stream: bool, walk: Scene) -> None:
    walk.models.acts["T1"], status = TROUBLE[name]
    response = await walk.ask(model="T", stream=stream)
    assert (response.status_code, response.headers["x-gateway-provider"]) == (200, "q")
    assert response.headers["x-gateway-attempts"] == f"T;{status}, T;200"
    assert walk.models.asked == ["T1", "T2"]


async def test_an_error_whose_text_never_comes_is_one_all_the_same(walk: Scene) -> None:
    async def act(call: Call) -> None:
        call.head(503, length=100)
        call.write(b'{"err')
        await call.gone.wait()

    walk.models.acts["T1"] = act
    response = await walk.run.client.post(
        "/v1/chat/completions",
        json={"model": "T", "messages": [{"role": "user", "content": "hi"}]},
        headers={"x-request-timeout": "5"},
    )
    assert (response.status_code, response.headers["x-gateway-attempts"]) == (200, "T;503, T;200")


@pytest.mark.parametrize(
    ("status", "body", "code"),
    [
        (400, error("messages: at least one user message", code="invalid_value", param="messages"), "invalid_value"),
        (400, CONTEXT, "context_length_exceeded"),
        (400, error("flagged by our content policy", code="content_filter"), "content_filter"),
        (413, error("Too large"), "request_too_large"),
        (422, b'{"detail":[{"loc":["body","n"],"msg":"too many","type":"value_error"}]}', "out_of_range"),
    ],
)
async def test_a_fault_of_the_clients_own_asks_nobody_else(status: int, body: bytes, code: str, walk: Scene) -> None:
    walk.models.acts["T1"] = refuses(status, body)
    response = await walk.ask(models=["T", "B"])
    assert (response.status_code, response.json()["error"]["code"]) == (status, code)
    assert response.headers["x-gateway-attempts"] == f"T;{status}"
    assert walk.models.asked == ["T1"]
    assert (await walk.run.rows())[0]["outcome"] == "client_error"


async def test_each_provider_gets_the_clients_own_request_and_no_ones_key_but_its_own(walk: Scene) -> None:
    walk.models.acts["T1"] = refuses(500)
    secrets = {
        "x-api-key": "sk-test-secret-of-the-only-key",
        "cookie": "session=marker",
        "openai-organization": "org-marker",
        "x-forwarded-for": "192.0.2.77",
        "x-stainless-lang": "marker",
    }
    body = {"model": "T", "messages": [{"role": "user", "content": "hi"}], "temperature": 0.2, "max_tokens": 7, "k": {"a": 1.50}}
    response = await walk.run.client.post("/v1/chat/completions", json=body, headers=secrets)
    assert response.status_code == 200
    first, second = walk.server.requests[-2:]
    assert [msgspec.json.decode(sent.body) for sent in (first, second)] == [{**body, "model": f"up-T{n}"} for n in (1, 2)]
    assert [sent.header("authorization") for sent in (first, second)] == ["Bearer sk-up-p", "Bearer sk-up-q"]
    for sent in (first, second):
        told = str(sent.headers)
        assert not any(secret in told for secret in secrets.values())
        assert {name for name, _ in sent.headers} == {
            "host",
            "authorization",
            "content-type",
            "content-length",
            "accept",
            "accept-encoding",
            "user-agent",
        }


async def test_a_request_that_was_sent_is_never_repeated_at_the_same_provider(walk: Scene) -> None:
    async def cut(call: Call) -> None:
        call.reset()

    walk.models.acts.update({"T1": cut, "T2": cut})
    response = await walk.ask(model="T")
    assert (response.status_code, response.json()["error"]["code"]) == (502, "upstream_unavailable")
    assert walk.models.asked == ["T1", "T2"]
    assert response.headers["x-gateway-attempts"] == "T;0, T;0"


async def test_what_came_with_an_error_in_one_read_is_delivered_before_it(walk: Scene) -> None:
    async def once_upon(call: Call) -> None:
        call.head(200, SSE, chunked=True)
        call.piece(event({"content": "Once"}) + b"data: " + error("boom", code="internal_error") + b"\n\n")
        call.end()

    walk.models.acts["T1"] = once_upon
    response = await walk.ask(model="T", stream=True)
    payloads = [msgspec.json.decode(line.removeprefix("data: ")) for line in response.text.split("\n\n") if line]
    assert payloads[0]["choices"][0]["delta"]["content"] == "Once"
    assert payloads[-1]["error"]["code"] == "stream_interrupted"
    assert walk.models.asked == ["T1"]


@pytest.mark.parametrize(
    ("message", "finish"),
    [
        ({"content": ""}, "length"),
        ({"content": None, "refusal": None}, "content_filter"),
        (
            {"content": None, "tool_calls": [{"id": "c", "type": "function", "function": {"name": "f", "arguments": ""}}]},
            "tool_calls",
        ),
        ({"content": ""}, "stop"),
    ],
    ids=["length", "content_filter", "tool_calls", "stop"],
)
async def test_an_empty_answer_is_an_answer(message: dict[str, Any], finish: str, walk: Scene) -> None:
    choice = {"index": 0, "message": {"role": "assistant", **message}, "finish_reason": finish}
    walk.models.acts["T1"] = answers(choices=[choice])
    response = await walk.ask(model="T")
    assert response.json()["choices"] == [choice]
    walk.models.acts["T1"] = streams(USUAL_STREAM[0], event({}, finish), DONE)
    response = await walk.ask(model="T", stream=True)
    assert response.text.endswith("data: [DONE]\n\n")
    assert walk.models.asked == ["T1", "T1"]


async def test_the_smallest_hint_of_the_walk_is_the_one_that_is_passed_on(walk: Scene) -> None:
    walk.models.acts.update(
        {
            "A": refuses(429, BUSY, retry_after="9"),
            "B": refuses(429, BUSY, retry_after_ms="3400"),
            "C": refuses(429, BUSY, retry_after="86400"),
            "D": refuses(503, retry_after="-5"),
        }
    )
    response = await walk.ask(models=["A", "B", "C", "D"], fail_fast=True)
    assert (response.status_code, response.json()["error"]["code"]) == (429, "engine_overloaded")
    assert (response.headers["retry-after"], response.headers["retry-after-ms"]) == ("4", "3400")
    assert response.headers["x-gateway-attempts"] == "A;429, B;429, C;429, D;503"
    assert "x-should-retry" not in response.headers


async def test_a_hint_beyond_an_sdks_patience_says_not_to_retry(walk: Scene) -> None:
    walk.models.acts["A"] = refuses(429, BUSY, retry_after="198300")
    response = await walk.ask(models=["A"], fail_fast=True)
    assert (response.status_code, response.headers["x-should-retry"]) == (429, "false")


@pytest.mark.parametrize(
    ("last", "status", "code"),
    [
        (refuses(401), 429, "engine_overloaded"),
        (refuses(500), 502, "upstream_unavailable"),
        (refuses(200, b"<html>"), 502, "upstream_bad_response"),
        (refuses(408), 504, "upstream_timeout"),
        (refuses(529), 429, "engine_overloaded"),
    ],
    ids=["our_key", "server_error", "html", "timeout", "overloaded"],
)
async def test_the_end_is_that_of_the_last_provider_contacted_unless_only_our_account_failed_there(
    last: Script, status: int, code: str, walk: Scene
) -> None:
    walk.models.acts.update({"A": refuses(429, BUSY, retry_after="9"), "B": last})
    async with walk.filled("C"):
        response = await walk.ask(models=["A", "B", "C"], fail_fast=True)
    assert (response.status_code, response.json()["error"]["code"]) == (status, code)
    assert walk.models.asked == ["A", "B"]
    assert response.headers["x-gateway-attempts"].endswith("C;429")
