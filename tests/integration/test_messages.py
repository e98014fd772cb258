"""`POST /v1/messages` through the running gateway, by providers that speak it and by providers that have chat alone."""

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import httpx
import msgspec
import pytest
import pytest_asyncio

from tests.fakes import openai
from tests.fakes.anthropic import HELLO, Both, begins, block, ends, error, event, failing, message, says, stream, streamed, text
from tests.fakes.http_server import Call, Request, Script
from tests.fakes.openai import BUSY, DONE, SSE, refuses, silence, streams
from tests.fakes.reading import events, joined
from tests.integration.access import Access
from tests.integration.fallback.chain import FORGIVING
from tests.integration.scene import Scene, bearer, scene
from tests.running import SECRET, config
from tests.valkey import Valkey

pytestmark = pytest.mark.asyncio(loop_scope="module")

ROUTE = "/v1/messages"
PRICE = {"input": 10, "cached_input": 1, "output": 20}
TIERS = {"default": "standard_only", "priority": "auto"}
TOOL = {"name": "weather", "description": "Tell it", "input_schema": {"type": "object", "properties": {"city": {}}}}
CALL = {"type": "tool_use", "id": "toolu_1", "name": "weather", "input": {"city": "Rome"}}
PIXEL = {"type": "base64", "media_type": "image/png", "data": "iVBORw0KGgo="}
COST = (10 * 10 + 20 * 20) / 1_000_000


def model(name: str, *providers: str, **fields: Any) -> dict[str, Any]:
    deployments = [{"provider": each, "model": f"up-{name}-{each}", "order": place} for place, each in enumerate(providers, 1)]
    return {"deployments": deployments, "price": PRICE, **fields}


def settings() -> dict[str, Any]:
    """`claude` speaks Messages, `plain` has chat, `vectors` neither; `both` is at the first two, `second` follows `first`."""
    fast = {"first_content": "200ms", "idle": "200ms", "total": "5s"}
    models = {
        "native": model("native", "claude", max_output_tokens=4096, timeouts=fast, aliases=["by-alias"]),
        "chat": model("chat", "plain", max_output_tokens=4096, timeouts=fast),
        "both": model("both", "plain", "claude"),
        "first": model("first", "claude", fallbacks=["second"]),
        "second": model("second", "plain"),
        "vectors": model("vectors", "vectors"),
        "untaught": model("untaught", "claude"),
        "toolless": model("toolless", "claude", capabilities={"tools": False, "stop": 1}),
    }
    found = config(dict.fromkeys(("claude", "plain", "vectors"), "{upstream}"), models, breaker=FORGIVING)
    providers = found["providers"]
    providers["claude"] |= {"dialect": "anthropic", "endpoints": ["chat"], "tiers": TIERS}
    providers["plain"] |= {"endpoints": ["chat"], "tiers": {"default": "default", "priority": "priority"}}
    providers["vectors"] |= {"endpoints": ["embeddings"]}
    keys = [
        {"name": "kept", "org": "acme", "secret": "sk-test-secret-of-kept", "keepalive": "50ms"},
        {"name": "counting", "org": "acme", "secret": "sk-test-secret-of-counting", "limits": {"rpd": 1}},
        {"name": "limited", "org": "acme", "secret": "sk-test-secret-of-limited", "limits": {"rpd": 1}},
        {"name": "broke", "org": "acme", "secret": "sk-test-secret-of-broke", "budget": {"usd": 0}},
        {"name": "elsewhere", "org": "acme", "secret": "sk-test-secret-of-elsewhere", "ips": ["203.0.113.0/24"]},
    ]
    return {**found, "keys": [*found["keys"], *keys], "limits": {"body": "64KiB"}}


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def shared(valkey_server: Valkey, tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Scene]:
    async with scene(Both(), settings(), valkey_server, tmp_path_factory.mktemp("messages")) as found:
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
    """Return what a client makes of an answer: whole, or joined from its events."""
    assert answer.status_code == 200, answer.text
    if answer.headers["content-type"].startswith("text/event-stream"):
        return joined(answer.content)
    found: dict[str, Any] = answer.json()
    return found


