"""Deployments that can do less than their model, through the running gateway: who is asked what, and what arrives there."""

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import msgspec
import pytest
import pytest_asyncio

from tests.fakes.openai import Models, refuses
from tests.integration.fallback.chain import FORGIVING, PRICE
from tests.integration.scene import ASKED, Scene, refused, scene, sent
from tests.running import config
from tests.valkey import Valkey

pytestmark = pytest.mark.asyncio(loop_scope="module")

CHAT, COMPLETIONS, MESSAGES = "/v1/chat/completions", "/v1/completions", "/v1/messages"

TOOL = {"type": "function", "function": {"name": "weather", "parameters": {"type": "object"}}}
IMAGE = [{"role": "user", "content": [{"type": "image_url", "image_url": {"url": "https://pictures.example/a.png"}}]}]
SEEN = [{"role": "user", "content": [{"type": "image", "source": {"type": "url", "url": "https://pictures.example/a.png"}}]}]

LESSER = {**dict.fromkeys(("tools", "vision", "regex", "suffix", "echo", "ignore_eos"), False), "max_logprobs": 3, "stop": 2}


def deployed(name: str, place: int, **fields: Any) -> dict[str, Any]:
    return {"provider": f"p{place}", "model": f"up-{name}{place}", "order": place, **fields}


def pair(name: str, first: dict[str, Any], second: dict[str, Any] | None = None, **fields: Any) -> dict[str, Any]:
    """One model at two providers, the first of which is tried first, with these capabilities."""
    deployments = [deployed(name, 1, capabilities=first), deployed(name, 2, capabilities=second)]
    return {"deployments": deployments, "price": PRICE, **fields}


def settings() -> dict[str, Any]:
    """Of `m` the first deployment can do less than the second; nobody at `poor` can do much; `full` has one slot at its first."""
    whole = {"regex": True, "ignore_eos": True}
    full = pair("full", {}, LESSER)
    full["deployments"][0]["max_concurrency"] = 1
    models = {
        "m": pair("m", LESSER, capabilities=whole),
        "poor": pair("poor", {"tools": False, "stop": 2}, {"tools": False, "stop": 4}),
        "split": pair("split", {"tools": False}, {"logprobs": False}),
        "talks": pair("talks", {"endpoints": ["chat"]}),
        "mute": pair("mute", {"endpoints": ["chat"]}, {"endpoints": ["chat", "messages"]}),
        "full": full,
        "first": {"deployments": [deployed("first", 1)], "price": PRICE, "fallbacks": ["poor", "m"]},
    }
    return config({"p1": "{upstream}", "p2": "{upstream}"}, models, breaker=FORGIVING)


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def shared(valkey_server: Valkey, tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Scene]:
    async with scene(Models(), settings(), valkey_server, tmp_path_factory.mktemp("capabilities")) as found:
        yield found


@pytest_asyncio.fixture(loop_scope="module")
async def at(shared: Scene) -> AsyncIterator[Scene]:
    yield shared
    await shared.rest()


NEEDED: tuple[tuple[str, dict[str, Any]], ...] = (
    (CHAT, {"tools": [TOOL]}),
    (CHAT, {"functions": [TOOL["function"]]}),
    (CHAT, {"messages": IMAGE}),
    (CHAT, {"stop": ["a", "b", "c"]}),
    (CHAT, {"logprobs": True, "top_logprobs": 4}),
    (COMPLETIONS, {"suffix": "end"}),
    (COMPLETIONS, {"echo": True}),
    (COMPLETIONS, {"response_format": {"type": "regex", "regex": "a+"}}),
    (COMPLETIONS, {"data": {"image": ["https://pictures.example/a.png"]}}),
    (COMPLETIONS, {"stop": ["a", "b", "c"]}),
    (MESSAGES, {"tools": [{"name": "weather", "input_schema": {"type": "object"}}]}),
    (MESSAGES, {"messages": SEEN}),
    (MESSAGES, {"stop_sequences": ["a", "b", "c"]}),
)
NOT_NEEDED: tuple[tuple[str, dict[str, Any]], ...] = (
    (CHAT, {}),
    (CHAT, {"tools": [], "stop": ["a", "b"]}),
    (CHAT, {"logprobs": True, "top_logprobs": 3}),
    (CHAT, {"messages": [{"role": "user", "content": "image_url"}]}),
    (COMPLETIONS, {"suffix": "", "echo": False}),
    (MESSAGES, {}),
)


@pytest.mark.parametrize("stream", [False, True], ids=["whole", "streamed"])
@pytest.mark.parametrize(("path", "fields"), NEEDED)
async def test_what_one_cannot_do_another_is_asked_for(path: str, fields: dict[str, Any], stream: bool, at: Scene) -> None:
    answer = await at.ask(path=path, model="m", stream=stream, **fields)
    assert (answer.status_code, answer.headers["x-gateway-provider"]) == (200, "p2")
    assert at.models.asked == ["m2"]
    assert answer.headers["x-gateway-attempts"] == "m;200"


@pytest.mark.parametrize(("path", "fields"), NOT_NEEDED)
async def test_what_it_can_do_it_does(path: str, fields: dict[str, Any], at: Scene) -> None:
    assert (await at.ask(path=path, model="m", **fields)).status_code == 200
    assert at.models.asked == ["m1"]


