"""`POST /v1/responses` through the running gateway, by providers that have it; to others it is not translated."""

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import httpx
import msgspec
import pytest
import pytest_asyncio

from tests.fakes import openai
from tests.fakes.http_server import Call, Request, Script
from tests.fakes.openai import BUSY, DONE, SSE, refuses, silence, streams
from tests.fakes.responses import (
    CALL,
    HELLO,
    USAGE,
    Answering,
    begins,
    encode,
    ends,
    event,
    events,
    item,
    joined,
    response,
    says,
    stream,
    text,
    thought,
)
from tests.integration.access import Access
from tests.integration.fallback.chain import FORGIVING
from tests.integration.scene import Scene, bearer, scene
from tests.running import config
from tests.valkey import Valkey

pytestmark = pytest.mark.asyncio(loop_scope="module")

ROUTE = "/v1/responses"
PRICE = {"input": 10, "cached_input": 1, "output": 20}
TIERS = {"default": "default", "priority": "priority", "flex": "flex"}
TOOL = {"type": "function", "name": "weather", "parameters": {"type": "object", "properties": {"city": {}}}}
COST = (10 * 10 + 20 * 20) / 1_000_000
DELTA = "response.output_text.delta"


def model(name: str, *providers: str, **fields: Any) -> dict[str, Any]:
    deployments = [{"provider": each, "model": f"up-{name}-{each}", "order": place} for place, each in enumerate(providers, 1)]
    return {"deployments": deployments, "price": PRICE, **fields}


def settings() -> dict[str, Any]:
    """`one` and `two` have Responses, `keeps` may keep them, `plain` has chat alone."""
    fast = {"first_content": "200ms", "idle": "200ms", "total": "5s"}
    models = {
        "native": model("native", "one", max_output_tokens=4096, timeouts=fast, aliases=["by-alias"]),
        "twice": model("twice", "one", "two"),
        "first": model("first", "one", fallbacks=["second"]),
        "second": model("second", "two"),
        "kept": model("kept", "one", "keeps"),
        "chat": model("chat", "plain"),
        "either": model("either", "plain", "one"),
        "poor": model("poor", "one", capabilities={"tools": False, "logprobs": False}),
    }
    found = config(dict.fromkeys(("one", "two", "keeps", "plain"), "{upstream}"), models, breaker=FORGIVING)
    providers = found["providers"]
    for name in ("one", "two", "keeps"):
        providers[name] |= {"endpoints": ["chat", "responses"], "tiers": TIERS}
    providers["keeps"] |= {"allow_store": True}
    keys = [
        {"name": "kept", "org": "acme", "secret": "sk-test-secret-of-kept", "keepalive": "50ms"},
        {"name": "limited", "org": "acme", "secret": "sk-test-secret-of-limited", "limits": {"rpd": 1}},
        {"name": "small", "org": "acme", "secret": "sk-test-secret-of-small", "limits": {"tpm": 500}},
        {"name": "broke", "org": "acme", "secret": "sk-test-secret-of-broke", "budget": {"usd": 0}},
    ]
    return {**found, "keys": [*found["keys"], *keys]}


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def shared(valkey_server: Valkey, tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Scene]:
    async with scene(Answering(), settings(), valkey_server, tmp_path_factory.mktemp("responses")) as found:
        yield found


@pytest_asyncio.fixture(loop_scope="module")
async def at(shared: Scene) -> AsyncIterator[Scene]:
    yield shared
    await shared.rest()


async def ask(at: Scene, name: str, **fields: Any) -> httpx.Response:
    return await at.ask(path=ROUTE, model=name, **fields)


def sent(at: Scene) -> tuple[Request, dict[str, Any]]:
    """Return the last request that a provider got, and its body."""
    request = at.server.requests[-1]
    return request, msgspec.json.decode(request.body)


def told(answer: httpx.Response) -> dict[str, Any]:
    """Return what a client makes of an answer, whole or streamed."""
    assert answer.status_code == 200, answer.text
    if answer.headers["content-type"].startswith("text/event-stream"):
        return joined(answer.content)
    found: dict[str, Any] = answer.json()
    return found