def refused(answer: httpx.Response, status: int, kind: str) -> str:
    """Hold an answer to Anthropic's shape of errors. Return what it says."""
    found = answer.json()
    assert (answer.status_code, found["type"], found["error"]["type"]) == (status, "error", kind), answer.text
    assert found["error"].keys() == {"type", "message"}
    assert found["request_id"] == answer.headers["request-id"] == answer.headers["x-request-id"]
    return str(found["error"]["message"])


both_forms = pytest.mark.parametrize("streamed_too", [False, True], ids=["whole", "streamed"])
by_both = pytest.mark.parametrize("name", ["native", "chat"])


class TestEitherWay:
    @both_forms
    @by_both
    async def test_a_client_cannot_tell_who_serves_it(self, name: str, streamed_too: bool, at: Scene) -> None:
        access = Access(at.run)
        answer = await ask(at, name, stream=streamed_too)
        found = told(answer)
        assert (found["type"], found["role"], found["model"], found["content"]) == ("message", "assistant", name, [HELLO])
        assert (found["stop_reason"], found["stop_sequence"]) == ("end_turn", None)
        usage = found["usage"]
        assert (usage["input_tokens"], usage["output_tokens"], usage["service_tier"]) == (10, 20, "standard")
        assert usage["estimated_cost"] == COST
        assert found["id"].startswith("msg_")
        assert answer.headers["x-gateway-model"] == name
        assert answer.headers["x-gateway-service-tier"] == "default"
        assert answer.headers["request-id"] == answer.headers["x-request-id"]
        line = await access.only()
        assert (line["route"], line["outcome"], line["input_tokens"], line["output_tokens"]) == (
            ROUTE,
            "ok",
            10,
            20,
        )

    @both_forms
    @by_both
    async def test_tools_are_called(self, name: str, streamed_too: bool, at: Scene) -> None:
        function = {"name": "weather", "arguments": '{"city":"Rome"}'}
        calls = [{"index": 0, "id": "toolu_1", "type": "function", "function": function}]
        said = {"role": "assistant", "content": None, "tool_calls": calls}
        halves = [
            openai.event({"tool_calls": [{"index": 0, "id": "toolu_1", "function": {"name": "weather", "arguments": '{"ci'}}]}),
            openai.event({"tool_calls": [{"index": 0, "function": {"arguments": 'ty":"Rome"}'}}]}),
        ]
        at.models.acts["native-claude"] = says(CALL, stop_reason="tool_use")
        at.models.acts["chat-plain"] = (
            streams(*halves, openai.event({}, "tool_calls"), DONE)
            if streamed_too
            else openai.answers(choices=[{"index": 0, "message": said, "finish_reason": "tool_calls"}])
        )
        answer = await ask(at, name, stream=streamed_too, tools=[TOOL], tool_choice={"type": "any"})
        found = told(answer)
        assert (found["content"], found["stop_reason"]) == ([CALL], "tool_use")

    @both_forms
    @by_both
    async def test_what_a_model_thinks_comes_first(self, name: str, streamed_too: bool, at: Scene) -> None:
        thought = {"type": "thinking", "thinking": "Hm", "signature": ""}
        at.models.acts["native-claude"] = says(thought, HELLO)
        whole = {"message": {"content": "Hello", "reasoning_content": "Hm"}, "finish_reason": "stop"}
        pieces = ({"reasoning_content": "H"}, {"reasoning_content": "m"}, {"content": "Hello"})
        at.models.acts["chat-plain"] = (
            streams(*map(openai.event, pieces), openai.event({}, "stop"), DONE)
            if streamed_too
            else openai.answers(choices=[whole])
        )
        assert told(await ask(at, name, stream=streamed_too))["content"] == [thought, HELLO]

    @both_forms
    @by_both
    async def test_the_tier_is_asked_for_and_named(self, name: str, streamed_too: bool, at: Scene) -> None:
        answer = await ask(at, name, stream=streamed_too, service_tier="priority")
        assert told(answer)["usage"]["service_tier"] == answer.headers["x-gateway-service-tier"] == "priority"
        assert sent(at)[1]["service_tier"] == {"native": "auto", "chat": "priority"}[name]

    @both_forms
    @by_both
    async def test_the_system_speaks_within_the_conversation(self, name: str, streamed_too: bool, at: Scene) -> None:
        said = [{"role": "user", "content": "hi"}, {"role": "system", "content": "Be brief"}]
        assert told(await ask(at, name, stream=streamed_too, messages=said))["content"] == [HELLO]
        assert sent(at)[1]["messages"] == said

    @by_both
    async def test_an_alias_and_a_list_of_models_are_heard(self, name: str, at: Scene) -> None:
        answer = await ask(at, ..., models=["by-alias", "chat"][:: 1 if name == "native" else -1], fail_fast=True)  # type: ignore[arg-type]
        assert told(answer)["model"] == {"native": "by-alias", "chat": "chat"}[name]
        assert not {"models", "fail_fast"} & sent(at)[1].keys()