@pytest.mark.parametrize(("path", "fields"), NEEDED[:1] + NEEDED[5:6])
async def test_who_cannot_is_not_asked_in_need_either(path: str, fields: dict[str, Any], at: Scene) -> None:
    at.models.acts["m2"] = refuses(500)
    answer = await at.ask(path=path, model="m", **fields)
    assert (answer.status_code, at.models.asked) == (502, ["m2"])


async def test_a_full_deployment_is_not_stood_in_for_by_one_that_cannot(at: Scene) -> None:
    async with at.filled("full"):
        assert (await at.ask(model="full", tools=[TOOL], fail_fast=True)).status_code == 429
        assert (await at.ask(model="full", fail_fast=True)).status_code == 200
        assert at.models.asked == ["full2"]
        waiting = asyncio.create_task(at.ask(model="full", tools=[TOOL]))
        await at.run.waiting(1)
        assert at.models.asked == ["full2"]
    assert (await waiting).status_code == 200
    assert at.models.asked == ["full2", "full1"]


async def test_what_is_lowered_is_lowered_there_alone(at: Scene) -> None:
    at.models.acts["m1"] = refuses(503)
    answer = await at.ask(path=COMPLETIONS, model="m", logprobs=9, ignore_eos=True)
    assert (answer.status_code, at.models.asked) == (200, ["m1", "m2"])
    lesser, whole = (msgspec.json.decode(request.body) for request in at.server.requests[-2:])
    assert (lesser["logprobs"], "ignore_eos" in lesser) == (3, False)
    assert (whole["logprobs"], whole["ignore_eos"]) == (9, True)
    # What is told is what became of the request where it was served.
    assert not {"x-gateway-adjusted-params", "x-gateway-dropped-params"} & {*answer.headers}
    at.models.acts.clear()
    answer = await at.ask(path=COMPLETIONS, model="m", logprobs=9, ignore_eos=True)
    assert (answer.headers["x-gateway-adjusted-params"], answer.headers["x-gateway-dropped-params"]) == (
        "logprobs=3",
        "ignore_eos",
    )
    assert answer.headers["x-gateway-provider"] == "p1"


NOBODY: tuple[tuple[str, str, dict[str, Any], tuple[int, str, str], str], ...] = (
    ("poor", CHAT, {"tools": [TOOL]}, (400, "unsupported_parameter", "tools"), "The model 'poor' does not support 'tools'"),
    ("poor", CHAT, {"stop": ["a"] * 5}, (400, "invalid_value", "stop"), "The model 'poor' takes up to 4 stop sequences"),
    (
        *("split", CHAT, {"tools": [TOOL], "logprobs": True}),
        *((400, "unsupported_parameter", "tools"), "The model 'split' does not support 'tools'"),
    ),
    ("mute", COMPLETIONS, {}, (400, "unsupported_parameter", "model"), "The model 'mute' does not serve completions"),
)


@pytest.mark.parametrize(("name", "path", "fields", "error", "text"), NOBODY)
async def test_what_nobody_can_do_is_refused_before_anybody_is_asked(
    name: str, path: str, fields: dict[str, Any], error: tuple[int, str, str], text: str, at: Scene
) -> None:
    answer = await at.ask(path=path, model=name, **fields)
    assert refused(answer) == error
    assert answer.json()["error"]["message"] == text
    assert "x-gateway-attempts" not in answer.headers
    assert at.models.asked == []


async def test_one_thing_at_a_time_finds_who_can_do_it(at: Scene) -> None:
    for fields in ({"tools": [TOOL]}, {"logprobs": True}):
        assert (await at.ask(model="split", **fields)).status_code == 200
    assert at.models.asked == ["split2", "split1"]


async def test_completions_do_not_reach_a_deployment_for_chat_by_way_of_chat(at: Scene) -> None:
    for path, who in ((CHAT, "talks1"), (COMPLETIONS, "talks2"), (MESSAGES, "talks2")):
        assert (await at.ask(path=path, model="talks")).status_code == 200
        assert at.models.asked.pop() == who
    for path, status in ((CHAT, 200), (MESSAGES, 200), (COMPLETIONS, 400)):
        assert (await at.ask(path=path, model="mute")).status_code == status
    assert at.models.asked == ["mute1", "mute2"]


async def test_a_fallback_that_cannot_is_passed_over_and_one_that_the_client_names_is_refused(at: Scene) -> None:
    at.models.acts["first1"] = refuses(500)
    answer = await at.ask(model="first", tools=[TOOL])
    assert (answer.status_code, at.models.asked) == (200, ["first1", "m2"])
    assert answer.headers["x-gateway-attempts"] == "first;500, m;200"
    assert refused(await at.ask(model=..., models=["first", "poor"], tools=[TOOL])) == (400, "unsupported_parameter", "tools")


async def test_what_is_sent_is_the_clients_own(at: Scene) -> None:
    await at.ask(model="m", tools=[TOOL], stop=["a", "b"], x_vendor={"k": 1})
    assert sent(at) == {"model": "up-m2", **ASKED["chat"], "tools": [TOOL], "stop": ["a", "b"], "x_vendor": {"k": 1}}
