"""Providers that speak otherwise than OpenAI, through the running gateway: clients cannot tell, and neither can the books."""

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import httpx
import msgspec
import pytest
import pytest_asyncio

from tests.fakes import openai
from tests.fakes.anthropic import (
    HELLO,
    Both,
    begins,
    block,
    ends,
    error,
    event,
    failing,
    message,
    says,
    stream,
    streamed,
    text,
)
from tests.fakes.http_server import Call, Request, Script
from tests.fakes.openai import BUSY, DONE, SSE, refuses
from tests.integration.access import Access
from tests.integration.fallback.chain import FORGIVING
from tests.integration.scene import Scene, scene
from tests.running import config
from tests.unit.providers.messages import chunks, joined
from tests.valkey import Valkey

pytestmark = pytest.mark.asyncio(loop_scope="module")

PRICE = {"input": 10, "cached_input": 1, "output": 20}
TIERS = {"default": "standard_only", "priority": "auto"}
VERSION = "2024-10-21"

ROUTE = "/v1/chat/completions"
TOOL = {"type": "function", "function": {"name": "weather", "description": "Tell it", "parameters": {"type": "object"}}}
CALL = {"type": "tool_use", "id": "toolu_1", "name": "weather", "input": {"city": "Rome"}}


def model(name: str, *providers: str, **fields: Any) -> dict[str, Any]:
    deployments = [{"provider": each, "model": f"up-{name}-{each}", "order": place} for place, each in enumerate(providers, 1)]
    return {"deployments": deployments, "price": PRICE, **fields}


def settings() -> dict[str, Any]:
    """`claude` speaks Anthropic's, `gpt` Azure's, `plain` OpenAI's own; `there` and `back` are at both of two."""
    models = {
        "c": model("c", "claude", max_output_tokens=4096),
        "p": model("p", "plain"),
        "z": model("z", "gpt"),
        "there": model("there", "claude", "plain"),
        "back": model("back", "plain", "claude"),
    }
    found = config(dict.fromkeys(("claude", "gpt", "plain"), "{upstream}"), models, breaker=FORGIVING)
    providers = found["providers"]
    providers["claude"] |= {"dialect": "anthropic", "endpoints": ["chat"], "tiers": TIERS}
    providers["plain"] |= {"endpoints": ["chat"]}
    providers["gpt"] |= {"dialect": "azure", "base_url": "{upstream}/openai", "api_version": VERSION}
    return found


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def shared(valkey_server: Valkey, tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Scene]:
    async with scene(Both(), settings(), valkey_server, tmp_path_factory.mktemp("dialects")) as found:
        yield found


@pytest_asyncio.fixture(loop_scope="module")
async def at(shared: Scene) -> AsyncIterator[Scene]:
    yield shared
    await shared.rest()


def sent(at: Scene) -> tuple[Request, dict[str, Any]]:
    """Return the last request that a provider got, and its body."""
    request = at.server.requests[-1]
    return request, msgspec.json.decode(request.body)


async def told(at: Scene, name: str, **fields: Any) -> dict[str, Any]:
    """Return what a client makes of an answer: whole, or joined from its chunks."""
    answer = await at.ask(model=name, **fields)
    assert answer.status_code == 200, answer.text
    if fields.get("stream"):
        assert answer.text.count("data: [DONE]\n\n") == answer.text.endswith("data: [DONE]\n\n") == 1
        return joined(answer.content.removesuffix(DONE))
    [choice] = answer.json()["choices"]
    said = choice["message"]
    calls = [{"id": call["id"], **call["function"]} for call in said.get("tool_calls") or ()]
    found = {"content": said["content"] or "", "reasoning_content": said.get("reasoning_content", ""), "tool_calls": calls}
    return {**found, "finish": choice["finish_reason"], "usage": answer.json()["usage"]}


def same(usage: dict[str, Any]) -> dict[str, Any]:
    return {name: usage[name] for name in ("prompt_tokens", "completion_tokens", "total_tokens", "estimated_cost")}


STREAMED: dict[str, Any] = {"stream": True, "stream_options": {"include_usage": True}}


@pytest.mark.parametrize("fields", [{}, STREAMED], ids=["whole", "streamed"])
async def test_a_client_cannot_tell_who_speaks_what(fields: dict[str, Any], at: Scene) -> None:
    found = [await told(at, name, **fields) for name in ("p", "c", "z", "there")]
    assert [one["content"] for one in found] == ["Hello"] * 4
    assert [(one["finish"], one["tool_calls"]) for one in found] == [("stop", [])] * 4
    assert [same(one["usage"]) for one in found] == [same(found[0]["usage"])] * 4