def refused(answer: httpx.Response, status: int, code: str) -> dict[str, Any]:
    """Hold an answer to OpenAI's shape of errors. Return the error."""
    error: dict[str, Any] = answer.json()["error"]
    assert (answer.status_code, error["code"]) == (status, code), answer.text
    return error


def said(found: list[dict[str, Any]]) -> str:
    return "".join(each["delta"] for each in found if each["type"] == DELTA)


both_forms = pytest.mark.parametrize("streamed_too", [False, True], ids=["whole", "streamed"])


class TestPassedThrough:
    @both_forms
    async def test_an_answer_is_the_providers_but_for_a_few_members(self, streamed_too: bool, at: Scene) -> None:
        access = Access(at.run)
        at.models.acts["native-one"] = says(thought("Hm"), CALL, HELLO)
        answer = await ask(at, "native", stream=streamed_too, tools=[TOOL])
        cost = {**USAGE, "estimated_cost": COST}
        assert told(answer) == response(thought("Hm"), CALL, HELLO, model="native", usage=cost)
        assert answer.headers["x-gateway-model"] == "native"
        assert answer.headers["x-gateway-service-tier"] == "default"
        line = await access.only()
        assert (line["route"], line["outcome"], line["input_tokens"], line["output_tokens"]) == (ROUTE, "ok", 10, 20)
        row = (await at.run.rows())[0]
        assert (row["route"], row["status"], row["input_tokens"], row["output_tokens"]) == (ROUTE, 200, 10, 20)
        assert not row["estimated"]

    async def test_the_clients_bytes_travel_but_for_what_the_gateway_decides(self, at: Scene) -> None:
        body = (
            b'{"model":"native", "max_output_tokens":5000,"service_tier":"auto","temperature":1.0,"fail_fast":true,'
            b'"input":[{"role":"user","content":[{"type":"input_text","text":"\\u0068i"}]}],"stream" : false,"store":true,'
            b'"reasoning":{"effort":"low"},"stream_options":{"include_obfuscation":false},"another":1.50,"api_base":"x"}'
        )
        answer = await at.run.client.post(ROUTE, content=body, headers={"content-type": "application/json", "openai-beta": "x"})
        assert answer.status_code == 200
        request, _ = sent(at)
        assert request.body == (
            b'{"model":"up-native-one", "max_output_tokens":4096,"service_tier":"default","temperature":1.0,'
            b'"input":[{"role":"user","content":[{"type":"input_text","text":"\\u0068i"}]}],"stream" : false,"store":false,'
            b'"reasoning":{"effort":"low"},"stream_options":{"include_obfuscation":false},"another":1.50}'
        )
        assert (request.path, request.header("authorization")) == ("/v1/responses", "Bearer sk-up-one")
        assert request.header("openai-beta") is None
        assert answer.headers["x-gateway-dropped-params"] == "store, api_base"
        assert answer.headers["x-gateway-adjusted-params"] == "max_output_tokens=4096"

    async def test_an_answer_keeps_its_bytes(self, at: Scene) -> None:
        given = b'{"id": "resp_9", "object":"response","status":"completed","model":"up","output":[{"type":"x","y":"\\u0048i"}],'
        usage = b'"usage":{"input_tokens":10,"output_tokens":20,"cost":7}, "service_tier":"default","temperature":1.50}'
        at.models.acts["native-one"] = refuses(200, given + usage)
        assert (await ask(at, "native")).content == (
            given.replace(b'"up"', b'"native"')
            + b'"usage":{"input_tokens":10,"output_tokens":20,"estimated_cost":0.0005}, "service_tier":"default",'
            + b'"temperature":1.50}'
        )

    async def test_events_keep_their_bytes(self, at: Scene) -> None:
        later = b'event: response.of_another_day\ndata: {"type":"response.of_another_day", "sequence_number":8,"x": 1.50}\n\n'
        middle = b"".join(item(0, HELLO, 2))
        at.models.acts["native-one"] = streams(*begins(), middle, later, event("keepalive", 9), ends(10), DONE, ends(11))
        answer = await ask(at, "native", stream=True)
        assert middle + later in answer.content
        assert b"keepalive" not in answer.content
        assert b"[DONE]" not in answer.content
        assert joined(answer.content)["output"] == [HELLO]

    @pytest.mark.parametrize("end", [b"\n", b"\r\n", b"\r"], ids=["lf", "crlf", "cr"])
    async def test_any_framing_will_do(self, end: bytes, at: Scene) -> None:
        whole = b": hi\n\n" + b"".join(stream())
        at.models.acts["native-one"] = streams(*(bytes([byte]) for byte in whole.replace(b"\n", end)))
        assert joined((await ask(at, "native", stream=True)).content)["output"] == [HELLO]

    @both_forms
    @pytest.mark.parametrize("reason", ["max_output_tokens", "content_filter"])
    async def test_one_that_is_cut_short_is_an_answer(self, reason: str, streamed_too: bool, at: Scene) -> None:
        why = {"reason": reason}
        at.models.acts["native-one"] = (
            streams(*stream(kind="incomplete", incomplete_details=why))
            if streamed_too
            else refuses(200, encode(response(status="incomplete", incomplete_details=why)))
        )
        found = told(await ask(at, "native", stream=streamed_too))
        assert (found["status"], found["incomplete_details"]) == ("incomplete", why)

    async def test_an_alias_and_a_list_of_models_are_heard(self, at: Scene) -> None:
        answer = await at.ask(path=ROUTE, models=["by-alias", "second"])
        assert told(answer)["model"] == "by-alias"
        assert not {"models", "fail_fast"} & sent(at)[1].keys()