class TestPassedThrough:
    async def test_the_clients_bytes_travel_but_for_what_the_gateway_decides(self, at: Scene) -> None:
        body = (
            b'{"model":"native", "max_tokens":5000,"service_tier":"auto","temperature":1.0,"fail_fast":true,'
            b'"system":[{"type":"text","text":"Be brief","cache_control":{"type":"ephemeral"}}],"stream" : false,'
            b'"messages":[{"role":"user","content":[{"type":"text","text":"\\u0068i"}]}],"container":1.50,"api_base":"x"}'
        )
        headers = {"anthropic-beta": "a-beta", "anthropic-version": "2099-01-01", "x-api-key": SECRET, "authorization": ""}
        answer = await at.run.client.post(ROUTE, content=body, headers={**headers, "content-type": "application/json"})
        assert answer.status_code == 200
        request, _ = sent(at)
        assert request.body == (
            b'{"model":"up-native-claude", "max_tokens":4096,"service_tier":"standard_only","temperature":1.0,'
            b'"system":[{"type":"text","text":"Be brief","cache_control":{"type":"ephemeral"}}],"stream" : false,'
            b'"messages":[{"role":"user","content":[{"type":"text","text":"\\u0068i"}]}],"container":1.50}'
        )
        assert (request.path, request.header("x-api-key")) == ("/v1/messages", "sk-up-claude")
        assert (request.header("anthropic-beta"), request.header("anthropic-version")) == (None, "2023-06-01")
        assert answer.headers["x-gateway-dropped-params"] == "api_base"
        assert answer.headers["x-gateway-adjusted-params"] == "max_tokens=4096"

    async def test_betas_leave_by_name_where_the_provider_allows_them(self, at: Scene) -> None:
        names = "claude-code-20250219, context-management-2025-06-27,oauth-2025-04-20", "interleaved-thinking-2025-05-14, x y"
        body = {
            "model": "native",
            "max_tokens": 9,
            "messages": [{"role": "user", "content": "a"}],
            "context_management": {"edits": []},
        }
        headers = [("anthropic-beta", value) for value in names]
        answer = await at.run.client.post(f"{ROUTE}?beta=true", json={**body, "mcp_servers": []}, headers=headers)
        assert answer.status_code == 200, answer.text
        request, found = sent(at)
        assert [value for name, value in request.headers if name.lower() == "anthropic-beta"] == [
            "claude-code-20250219,context-management-2025-06-27,interleaved-thinking-2025-05-14"
        ]
        assert (found["context_management"], "mcp_servers" in found) == ({"edits": []}, False)
        assert answer.headers["x-gateway-dropped-params"] == "mcp_servers"

    @pytest.mark.parametrize(("name", "path"), [("chat", ROUTE), ("native", "/v1/chat/completions")])
    async def test_chat_has_no_betas(self, name: str, path: str, at: Scene) -> None:
        body = {
            "model": name,
            "max_tokens": 9,
            "messages": [{"role": "user", "content": "a"}],
            "context_management": {"edits": []},
        }
        answer = await at.run.client.post(path, json=body, headers={"anthropic-beta": "context-management-2025-06-27"})
        request, found = sent(at)
        assert (answer.status_code, request.header("anthropic-beta"), "context_management" in found) == (200, None, False)
        assert answer.headers["x-gateway-dropped-params"] == "context_management"

    async def test_an_answer_keeps_its_bytes_but_for_the_model_and_the_usage(self, at: Scene) -> None:
        given = (
            b'{"id": "msg_9", "type":"message","role":"assistant", "model":"up","content":[{"type":"text","text":"\\u0048i"}],'
        )
        usage = b'"usage":{"input_tokens":10,"output_tokens":20,"service_tier":"standard","cost":7}, "stop_reason":"end_turn"}'
        at.models.acts["native-claude"] = refuses(200, given + usage)
        answer = await ask(at, "native")
        assert answer.content == (
            given.replace(b'"up"', b'"native"')
            + b'"usage":{"input_tokens":10,"output_tokens":20,"service_tier":"standard","estimated_cost":0.0005},'
            + b' "stop_reason":"end_turn"}'
        )

    async def test_a_stream_keeps_its_events(self, at: Scene) -> None:
        later = b'event: of_another_day\ndata: {"type":"of_another_day", "x": 1.50}\n\n'
        said = block(0, HELLO)
        at.models.acts["native-claude"] = streamed(begins(), event("ping"), said, later, event("ping"), ends())
        answer = await ask(at, "native", stream=True)
        assert said + later in answer.content
        assert b"ping" not in answer.content
        assert joined(answer.content.replace(later, b""))["content"] == [HELLO]

    async def test_a_lower_tier_than_asked_for_is_named_and_billed(self, at: Scene) -> None:
        at.models.acts["native-claude"] = refuses(
            200, message(usage={"input_tokens": 10, "output_tokens": 20, "service_tier": "standard"})
        )
        usage = told(await ask(at, "native", service_tier="priority"))["usage"]
        assert (usage["service_tier"], usage["estimated_cost"]) == ("standard", COST)

    @pytest.mark.parametrize("tail", [b"", event("message_stop") * 2, b"data: [DONE]\n\n"], ids=["none", "twice", "another"])
    async def test_one_end_ends_a_whole_stream(self, tail: bytes, at: Scene) -> None:
        whole = begins() + block(0, HELLO) + ends().removesuffix(event("message_stop"))
        at.models.acts["native-claude"] = streamed(whole + tail)
        assert joined((await ask(at, "native", stream=True)).content)["content"] == [HELLO]