async def test_answers_have_the_members_of_openais(at: Scene) -> None:
    whole = (await at.ask(model="c")).json()
    assert whole["id"] == "chatcmpl-msg_1"
    assert (whole["object"], whole["model"], whole["service_tier"]) == ("chat.completion", "c", "default")
    assert whole["created"] > 1_700_000_000
    assert whole["system_fingerprint"].startswith("fp_")
    parts = chunks((await at.ask(model="c", stream=True)).content.removesuffix(DONE))
    heads = [{name: value for name, value in part.items() if name != "choices"} for part in parts]
    assert heads == [heads[0]] * len(parts)
    assert heads[0]["object"] == "chat.completion.chunk"
    assert heads[0]["system_fingerprint"] == whole["system_fingerprint"]
    assert parts[0]["choices"][0]["delta"]["role"] == "assistant"


async def test_what_the_provider_gets_is_its_own(at: Scene) -> None:
    answer = await at.ask(
        model="c",
        messages=[{"role": "system", "content": "Be brief"}, {"role": "user", "content": "Hi"}],
        temperature=2,
        stop="END",
        seed=5,
    )
    request, body = sent(at)
    assert request.path == "/v1/messages"
    assert (request.header("x-api-key"), request.header("authorization")) == ("sk-up-claude", None)
    assert request.header("anthropic-version") == "2023-06-01"
    assert body == {
        "model": "up-c-claude",
        "max_tokens": 4096,
        "system": [text("Be brief")],
        "messages": [{"role": "user", "content": [text("Hi")]}],
        "stop_sequences": ["END"],
        "service_tier": "standard_only",
    }
    assert answer.headers["x-gateway-adjusted-params"] == "max_tokens=4096, temperature=1"
    assert answer.headers["x-gateway-dropped-params"] == "seed"


@pytest.mark.parametrize("fields", [{}, STREAMED], ids=["whole", "streamed"])
async def test_tools_go_there_and_back(fields: dict[str, Any], at: Scene) -> None:
    asked = {"role": "user", "content": "Weather in Rome?"}
    at.models.acts["c-claude"] = says(text("Let me see."), CALL, stop_reason="tool_use")
    found = await told(at, "c", messages=[asked], tools=[TOOL], tool_choice="required", **fields)
    assert (found["finish"], found["content"]) == ("tool_calls", "Let me see.")
    [call] = found["tool_calls"]
    assert call == {"id": "toolu_1", "name": "weather", "arguments": '{"city":"Rome"}'}
    body = sent(at)[1]
    assert body["tools"] == [{"name": "weather", "description": "Tell it", "input_schema": {"type": "object"}}]
    assert body["tool_choice"] == {"type": "any"}
    at.models.acts["c-claude"] = says(text("Sunny."))
    called = {"id": call["id"], "type": "function", "function": {"name": call["name"], "arguments": call["arguments"]}}
    turn = {"role": "assistant", "content": found["content"], "tool_calls": [called]}
    result = {"role": "tool", "tool_call_id": call["id"], "content": "sunny"}
    found = await told(at, "c", messages=[asked, turn, result], tools=[TOOL], **fields)
    assert (found["finish"], found["content"]) == ("stop", "Sunny.")
    assert sent(at)[1]["messages"][1:] == [
        {"role": "assistant", "content": [text("Let me see."), CALL]},
        {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "toolu_1", "content": [text("sunny")]}]},
    ]


@pytest.mark.parametrize("fields", [{}, STREAMED], ids=["whole", "streamed"])
async def test_thoughts_come_beside_the_answer(fields: dict[str, Any], at: Scene) -> None:
    at.models.acts["c-claude"] = says({"type": "thinking", "thinking": "Hm.", "signature": "s"}, HELLO)
    found = await told(at, "c", reasoning_effort="high", **fields)
    assert (found["reasoning_content"], found["content"]) == ("Hm.", "Hello")
    assert sent(at)[1]["thinking"] == {"type": "enabled", "budget_tokens": 3276}


async def test_any_split_of_a_stream_is_the_same_answer(at: Scene) -> None:
    whole = stream({"type": "thinking", "thinking": "H\u00e9"}, HELLO, CALL, stop_reason="tool_use")
    expected = await relayed(at, streamed(whole))
    assert b"[DONE]" in expected
    for width in (1, 7, 64, 1_000):
        pieces = [whole[place : place + width] for place in range(0, len(whole), width)]
        assert await relayed(at, streamed(*pieces)) == expected
    for end in (b"\r\n", b"\r"):
        assert await relayed(at, streamed(whole.replace(b"\n", end))) == expected