class TestTiers:
    @both_forms
    async def test_the_tier_is_asked_for_and_named(self, streamed_too: bool, at: Scene) -> None:
        at.models.acts["native-one"] = says(service_tier="priority")
        answer = await ask(at, "native", stream=streamed_too, service_tier="priority")
        assert told(answer)["service_tier"] == answer.headers["x-gateway-service-tier"] == "priority"
        assert sent(at)[1]["service_tier"] == "priority"
        assert (await at.run.rows())[0]["tier_served"] == "priority"

    @both_forms
    async def test_a_lower_one_is_named_and_billed(self, streamed_too: bool, at: Scene) -> None:
        found = told(await ask(at, "native", stream=streamed_too, service_tier="priority"))
        assert (found["service_tier"], found["usage"]["estimated_cost"]) == ("default", COST)
        row = (await at.run.rows())[0]
        assert (row["tier_served"], row["cost_micro_usd"]) == ("default", COST * 1e6)

    @pytest.mark.parametrize(
        ("prefix", "tier"),
        [("/v1", "default"), ("/deepinfra/v1", "default"), ("/v1/openai", "default"), ("/nebius/v1", "default")],
    )
    async def test_every_prefix_has_it(self, prefix: str, tier: str, at: Scene) -> None:
        answer = await at.ask(path=f"{prefix}/responses", model="native")
        assert (told(answer)["output"], answer.headers["x-gateway-service-tier"]) == ([HELLO], tier)
        bound = {"max_output_tokens": 4096} if prefix == "/nebius/v1" else {}
        assert {name: value for name, value in sent(at)[1].items() if "max" in name} == bound


