"""Loops of tool calls in Messages, by providers of chat and of Messages: what a client returns is what they want."""

from collections.abc import AsyncIterator
from typing import Any

import msgspec
import pytest
import pytest_asyncio

from tests.fakes import openai
from tests.fakes.anthropic import HELLO, Both, text
from tests.fakes.http_server import Script
from tests.fakes.openai import DONE, streams
from tests.fakes.reading import joined
from tests.integration.fallback.chain import FORGIVING
from tests.integration.scene import Scene, scene
from tests.running import config
from tests.valkey import Valkey

pytestmark = pytest.mark.asyncio(loop_scope="module")

ROUTE = "/v1/messages"
SIGNED = {"google": {"thought_signature": "c2ln+/="}}
OWN_ID = "functions.weather:0"
FUNCTION = {"name": "weather", "arguments": '{"city":"Rome"}'}
TOOL = {"name": "weather", "input_schema": {"type": "object"}}
THINKING = {"type": "enabled", "budget_tokens": 1024}


def settings() -> dict[str, Any]:
    """`thinker` and `other` have chat, at two addresses of one server; `claude` speaks Messages."""
    price = {"input": 1, "output": 1}
    models = {
        name: {"deployments": [{"provider": name, "model": f"up-{name}"}], "price": price}
        for name in ("thinker", "other", "claude")
    }
    found = config(dict.fromkeys(models, "{upstream}"), models, breaker=FORGIVING)
    providers = found["providers"]
    providers["thinker"] |= {"quirks": {"reasoning_back": "reasoning_content"}}
    providers["other"] |= {"base_url": "{upstream}/other"}
    providers["claude"] |= {"dialect": "anthropic", "endpoints": ["chat"]}
    return found


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def shared(valkey_server: Valkey, tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Scene]:
    async with scene(Both(), settings(), valkey_server, tmp_path_factory.mktemp("loops")) as found:
        yield found


@pytest_asyncio.fixture(loop_scope="module")
async def at(shared: Scene) -> AsyncIterator[Scene]:
    yield shared
    await shared.rest()


def calls(*, stream: bool) -> Script:
    """Make a script that thinks aloud and calls a tool, under an id and with a member that Messages has not."""
    call = {"index": 0, "id": OWN_ID, "type": "function", "function": FUNCTION, "extra_content": SIGNED}
    said = {"reasoning_content": "Hm", "tool_calls": [call]}
    if stream:
        return streams(*(openai.event({name: value}) for name, value in said.items()), openai.event({}, "tool_calls"), DONE)
    message = {"role": "assistant", "content": None, **said}
    return openai.answers(choices=[{"index": 0, "message": message, "finish_reason": "tool_calls"}])


async def begun(at: Scene, *, stream: bool) -> list[dict[str, Any]]:
    """Return a conversation up to the result of the tool that `thinker` has called."""
    said = [{"role": "user", "content": "Weather?"}]
    at.models.acts["thinker"] = calls(stream=stream)
    answer = await at.ask(path=ROUTE, model="thinker", messages=said, tools=[TOOL], stream=stream)
    assert answer.status_code == 200, answer.text
    message = joined(answer.content) if stream else answer.json()
    assert message["stop_reason"] == "tool_use"
    [call_id] = [block["id"] for block in message["content"] if block["type"] == "tool_use"]
    del at.models.acts["thinker"]
    result = {"type": "tool_result", "tool_use_id": call_id, "content": "No sun", "is_error": True}
    return [*said, {"role": "assistant", "content": message["content"]}, {"role": "user", "content": [result]}]


async def goes_on(at: Scene, model: str, said: list[dict[str, Any]], **fields: Any) -> tuple[dict[str, Any], str | None]:
    """Return what is sent when a conversation goes on, and what is left out of it."""
    answer = await at.ask(path=ROUTE, model=model, messages=said, tools=[TOOL], max_tokens=4_000, **fields)
    assert answer.status_code == 200, answer.text
    assert answer.json()["content"] == [HELLO]
    return msgspec.json.decode(at.server.requests[-1].body), answer.headers.get("x-gateway-dropped-params")


both_forms = pytest.mark.parametrize("stream", [False, True], ids=["whole", "streamed"])


@both_forms
async def test_a_provider_gets_back_what_it_gave(stream: bool, at: Scene) -> None:
    body, left = await goes_on(at, "thinker", await begun(at, stream=stream))
    call = {"id": OWN_ID, "type": "function", "function": FUNCTION, "extra_content": SIGNED}
    assert body["messages"][1:] == [
        {"role": "assistant", "content": None, "reasoning_content": "Hm", "tool_calls": [call]},
        {"role": "tool", "tool_call_id": OWN_ID, "content": "Error: No sun"},
    ]
    assert left is None


@both_forms
async def test_another_gets_nothing_that_it_might_refuse(stream: bool, at: Scene) -> None:
    body, _ = await goes_on(at, "other", await begun(at, stream=stream))
    [_, again, result] = body["messages"]
    assert again.keys() == {"role", "content", "tool_calls"}
    assert again["tool_calls"][0].keys() == {"id", "type", "function"}
    assert again["tool_calls"][0]["id"] == result["tool_call_id"]


@both_forms
async def test_who_speaks_messages_gets_a_conversation_that_it_takes(stream: bool, at: Scene) -> None:
    body, left = await goes_on(at, "claude", await begun(at, stream=stream), thinking=THINKING)
    [_, again, result] = body["messages"]
    [call] = again["content"]
    assert call == {"type": "tool_use", "id": call["id"], "name": "weather", "input": {"city": "Rome"}}
    assert result["content"][0]["tool_use_id"] == call["id"]
    assert call["id"].replace("_", "").isalnum()
    assert len(call["id"]) <= 64
    assert ("thinking" in body, left) == (False, "thinking")


@both_forms
async def test_a_new_question_is_thought_about_again(stream: bool, at: Scene) -> None:
    said = [
        *(await begun(at, stream=stream)),
        {"role": "assistant", "content": [text("Rain")]},
        {"role": "user", "content": "And now?"},
    ]
    body, left = await goes_on(at, "claude", said, thinking=THINKING)
    assert (body["thinking"], left) == (THINKING, None)