async def relayed(at: Scene, script: Script) -> bytes:
    at.models.acts["c-claude"] = script
    answer = await at.ask(model="c", **STREAMED)
    created = chunks(answer.content.removesuffix(DONE))[0]["created"]
    return answer.content.replace(b'"created":%d' % created, b'"created":0')


FAULTS: dict[str, tuple[Script, Script, str]] = {
    "overloaded": (refuses(529, error("overloaded_error")), refuses(503, BUSY), "busy"),
    "rate": (refuses(429, error("rate_limit_error")), refuses(429), "account_rate"),
    "server": (refuses(500, error("api_error")), refuses(500), "server"),
    "timeout": (refuses(504, error("timeout_error")), refuses(504), "upstream_timeout"),
    "credential": (refuses(401, error("authentication_error")), refuses(401), "credential"),
    "permission": (refuses(403, error("permission_error")), refuses(403), "credential"),
    "credit": (refuses(402, error("billing_error")), refuses(402), "billing"),
    "model": (refuses(404, error("not_found_error", "model: up-there")), refuses(404), "stale_model"),
    "inside": (refuses(200, error("overloaded_error")), refuses(200, BUSY), "busy"),
    "nothing": (refuses(200, b"{}"), refuses(200, b"{}"), "bad_answer"),
}


@pytest.mark.parametrize("fault", FAULTS)
@pytest.mark.parametrize("fields", [{}, STREAMED], ids=["whole", "streamed"])
async def test_one_dialect_stands_in_for_the_other(fault: str, fields: dict[str, Any], at: Scene) -> None:
    claude, plain, name = FAULTS[fault]
    at.models.acts |= {"there-claude": claude, "back-plain": plain}
    for asked, first, second in (("there", "claude", "plain"), ("back", "plain", "claude")):
        access = Access(at.run)
        assert (await told(at, asked, **fields))["content"] == "Hello"
        assert at.models.asked[-2:] == [f"{asked}-{first}", f"{asked}-{second}"]
        attempts = (await access.only())["attempts"]
        assert [(one["provider"], one["outcome"]) for one in attempts] == [(first, name), (second, "ok")]


@pytest.mark.parametrize("kind", ["overloaded_error", "rate_limit_error", "api_error"])
@pytest.mark.parametrize("before", [b"", begins(), begins() + event("ping")], ids=["first", "begun", "pinged"])
async def test_an_error_before_any_content_turns_the_walk_on(kind: str, before: bytes, at: Scene) -> None:
    at.models.acts["there-claude"] = streamed(before + failing(kind))
    assert (await told(at, "there", **STREAMED))["content"] == "Hello"
    assert at.models.asked == ["there-claude", "there-plain"]


async def test_a_stream_that_says_nothing_turns_the_walk_on(at: Scene) -> None:
    at.models.acts["there-claude"] = streamed(begins() + event("message_stop"))
    assert (await told(at, "there", **STREAMED))["content"] == "Hello"


@pytest.mark.parametrize("fields", [{}, STREAMED], ids=["whole", "streamed"])
async def test_a_refusal_of_the_request_is_told_and_nobody_else_is_asked(fields: dict[str, Any], at: Scene) -> None:
    words = "messages.0.content: up-there-claude does not take this"
    at.models.acts["there-claude"] = refuses(400, error("invalid_request_error", words))
    answer = await at.ask(model="there", **fields)
    assert (answer.status_code, at.models.asked) == (400, ["there-claude"])
    assert answer.json()["error"]["message"] == "messages.0.content: [redacted] does not take this"
    at.models.acts["there-claude"] = refuses(400, error("invalid_request_error", "prompt is too long: 12 tokens > 10 maximum"))
    answer = await at.ask(model="there", **fields)
    assert (answer.status_code, answer.json()["error"]["code"]) == (400, "context_length_exceeded")


@pytest.mark.parametrize(
    ("asked", "field"),
    [({"n": 2}, "n"), ({"logprobs": True}, "logprobs"), ({"response_format": {"type": "json_object"}}, "response_format")],
)
async def test_what_a_dialect_cannot_say_is_said_by_another_or_refused(asked: dict[str, Any], field: str, at: Scene) -> None:
    answer = await at.ask(model="c", **asked)
    assert (answer.status_code, answer.json()["error"]["param"]) == (400, field)
    assert answer.json()["error"]["code"] == "unsupported_parameter"
    assert at.models.asked == []
    choices = [
        {"index": place, "message": {"role": "assistant", "content": "Hello"}, "finish_reason": "stop"} for place in (0, 1)
    ]
    at.models.acts["there-plain"] = openai.answers(choices=choices)
    assert (await at.ask(model="there", **asked)).status_code == 200
    assert at.models.asked == ["there-plain"]