class TestThroughChat:
    async def test_the_request_is_one_of_chat(self, at: Scene) -> None:
        turns = [
            {"role": "user", "content": [{"type": "image", "source": PIXEL}, text("What is it?")]},
            {"role": "assistant", "content": [{"type": "thinking", "thinking": "Hm", "signature": "s"}, text("Look:"), CALL]},
            {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "toolu_1", "content": "Sun"}, text("And?")]},
        ]
        answer = await ask(
            at,
            "chat",
            system=[text("Be brief")],
            messages=turns,
            tools=[TOOL],
            tool_choice={"type": "tool", "name": "weather", "disable_parallel_tool_use": True},
            stop_sequences=["END"],
            temperature=0.5,
            top_k=5,
            metadata={"user_id": "u"},
            thinking={"type": "adaptive"},
            context_management={"edits": []},
        )
        assert answer.status_code == 200
        request, body = sent(at)
        assert request.path == "/v1/chat/completions"
        assert body == {
            "model": "up-chat-plain",
            "messages": [
                {"role": "system", "content": "Be brief"},
                {
                    "role": "user",
                    "content": [
                        {"type": "image_url", "image_url": {"url": "data:image/png;base64,iVBORw0KGgo="}},
                        {"type": "text", "text": "What is it?"},
                    ],
                },
                {
                    "role": "assistant",
                    "content": "Look:",
                    "tool_calls": [
                        {"id": "toolu_1", "type": "function", "function": {"name": "weather", "arguments": '{"city":"Rome"}'}}
                    ],
                },
                {"role": "tool", "tool_call_id": "toolu_1", "content": "Sun"},
                {"role": "user", "content": "And?"},
            ],
            "stop": ["END"],
            "temperature": 0.5,
            "top_k": 5,
            "tools": [
                {
                    "type": "function",
                    "function": {"name": "weather", "description": "Tell it", "parameters": TOOL["input_schema"]},
                }
            ],
            "tool_choice": {"type": "function", "function": {"name": "weather"}},
            "parallel_tool_calls": False,
            "user": "u",
            "max_tokens": 64,
            "service_tier": "default",
        }
        assert answer.headers["x-gateway-dropped-params"] == "thinking, context_management"

    @pytest.mark.parametrize(
        ("fields", "named"),
        [
            ({"tools": [{"type": "web_search_20250305", "name": "web_search"}]}, "tools"),
            ({"tools": [TOOL], "tool_choice": {"type": "of_another_day"}}, "tool_choice"),
            ({"messages": [{"role": "user", "content": "a"}, {"role": "assistant", "content": "{"}]}, "messages.1.role"),
            (
                {"messages": [{"role": "user", "content": [{"type": "image", "source": {"type": "file", "file_id": "f"}}]}]},
                "messages.0.content.0",
            ),
        ],
    )
    async def test_what_chat_has_no_words_for_is_refused_by_name(self, fields: dict[str, Any], named: str, at: Scene) -> None:
        assert named in refused(await ask(at, "chat", **fields), 400, "invalid_request_error")
        assert not at.models.asked

    async def test_that_goes_where_it_can_be_said(self, at: Scene) -> None:
        search = [{"type": "web_search_20250305", "name": "web_search"}]
        answer = await ask(at, "both", tools=search)
        assert (answer.headers["x-gateway-provider"], sent(at)[1]["tools"]) == ("claude", search)