class TestWhatIsKept:
    @pytest.mark.parametrize(
        "field",
        [{"previous_response_id": "resp_1"}, {"conversation": "conv_1"}, {"input": [{"type": "item_reference", "id": "msg_1"}]}],
    )
    async def test_only_a_provider_that_may_keep_answers_is_asked_for_them(self, field: dict[str, Any], at: Scene) -> None:
        answer = await ask(at, "kept", **field)
        assert (answer.headers["x-gateway-provider"], answer.status_code) == ("keeps", 200)
        assert field.items() <= sent(at)[1].items()
        assert "store" not in sent(at)[1]
        error = refused(await ask(at, "native", **field), 400, "unsupported_parameter")
        assert error["param"] == next(iter(field))
        assert "'native'" in error["message"]

    async def test_nothing_is_kept_elsewhere_unasked(self, at: Scene) -> None:
        await ask(at, "native")
        assert sent(at)[1]["store"] is False

    async def test_nothing_runs_in_the_background(self, at: Scene) -> None:
        assert refused(await ask(at, "kept", background=True), 400, "unsupported_parameter")["param"] == "background"
        assert (await ask(at, "kept", background=False)).status_code == 200


class TestRefusals:
    @both_forms
    async def test_nothing_is_translated(self, streamed_too: bool, at: Scene) -> None:
        error = refused(await ask(at, "chat", stream=streamed_too), 400, "unsupported_parameter")
        assert (error["message"], error["param"]) == ("The model 'chat' does not serve responses", "model")
        assert not at.models.asked
        assert told(await ask(at, "either", stream=streamed_too))["model"] == "either"
        assert at.models.asked == ["either-one"]

    @pytest.mark.parametrize(
        ("fields", "status", "code", "param"),
        [
            ({"input": ...}, 422, "missing_required_parameter", "input"),
            ({"input": []}, 422, "out_of_range", "input"),
            ({"input": [7]}, 422, "invalid_type", "input.0"),
            ({"input": [{"role": 7}]}, 422, "invalid_type", "input.0.role"),
            ({"input": 7}, 422, "invalid_type", "input"),
            ({"max_output_tokens": 0}, 422, "out_of_range", "max_output_tokens"),
            ({"temperature": 3}, 422, "out_of_range", "temperature"),
            ({"service_tier": "golden"}, 422, "out_of_range", "service_tier"),
            ({"model": "unknown"}, 404, "model_not_found", "model"),
            ({"model": "poor", "tools": [TOOL]}, 400, "unsupported_parameter", "tools"),
            ({"model": "poor", "top_logprobs": 1}, 400, "unsupported_parameter", "top_logprobs"),
        ],
    )
    async def test_of_what_is_asked(self, fields: dict[str, Any], status: int, code: str, param: str, at: Scene) -> None:
        assert refused(await at.ask(path=ROUTE, **{"model": "native", **fields}), status, code)["param"] == param
        assert not at.models.asked

    async def test_of_who_asks(self, at: Scene) -> None:
        refused(await ask(at, "native", key="sk-test-secret-of-nobody"), 401, "invalid_api_key")
        refused(await ask(at, "native", key="sk-test-secret-of-broke"), 402, "insufficient_quota")
        assert (await ask(at, "native", key="sk-test-secret-of-limited")).status_code == 200
        limited = await ask(at, "native", key="sk-test-secret-of-limited")
        refused(limited, 429, "rate_limit_exceeded")
        assert int(limited.headers["retry-after"]) > 0

    async def test_the_bound_of_the_output_is_held(self, at: Scene) -> None:
        small = "sk-test-secret-of-small"
        refused(await ask(at, "native", max_output_tokens=600, key=small), 429, "rate_limit_exceeded")
        refused(await ask(at, "native", instructions="x" * 2000, max_output_tokens=16, key=small), 429, "rate_limit_exceeded")
        assert (await ask(at, "native", max_output_tokens=400, key=small)).status_code == 200

    @both_forms
    @pytest.mark.parametrize(
        ("act", "status", "code"),
        [
            (refuses(400, openai.error("Too odd", code="too_odd", param="input")), 400, "too_odd"),
            (refuses(401, openai.error("No")), 502, "upstream_auth_error"),
            (refuses(429, BUSY), 429, "engine_overloaded"),
            (refuses(503), 429, "engine_overloaded"),
            (refuses(500), 502, "upstream_unavailable"),
            (refuses(200, b"{}"), 502, "upstream_bad_response"),
            (refuses(200, encode(response(status="queued"))), 502, "upstream_bad_response"),
            (
                refuses(200, encode(response(status="failed", error={"code": "server_is_overloaded", "message": ""}))),
                429,
                "engine_overloaded",
            ),
        ],
    )
    async def test_of_providers(self, act: Script, status: int, code: str, streamed_too: bool, at: Scene) -> None:
        at.models.acts["native-one"] = act
        refused(await ask(at, "native", stream=streamed_too, fail_fast=True), status, code)

    async def test_of_time(self, at: Scene) -> None:
        at.models.acts["native-one"] = silence
        refused(await ask(at, "native", stream=True), 504, "upstream_timeout")