@pytest.mark.parametrize(
    ("rest", "input_tokens", "output_tokens", "estimated"),
    [
        pytest.param(b"", 10, 2, True, id="cut"),
        pytest.param(failing("api_error"), 10, 2, True, id="error"),
        pytest.param(ends(input_tokens=12).removesuffix(event("message_stop")), 12, 20, False, id="told, and cut"),
    ],
)
async def test_a_stream_that_breaks_ends_in_an_error(
    rest: bytes, input_tokens: int, output_tokens: int, estimated: bool, at: Scene
) -> None:
    at.models.acts["c-claude"] = streamed(begins() + block(0, HELLO) + rest)
    answer = await at.ask(model="c", **STREAMED)
    *said, last = chunks(answer.content)
    assert "".join(choice["delta"].get("content", "") for part in said for choice in part["choices"]) == "Hello"
    assert last["error"]["code"] == "stream_interrupted"
    assert b"[DONE]" not in answer.content
    row = (await at.run.rows())[0]
    assert (row["outcome"], row["estimated"]) == ("interrupted", estimated)
    assert (row["input_tokens"], row["output_tokens"]) == (input_tokens, output_tokens)


@pytest.mark.parametrize("fields", [{}, STREAMED], ids=["whole", "streamed"])
async def test_the_ledger_has_what_was_used(fields: dict[str, Any], at: Scene) -> None:
    usage = {"input_tokens": 3, "cache_creation_input_tokens": 7, "cache_read_input_tokens": 90, "output_tokens": 20}
    thought: dict[str, Any] = {"output_tokens_details": {"thinking_tokens": 5}}
    script = refuses(200, message(usage={**usage, **thought}))
    if fields:
        script = streamed(begins(**{**usage, "output_tokens": 1}) + block(0, HELLO) + ends(**thought))
    at.models.acts["c-claude"] = script
    await told(at, "c", **fields)
    row = (await at.run.rows())[0]
    assert (row["outcome"], row["provider"], row["estimated"]) == ("ok", "claude", False)
    assert (row["input_tokens"], row["cached_tokens"], row["output_tokens"], row["reasoning_tokens"]) == (100, 90, 20, 5)
    assert row["cost_micro_usd"] == 10 * 10 + 90 * 1 + 20 * 20


@pytest.mark.parametrize(("word", "tier", "factor"), [("priority", "priority", 1.5), ("standard", "default", 1)])
@pytest.mark.parametrize("fields", [{}, STREAMED], ids=["whole", "streamed"])
async def test_the_tier_that_served_is_shown_and_charged(
    word: str, tier: str, factor: float, fields: dict[str, Any], at: Scene
) -> None:
    script = refuses(200, message(usage={"input_tokens": 10, "output_tokens": 20, "service_tier": word}))
    if fields:
        script = streamed(begins(service_tier=word) + block(0, HELLO) + ends())
    at.models.acts["c-claude"] = script
    answer = await at.ask(model="c", service_tier="priority", **fields)
    assert sent(at)[1]["service_tier"] == "auto"
    assert f'"service_tier":"{tier}"' in answer.text
    row = (await at.run.rows())[0]
    assert (row["tier_served"], row["cost_micro_usd"]) == (tier, factor * (10 * 10 + 20 * 20))


async def test_an_account_that_has_nothing_left_is_not_asked(valkey_server: Valkey, tmp_path: Path) -> None:
    spent = {
        "date": "Wed, 21 Oct 2026 07:28:00 GMT",
        "anthropic-ratelimit-requests-remaining": "0",
        "anthropic-ratelimit-requests-reset": "2026-10-21T07:29:00Z",
    }

    async def last(call: Call) -> None:
        call.reply(200, message(), [*openai.JSON, *spent.items()])

    # By its own keys in the store: what it learns is nothing that the others may know.
    patient = {**settings(), "breaker": {}, "redis": {"prefix": "resting"}}
    async with scene(Both(), patient, valkey_server, tmp_path) as own:
        own.models.acts["there-claude"] = last
        for _ in range(2):
            assert (await told(own, "there"))["content"] == "Hello"
            await own.run.settled()
        assert own.models.asked == ["there-claude", "there-plain"]