class TestFallback:
    @both_forms
    async def test_those_who_speak_messages_are_asked_first(self, streamed_too: bool, at: Scene) -> None:
        assert told(await ask(at, "both", stream=streamed_too))["content"] == [HELLO]
        assert at.models.asked == ["both-claude"]

    @both_forms
    async def test_chat_stands_in_within_a_model(self, streamed_too: bool, at: Scene) -> None:
        at.models.acts["both-claude"] = refuses(529, error("overloaded_error"))
        answer = await ask(at, "both", stream=streamed_too)
        assert told(answer)["content"] == [HELLO]
        assert at.models.asked == ["both-claude", "both-plain"]
        assert answer.headers["x-gateway-attempts"] == "both;529, both;200"

    @both_forms
    async def test_another_model_stands_in(self, streamed_too: bool, at: Scene) -> None:
        at.models.acts["first-claude"] = refuses(529, error("overloaded_error"))
        answer = await ask(at, "first", stream=streamed_too)
        assert told(answer)["model"] == answer.headers["x-gateway-model"] == "second"

    @pytest.mark.parametrize(
        "act",
        [
            streamed(begins(), event("ping"), failing("overloaded_error")),
            streamed(begins(), event("content_block_start", index=0, content_block=text(""))),
            streamed(begins(), then=Call.close),
            streamed(failing("overloaded_error")),
            refuses(200, b"<html>"),
        ],
        ids=["error", "ends", "cut", "error first", "no stream"],
    )
    async def test_before_the_first_word_a_stream_may_still_move(self, act: Script, at: Scene) -> None:
        at.models.acts["both-claude"] = act
        assert joined((await ask(at, "both", stream=True)).content)["content"] == [HELLO]
        assert at.models.asked == ["both-claude", "both-plain"]