def failing(code: str, *, kind: str = "response.failed") -> bytes:
    error = {"code": code, "message": "secret words"}
    told = {"response": response(status="failed", error=error, output=[])} if kind == "response.failed" else error
    return event(kind, 2, **told)


class TestFallback:
    @both_forms
    async def test_another_deployment_stands_in(self, streamed_too: bool, at: Scene) -> None:
        at.models.acts["twice-one"] = refuses(429, BUSY)
        answer = await ask(at, "twice", stream=streamed_too)
        assert told(answer)["output"] == [HELLO]
        assert answer.headers["x-gateway-attempts"] == "twice;429, twice;200"

    @both_forms
    async def test_another_model_stands_in(self, streamed_too: bool, at: Scene) -> None:
        at.models.acts["first-one"] = refuses(429, BUSY)
        answer = await ask(at, "first", stream=streamed_too)
        assert told(answer)["model"] == answer.headers["x-gateway-model"] == "second"

    async def test_a_model_without_responses_is_no_fallback_for_one_of_the_clients(self, at: Scene) -> None:
        refused(await at.ask(path=ROUTE, models=["native", "chat"]), 400, "unsupported_parameter")

    @pytest.mark.parametrize(
        "act",
        [
            streams(*begins(), failing("server_error")),
            streams(*begins(), failing("rate_limit_exceeded", kind="error")),
            streams(failing("server_is_overloaded", kind="error")),
            streams(b'data: {"error":{"code":"server_error","message":""}}\n\n'),
            streams(*begins(), event("response.failed", 2, response=response(status="failed", output=[]))),
            streams(*begins(), *item(0, HELLO, 2)[:2]),
            streams(*begins(), *item(0, thought("Hm"), 2)[:1], then=Call.close),
            streams(*begins(), DONE),
            streams(b'event: response.completed\ndata: {"type":"response.completed"}\n\n'),
            refuses(200, b"<html>"),
        ],
        ids=["failed", "error", "error first", "plain", "no reason", "ends", "cut", "done", "no response", "no stream"],
    )
    async def test_before_the_first_word_a_stream_may_still_move(self, act: Script, at: Scene) -> None:
        at.models.acts["twice-one"] = act
        answer = await ask(at, "twice", stream=True)
        assert joined(answer.content)["output"] == [HELLO]
        assert at.models.asked == ["twice-one", "twice-two"]

    async def test_a_refusal_of_the_request_is_told(self, at: Scene) -> None:
        at.models.acts["twice-one"] = streams(
            *begins(),
            event("response.failed", 2, response=response(status="failed", error={"code": "content_filter", "message": "No"})),
        )
        refused(await ask(at, "twice", stream=True), 400, "content_filter")

    async def test_an_empty_answer_is_one(self, at: Scene) -> None:
        at.models.acts["twice-one"] = streams(*begins(), event("response.completed", 2, response={**response(), "output": []}))
        assert joined((await ask(at, "twice", stream=True)).content)["output"] == []
        assert at.models.asked == ["twice-one"]


