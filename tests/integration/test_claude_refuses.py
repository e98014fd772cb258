"""What Anthropic's models refuse, through the running gateway: who is asked instead, what is refused, and what arrives there."""

from collections.abc import AsyncIterator
from typing import Any

import pytest
import pytest_asyncio

from tests.fakes.anthropic import Both
from tests.integration.fallback.chain import FORGIVING, PRICE
from tests.integration.scene import Scene, refused, scene, sent
from tests.running import config
from tests.valkey import Valkey

pytestmark = pytest.mark.asyncio(loop_scope="module")

COMPLETIONS, MESSAGES = "/v1/completions", "/v1/messages"

HI = {"role": "user", "content": "Hi"}
SO = {"role": "assistant", "content": "So "}
FUNCTION = {"type": "function", "function": {"name": "f", "parameters": {"type": "object"}}}
CUSTOM = {"type": "custom", "custom": {"name": "c"}}
SOUND = {"type": "input_audio", "input_audio": {"data": "AA==", "format": "wav"}}
ITS_TOOL = {"name": "f", "input_schema": {"type": "object"}}


def model(*deployments: tuple[str, str], **fields: Any) -> dict[str, Any]:
    listed = [{"provider": at, "model": upstream, "order": place} for place, (at, upstream) in enumerate(deployments, 1)]
    return {"deployments": listed, "price": PRICE, **fields}


def settings() -> dict[str, Any]:
    """`claude` speaks Anthropic's and `plain` OpenAI's; of `either` and its like Anthropic is asked first."""
    models = {
        "opus": model(("claude", "claude-opus-5-5")),
        "either": model(("claude", "claude-opus-5-5"), ("plain", "up-plain")),
        "haiku": model(("claude", "claude-haiku-4-5")),
        "adaptive": model(("claude", "claude-opus-4-7"), ("plain", "up-plain")),
        "told": model(("claude", "claude-opus-5-5"), capabilities={"sampling": True, "prefill": True, "thinking": "budget"}),
        "old": model(("claude", "up-old"), ("plain", "up-plain")),
        "only": model(("claude", "up-old")),
    }
    found = config(dict.fromkeys(("claude", "plain"), "{upstream}"), models, breaker=FORGIVING)
    found["providers"]["claude"] |= {"dialect": "anthropic", "endpoints": ["chat"]}
    found["providers"]["plain"] |= {"endpoints": ["chat", "completions"]}
    return found


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def shared(valkey_server: Valkey, tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Scene]:
    async with scene(Both(), settings(), valkey_server, tmp_path_factory.mktemp("claude")) as found:
        yield found


@pytest_asyncio.fixture(loop_scope="module")
async def at(shared: Scene) -> AsyncIterator[Scene]:
    yield shared
    await shared.rest()


UNSTEERED: tuple[tuple[dict[str, Any], str], ...] = (
    ({"temperature": 0}, "temperature"),
    ({"top_p": 0.5}, "top_p"),
    ({"top_k": 5}, "top_k"),
    ({"tools": [FUNCTION], "tool_choice": "required"}, "tool_choice"),
    ({"tools": [FUNCTION], "tool_choice": {"type": "function", "function": {"name": "f"}}}, "tool_choice"),
    ({"reasoning_effort": "none"}, "reasoning_effort"),
    ({"messages": [HI, SO]}, "messages.1.role"),
)

UNSAID: tuple[tuple[dict[str, Any], str], ...] = (
    ({"tools": [CUSTOM]}, "tools"),
    ({"tools": [FUNCTION], "tool_choice": {"type": "allowed_tools", "allowed_tools": {"mode": "auto"}}}, "tool_choice"),
    ({"messages": [{"role": "user", "content": [SOUND]}]}, "messages.0.content.0"),
    ({"messages": [HI, {"role": "function", "name": "f", "content": "1"}]}, "messages.1.role"),
    ({"messages": [{"role": "user", "content": " "}]}, "messages.0.content"),
)


@pytest.mark.parametrize("stream", [False, True], ids=["whole", "streamed"])
@pytest.mark.parametrize(
    ("alone", "both", "fields", "field"),
    [("opus", "either", *each) for each in UNSTEERED] + [("only", "old", *each) for each in UNSAID],
)
async def test_what_claude_would_refuse_another_is_asked_for(
    alone: str, both: str, fields: dict[str, Any], field: str, stream: bool, at: Scene
) -> None:
    answer = await at.ask(model=both, stream=stream, **fields)
    assert (answer.status_code, answer.headers["x-gateway-provider"]) == (200, "plain")
    assert at.models.asked == ["plain"]
    assert "x-gateway-dropped-params" not in answer.headers
    assert refused(await at.ask(model=alone, stream=stream, **fields)) == (400, "unsupported_parameter", field)
    assert at.models.asked == ["plain"]