class TestCuts:
    @by_both
    async def test_after_the_first_word_an_error_is_the_last_event(self, name: str, at: Scene) -> None:
        at.models.acts["native-claude"] = streamed(begins() + block(0, HELLO), then=Call.close)
        at.models.acts["chat-plain"] = streams(openai.event({"content": "Hello"}), then=Call.close)
        access = Access(at.run)
        answer = await ask(at, name, stream=True)
        assert answer.status_code == 200
        found = events(answer.content)
        assert [each["type"] for each in found].count("message_stop") == 0
        assert "Hello" in "".join(each["delta"].get("text", "") for each in found if each["type"] == "content_block_delta")
        last = found[-1]
        assert (last["type"], last["error"]["type"], last["request_id"]) == ("error", "api_error", answer.headers["request-id"])
        assert (await access.only())["outcome"] == "interrupted"

    @by_both
    async def test_a_silence_is_an_error_too(self, name: str, at: Scene) -> None:
        async def stalls(call: Call) -> None:
            call.head(200, SSE, chunked=True)
            call.piece(begins() + block(0, HELLO) if name == "native" else openai.event({"content": "Hello"}))
            await call.gone.wait()

        at.models.acts |= {"native-claude": stalls, "chat-plain": stalls}
        last = events((await ask(at, name, stream=True)).content)[-1]
        assert (last["type"], last["error"]["type"]) == ("error", "timeout_error")

    @by_both
    async def test_an_error_of_the_providers_is_told_as_the_gateways(self, name: str, at: Scene) -> None:
        at.models.acts["native-claude"] = streamed(begins() + block(0, HELLO) + failing("api_error", "secret words"))
        at.models.acts["chat-plain"] = streams(
            openai.event({"content": "Hello"}), b"data: " + openai.error("secret words") + b"\n\n"
        )
        answer = await ask(at, name, stream=True)
        assert events(answer.content)[-1]["type"] == "error"
        assert "secret" not in answer.text

    @pytest.mark.parametrize("first", [b"", block(0, HELLO)], ids=["before", "after"])
    async def test_pings_are_no_progress(self, first: bytes, at: Scene) -> None:
        async def pings(call: Call) -> None:
            call.head(200, SSE, chunked=True)
            call.piece(begins() + first)
            while not call.gone.is_set():
                call.piece(event("ping"))
                await asyncio.sleep(0.02)

        at.models.acts["native-claude"] = pings
        answer = await ask(at, "native", stream=True)
        if first:
            assert events(answer.content)[-1]["error"]["type"] == "timeout_error"
        else:
            refused(answer, 504, "timeout_error")

    @by_both
    async def test_behind_a_comment_an_error_is_an_event(self, name: str, at: Scene) -> None:
        at.models.acts |= {"native-claude": silence, "chat-plain": silence}
        answer = await ask(at, name, stream=True, key="sk-test-secret-of-kept")
        assert (answer.status_code, answer.headers["request-id"]) == (200, answer.headers["x-request-id"])
        comments, _, last = answer.content.rpartition(b": keep-alive\n\n")
        assert comments.replace(b": keep-alive\n\n", b"") == b""
        assert [each["error"]["type"] for each in events(last)] == ["timeout_error"]

    @by_both
    async def test_who_leaves_pays_for_what_was_said(self, name: str, at: Scene) -> None:
        async def says_on(call: Call) -> None:
            call.head(200, SSE, chunked=True)
            call.piece(begins() + block(0, HELLO) if name == "native" else openai.event({"content": "Hello"}))
            await call.gone.wait()

        at.models.acts |= {"native-claude": says_on, "chat-plain": says_on}
        body = {"model": name, "max_tokens": 64, "messages": [{"role": "user", "content": "hi"}], "stream": True}
        async with at.run.client.stream("POST", ROUTE, json=body) as answer:
            assert await anext(answer.aiter_bytes())
        row = (await at.run.rows())[0]
        assert (row["outcome"], row["output_tokens"], row["estimated"]) == ("cancelled", 2, True)
        assert await at.run.leases() == 0