async def test_a_client_that_leaves_closes_the_stream(at: Scene) -> None:
    gone: list[bool] = []

    async def act(call: Call) -> None:
        call.head(200, SSE, chunked=True)
        call.piece(begins() + block(0, HELLO))
        await call.gone.wait()
        gone.append(True)
        at.server.notice()

    at.models.acts["c-claude"] = act
    body = {"model": "c", "messages": [{"role": "user", "content": "hi"}], "stream": True}
    async with at.run.client.stream("POST", ROUTE, json=body) as answer:
        async for piece in answer.aiter_bytes():
            if b'"lo' in piece or b"llo" in piece:
                break
    await at.server.until(lambda: bool(gone))
    row = (await at.run.rows())[0]
    assert (row["outcome"], row["estimated"], row["input_tokens"], row["output_tokens"]) == ("cancelled", True, 10, 2)


async def test_azure_is_asked_by_deployment(at: Scene) -> None:
    answer: httpx.Response = await at.ask(model="z", **STREAMED)
    assert answer.status_code == 200
    request, body = sent(at)
    assert request.path == f"/openai/deployments/up-z-gpt/chat/completions?api-version={VERSION}"
    assert (request.header("api-key"), request.header("authorization")) == ("sk-up-gpt", None)
    assert "model" not in body
    assert (await at.ask(model="z", path="/v1/completions")).status_code == 200
    assert sent(at)[0].path == f"/openai/deployments/up-z-gpt/completions?api-version={VERSION}"


AZURE_FAULTS = {
    "DeploymentNotFound": (404, "The API deployment for this resource does not exist", 502, "upstream_unavailable"),
    "401": (401, "Access denied due to invalid subscription key or wrong API endpoint.", 502, "upstream_auth_error"),
    "429": (429, "Requests have exceeded token rate limit. Please retry after 7 seconds.", 429, "engine_overloaded"),
    "NoCapacity": (429, "The system is currently experiencing high demand.", 429, "engine_overloaded"),
    "content_filter": (400, "The prompt triggered Azure OpenAI's content management policy.", 400, "content_filter"),
}


@pytest.mark.parametrize("code", AZURE_FAULTS)
async def test_azures_errors_are_of_their_class(code: str, at: Scene) -> None:
    status, words, told_status, told_code = AZURE_FAULTS[code]
    at.models.acts["z-gpt"] = refuses(status, openai.encode({"error": {"code": code, "message": words}}))
    answer = await at.ask(model="z", fail_fast=True)
    assert (answer.status_code, answer.json()["error"]["code"]) == (told_status, told_code)


async def refused_or_served(at: Scene, content: bytes) -> int:
    """Ask with this content; return the status, which is 400 for what is no JSON."""
    body = b'{"model":"c","messages":[{"role":"user","content":%b}]}' % content
    answer = await at.run.client.post(ROUTE, content=body, headers={"content-type": "application/json"})
    assert answer.status_code == 200 or answer.json()["error"]["code"] == "invalid_json"
    return answer.status_code


async def test_what_only_looked_like_json_is_the_clients_fault(at: Scene) -> None:
    assert await refused_or_served(at, b"[1e999]") == 400
    assert at.models.asked == []
    # How deep is too deep depends on where it is looked into: whatever the first look let pass is served or refused.
    statuses = [await refused_or_served(at, b"[" * depth + b"]" * depth) for depth in range(880, 1_000, 2)]
    assert set(statuses) == {200, 400}
    await at.run.settled()
    assert await at.run.leases() == 0


@pytest.mark.parametrize("name", ["p", "c"])
async def test_completions_are_made_of_chat_whoever_speaks(name: str, at: Scene) -> None:
    asked: dict[str, Any] = {"path": "/v1/completions", "model": name, "prompt": ["Hi", "Ho"], "echo": True}
    whole = (await at.ask(**asked)).json()
    assert [(choice["index"], choice["text"], choice["finish_reason"]) for choice in whole["choices"]] == [
        (0, "HiHello", "stop"),
        (1, "HoHello", "stop"),
    ]
    answer = await at.ask(**asked, **STREAMED)
    assert answer.content.endswith(DONE)
    *parts, usage = chunks(answer.content.removesuffix(DONE))
    said = ["".join(c["text"] for part in parts for c in part["choices"] if c["index"] == index) for index in (0, 1)]
    assert (said, usage["choices"]) == (["HiHello", "HoHello"], [])
    assert same(usage["usage"]) == same(whole["usage"])
    refused = await at.ask(path="/v1/completions", model=name, prompt="Hi", suffix="end")
    assert (refused.status_code, refused.json()["error"]["param"]) == (400, "suffix")