async def test_what_asks_for_nothing_is_left_out(at: Scene) -> None:
    answer = await at.ask(
        model="either", temperature=1, top_p=1.0, top_k=0, tools=[FUNCTION], tool_choice="auto", reasoning_effort="low"
    )
    assert answer.headers["x-gateway-provider"] == "claude"
    assert not {"temperature", "top_p", "top_k"} & sent(at).keys()
    assert sent(at)["thinking"] == {"type": "adaptive", "display": "summarized"}
    assert sent(at)["output_config"] == {"effort": "low"}


async def test_thinking_is_asked_for_as_each_wants_it(at: Scene) -> None:
    await at.ask(model="haiku", reasoning_effort="high")
    assert sent(at)["thinking"]["type"] == "enabled"
    await at.ask(model="adaptive", reasoning_effort="none")
    assert sent(at)["thinking"] == {"type": "disabled"}
    await at.ask(model="haiku", reasoning_effort="none")
    assert "thinking" not in sent(at)


async def test_two_ways_to_pick_tokens_are_one_too_many_for_some(at: Scene) -> None:
    assert refused(await at.ask(model="haiku", temperature=0.5, top_p=0.5)) == (400, "unsupported_parameter", "top_p")
    await at.ask(model="haiku", temperature=0.5, top_p=1)
    assert (sent(at)["temperature"], "top_p" in sent(at)) == (0.5, False)


async def test_the_file_knows_better(at: Scene) -> None:
    await at.ask(model="told", temperature=0, messages=[HI, SO])
    assert (sent(at)["temperature"], sent(at)["messages"][-1]["content"][0]["text"]) == (0, "So")
    await at.ask(model="told", reasoning_effort="high")
    assert sent(at)["thinking"]["type"] == "enabled"


@pytest.mark.parametrize(
    ("fields", "field"),
    [
        ({"temperature": 0}, "temperature"),
        ({"tools": [ITS_TOOL], "tool_choice": {"type": "any"}}, "tool_choice"),
        ({"messages": [HI, {"role": "assistant", "content": "So"}]}, "messages.1.role"),
    ],
)
async def test_messages_are_held_to_the_same(fields: dict[str, Any], field: str, at: Scene) -> None:
    answer = await at.ask(path=MESSAGES, model="opus", **fields)
    assert answer.status_code == 400
    assert field in answer.json()["error"]["message"]
    assert at.models.asked == []
    assert (await at.ask(path=MESSAGES, model="opus", temperature=1)).status_code == 200
    assert "temperature" not in sent(at)


async def test_a_prompt_of_white_space_is_for_another(at: Scene) -> None:
    assert refused(await at.ask(path=COMPLETIONS, model="only", prompt=" ")) == (400, "unsupported_parameter", "prompt")
    assert (await at.ask(path=COMPLETIONS, model="old", prompt=" ")).headers["x-gateway-provider"] == "plain"


async def test_what_only_the_system_says_is_answered(at: Scene) -> None:
    assert (await at.ask(model="only", messages=[{"role": "system", "content": "Greet"}])).status_code == 200
    assert sent(at)["messages"] == [{"role": "user", "content": [{"type": "text", "text": "Greet"}]}]
    assert "system" not in sent(at)


async def test_users_and_strictness_arrive(at: Scene) -> None:
    strict = {"type": "function", "function": {"name": "f", "strict": True, "parameters": {"type": "object", "properties": {}}}}
    answer = await at.ask(model="only", user="u-1", tools=[strict])
    assert "x-gateway-dropped-params" not in answer.headers
    assert sent(at)["metadata"] == {"user_id": "u-1"}
    schema = {"type": "object", "properties": {}, "additionalProperties": False}
    assert sent(at)["tools"] == [{"name": "f", "input_schema": schema, "strict": True}]
    answer = await at.ask(model="only", user="jo@example.org")
    assert (answer.headers["x-gateway-dropped-params"], "metadata" in sent(at)) == ("user", False)