class TestErrors:
    """Every status of the gateway's, in Anthropic's shape."""

    @pytest.mark.parametrize(
        ("fields", "status", "kind", "says"),
        [
            ({"max_tokens": ...}, 422, "invalid_request_error", "max_tokens: Field required"),
            ({"messages": [{"role": "assistant", "content": "a"}]}, 422, "invalid_request_error", "messages.0.role: "),
            ({"temperature": 2}, 422, "invalid_request_error", "temperature: "),
            ({"service_tier": "golden"}, 422, "invalid_request_error", "service_tier: "),
            ({"model": "unknown"}, 404, "not_found_error", "'unknown' does not exist"),
            ({"model": "vectors"}, 400, "invalid_request_error", "does not serve messages"),
            ({"model": "toolless", "tools": [TOOL]}, 400, "invalid_request_error", "tools"),
            ({"model": "toolless", "stop_sequences": ["a", "b"]}, 400, "invalid_request_error", "stop_sequences: "),
            ({"service_tier": "no-limit"}, 400, "invalid_request_error", "no-limit"),
        ],
    )
    async def test_of_what_is_asked(self, fields: dict[str, Any], status: int, kind: str, says: str, at: Scene) -> None:
        answer = await at.ask(path=ROUTE, **{"model": "native", **fields})
        assert says in refused(answer, status, kind)

    async def test_of_who_asks_and_how(self, at: Scene) -> None:
        async def post(
            key: str, content: bytes = b'{"model":"native","max_tokens":9,"messages":[{"role":"user","content":"a"}]}'
        ) -> Any:
            return await at.run.client.post(ROUTE, content=content, headers={**bearer(f"sk-test-secret-of-{key}"), "x-x": ""})

        refused(await post("nobody"), 401, "authentication_error")
        refused(await post("broke"), 402, "billing_error")
        refused(await post("elsewhere"), 403, "permission_error")
        assert (await post("limited")).status_code == 200
        limited = await post("limited")
        refused(limited, 429, "rate_limit_error")
        assert int(limited.headers["retry-after"]) > 0
        refused(await post("broke", b"{"), 400, "invalid_request_error")
        refused(await post("broke", b" " * 70_000), 413, "request_too_large")
        refused(await at.run.client.get(ROUTE), 405, "invalid_request_error")
        refused(
            await at.run.client.post(ROUTE, content=b"", headers={"content-type": "text/plain"}), 415, "invalid_request_error"
        )

    @pytest.mark.parametrize(
        ("act", "status", "kind"),
        [
            (refuses(400, error("invalid_request_error", "Too odd")), 400, "invalid_request_error"),
            (refuses(401, error("authentication_error")), 502, "api_error"),
            (refuses(403, error("permission_error")), 502, "api_error"),
            (refuses(413, error("request_too_large")), 413, "request_too_large"),
            (refuses(429, error("rate_limit_error")), 429, "overloaded_error"),
            (refuses(500, error("api_error")), 502, "api_error"),
            (refuses(529, error("overloaded_error")), 429, "overloaded_error"),
            (refuses(504), 504, "timeout_error"),
            (refuses(200, b"{}"), 502, "api_error"),
        ],
    )
    async def test_of_providers_that_speak_messages(self, act: Script, status: int, kind: str, at: Scene) -> None:
        at.models.acts["native-claude"] = act
        for form in (False, True):
            refused(await ask(at, "native", stream=form, fail_fast=True), status, kind)

    @pytest.mark.parametrize(
        ("act", "status", "kind"),
        [
            (refuses(400, openai.error("Too odd", param="stop")), 400, "invalid_request_error"),
            (refuses(429, BUSY), 429, "overloaded_error"),
            (refuses(503), 429, "overloaded_error"),
            (refuses(500), 502, "api_error"),
            (refuses(200, b"{}"), 502, "api_error"),
        ],
    )
    async def test_of_providers_that_have_chat_alone(self, act: Script, status: int, kind: str, at: Scene) -> None:
        at.models.acts["chat-plain"] = act
        for form in (False, True):
            said = refused(await ask(at, "chat", stream=form, fail_fast=True), status, kind)
            assert said == "stop_sequences: Too odd" or status != 400

    async def test_of_time(self, at: Scene) -> None:
        at.models.acts["native-claude"] = silence
        refused(await ask(at, "native", stream=True), 504, "timeout_error")