class TestCuts:
    @pytest.mark.parametrize(
        ("tail", "then"),
        [(b"", Call.close), (b"", Call.end), (DONE, Call.end), (failing("server_error"), Call.end), (b"data: {\n\n", Call.end)],
        ids=["cut", "ended", "done", "failed", "garbled"],
    )
    async def test_after_the_first_word_an_error_is_the_last_event(self, tail: bytes, then: Any, at: Scene) -> None:
        at.models.acts["native-one"] = streams(*begins(), *item(0, HELLO, 2)[:4], tail, then=then)
        access = Access(at.run)
        answer = await ask(at, "native", stream=True)
        found = events(answer.content)
        assert said(found) == "Hello"
        assert "secret" not in answer.text
        last = found[-1]
        assert last["error"].items() >= {name: last[name] for name in ("code", "message", "param")}.items()
        assert (last["type"], last["code"], last["sequence_number"]) == (
            "error",
            "stream_interrupted",
            found[-2]["sequence_number"] + 1,
        )
        assert (await access.only())["outcome"] == "interrupted"
        row = (await at.run.rows())[0]
        assert (row["output_tokens"], row["estimated"]) == (2, True)

    async def test_a_silence_is_an_error_too(self, at: Scene) -> None:
        async def stalls(call: Call) -> None:
            call.head(200, SSE, chunked=True)
            call.piece(b"".join([*begins(), *item(0, HELLO, 2)[:4]]))
            await call.gone.wait()

        at.models.acts["native-one"] = stalls
        last = events((await ask(at, "native", stream=True)).content)[-1]
        assert (last["type"], last["code"]) == ("error", "upstream_timeout")

    async def test_behind_a_comment_an_error_is_an_event(self, at: Scene) -> None:
        at.models.acts["native-one"] = silence
        answer = await ask(at, "native", stream=True, key="sk-test-secret-of-kept")
        comments, _, last = answer.content.rpartition(b": keep-alive\n\n")
        assert comments.replace(b": keep-alive\n\n", b"") == b""
        assert [(each["code"], each["sequence_number"]) for each in events(last)] == [("upstream_timeout", 0)]

    @pytest.mark.parametrize("first", [[], item(0, HELLO, 2)[:4]], ids=["before", "after"])
    async def test_keepalives_are_no_progress(self, first: list[bytes], at: Scene) -> None:
        async def pings(call: Call) -> None:
            call.head(200, SSE, chunked=True)
            call.piece(b"".join([*begins(), *first]))
            while not call.gone.is_set():
                call.piece(event("keepalive", 7))
                await asyncio.sleep(0.02)

        at.models.acts["native-one"] = pings
        answer = await ask(at, "native", stream=True)
        if first:
            assert events(answer.content)[-1]["code"] == "upstream_timeout"
        else:
            refused(answer, 504, "upstream_timeout")

    async def test_who_leaves_pays_for_what_was_said(self, at: Scene) -> None:
        async def says_on(call: Call) -> None:
            call.head(200, SSE, chunked=True)
            call.piece(b"".join([*begins(), *item(0, HELLO, 2)[:4]]))
            await call.gone.wait()

        at.models.acts["native-one"] = says_on
        body = {"model": "native", "input": "hi", "stream": True}
        async with at.run.client.stream("POST", ROUTE, json=body) as answer:
            assert await anext(answer.aiter_bytes())
        row = (await at.run.rows())[0]
        assert (row["outcome"], row["output_tokens"], row["estimated"]) == ("cancelled", 2, True)
        assert await at.run.leases() == 0


@both_forms
async def test_an_answer_without_usage_is_estimated(streamed_too: bool, at: Scene) -> None:
    at.models.acts["native-one"] = says(text("Hello"), usage=None)
    assert told(await ask(at, "native", stream=streamed_too))["usage"] is None
    row = (await at.run.rows())[0]
    assert (row["outcome"], row["output_tokens"], row["estimated"]) == ("ok", 2, True)


async def test_a_key_is_authorized_by_its_header(at: Scene) -> None:
    answer = await at.run.client.post(ROUTE, json={"model": "native", "input": "hi"}, headers=bearer("sk-test-secret-of-kept"))
    assert told(answer)["output"] == [HELLO]