@pytest.mark.parametrize(("prefix", "tier"), [("/deepinfra/v1", "default"), ("/v1/openai", "default"), ("/nebius/v1", "default")])
async def test_other_prefixes_have_it_too(prefix: str, tier: str, at: Scene) -> None:
    answer = await at.ask(path=f"{prefix}/messages", model="native")
    assert (told(answer)["content"], answer.headers["x-gateway-service-tier"]) == ([HELLO], tier)


class TestCounting:
    """`POST /v1/messages/count_tokens`."""

    COUNT = f"{ROUTE}/count_tokens"

    async def test_it_tells_what_would_be_held_and_costs_nothing(self, at: Scene) -> None:
        rows = len(await at.run.rows())
        access = Access(at.run)
        answer = await at.ask(path=self.COUNT, model="untaught", max_tokens=..., system="Be brief", tools=[TOOL])
        asked = b'[{"role":"user","content":"hi"}]', b'"Be brief"', msgspec.json.encode([TOOL])
        assert answer.json() == {"input_tokens": -(-sum(map(len, asked)) // 3) + 4}
        assert not at.models.asked
        line = await access.only()
        assert (line["route"], line["outcome"], line["status"]) == (self.COUNT, "ok", 200)
        assert len(await at.run.rows()) == rows
        assert await at.run.leases() == 0

    async def test_the_system_counts_too(self, at: Scene) -> None:
        said = [{"role": "user", "content": "hi"}, {"role": "system", "content": "Be brief"}]
        answer = await at.ask(path=self.COUNT, model="untaught", max_tokens=..., messages=said)
        assert answer.json() == {"input_tokens": -(-len(msgspec.json.encode(said)) // 3) + 8}

    async def test_it_takes_nothing_of_a_limit(self, at: Scene) -> None:
        for _ in range(3):
            answer = await at.ask(path=self.COUNT, model="chat", max_tokens=..., key="sk-test-secret-of-counting")
            assert answer.status_code == 200
            assert "x-ratelimit-remaining-requests" not in answer.headers

    async def test_who_may_not_ask_may_not_count(self, at: Scene) -> None:
        refused(await at.ask(path=self.COUNT, model="unknown"), 404, "not_found_error")
        refused(await at.ask(path=self.COUNT, model="native", key="sk-test-secret-of-nobody"), 401, "authentication_error")
        assert "messages" in refused(await at.ask(path=self.COUNT, model="native", messages=...), 422, "invalid_request_error")
        refused(await at.run.client.get(self.COUNT), 405, "invalid_request_error")


async def test_the_books_hold_the_request(at: Scene) -> None:
    await ask(at, "chat", stream=True)
    row = (await at.run.rows())[0]
    assert (row["route"], row["status"], row["input_tokens"], row["output_tokens"]) == (ROUTE, 200, 10, 20)


@pytest.mark.parametrize("end", [b"\n", b"\r\n", b"\r"], ids=["lf", "crlf", "cr"])
@by_both
async def test_a_stream_in_any_pieces_and_with_any_line_ends_is_the_same(name: str, end: bytes, at: Scene) -> None:
    function = {"name": "weather", "arguments": '{"city":"Rome"}'}
    said: tuple[dict[str, Any], ...] = (
        {"content": "Hello"},
        {"tool_calls": [{"index": 0, "id": "toolu_1", "function": function}]},
    )
    chat = b"".join(openai.event(each) for each in said) + openai.event({}, "tool_calls") + DONE
    whole = (stream(HELLO, CALL, stop_reason="tool_use") if name == "native" else chat).replace(b"\n", end)
    pieces = [whole[place : place + 1] for place in range(len(whole))]
    at.models.acts |= {"native-claude": streamed(*pieces), "chat-plain": streamed(*pieces)}
    assert joined((await ask(at, name, stream=True)).content)["content"] == [HELLO, CALL]
