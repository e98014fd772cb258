"""Cases FB-11 to FB-14: which models are tried, what each of them is sent, and what the answer calls the one that served."""

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import msgspec
import pytest
import pytest_asyncio

from tests.fakes.http_server import Request
from tests.fakes.openai import BUSY, DONE, event, refuses, streams
from tests.field.metering import Metered
from tests.field.test_fb_zero import problems
from tests.field.walking import CHAT, CHAT_STREAM, MODES, Mode, chunks, model, outcomes, walking, walks
from tests.integration.scene import Scene
from tests.running import config
from tests.valkey import Valkey

pytestmark = pytest.mark.asyncio(loop_scope="module")

MANY = tuple("pqrstuvwx")

EXACTING = {
    "quirks": {"max_tokens_field": "max_completion_tokens", "stream_options": False, "fail_fast": True},
    "unknown_fields": "drop",
    "tiers": {"priority": "prio"},
    "headers": {"x-api-version": "2026-01-01"},
}


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def shared(valkey_server: Valkey, tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Metered]:
    models = {
        "led": model(name="led", fallbacks=["A", "B", "A"]),
        "many": model(*MANY, name="many"),
        "B": model("q", name="B", aliases=["alias-of-B"]),
        "exacting": model("exacting", name="exacting", max_output_tokens=50),
        "plain": model("plain", name="plain"),
    }
    settings = walks(models=models, breaker={"failures": 1_000, "window": "1ms", "cooldown_max": "1ms"})
    usual = settings["providers"]["p"]
    settings["providers"] |= {name: {**usual, "api_key": f"sk-up-{name}"} for name in MANY[1:]}
    settings["providers"]["exacting"] = {**usual, "base_url": "{upstream}/other/v2", "api_key": "sk-up-exacting", **EXACTING}
    settings["providers"]["plain"] = {**usual, "api_key": "sk-up-plain", "allow_store": True}
    async with walking(settings, valkey_server, tmp_path_factory) as found:
        yield found


@pytest_asyncio.fixture(loop_scope="module")
async def walk(shared: Metered) -> AsyncIterator[Metered]:
    yield shared
    await shared.rest()


@pytest.mark.parametrize("mode", [CHAT, CHAT_STREAM], ids=str)
async def test_fb_11_no_model_is_tried_twice_whatever_leads_to_it(mode: Mode, walk: Scene) -> None:
    walk.models.acts.update(dict.fromkeys(("led", "A", "B1"), refuses(500)))
    lists: list[tuple[dict[str, Any], list[str]]] = [
        ({"model": "led"}, ["led", "A", "B1"]),
        ({"models": ["A", "A", "B", "A"]}, ["A", "B1"]),
        ({"models": ["B", "alias-of-B", "A", "alias-of-B"]}, ["B1", "A"]),
    ]
    for fields, asked in lists:
        walk.models.asked.clear()
        response = await mode.ask(walk, **fields)
        assert (response.status_code, walk.models.asked) == (502, asked)


async def test_fb_11_attempts_are_capped_and_so_is_what_is_said_of_them(walk: Metered) -> None:
    walk.models.acts.update({f"many{number}": refuses(500, b"x" * 60_000) for number in range(1, 10)})
    response = await CHAT.ask(walk, models=["many", "A", "B"])
    assert (response.status_code, len(walk.models.asked)) == (502, 6)
    assert len(set(walk.models.asked)) == 6
    line = await walk.line()
    assert len(line["attempts"]) == 6
    assert len(msgspec.json.encode(line)) < 3_000


async def test_fb_11_a_list_of_a_thousand_is_refused_before_anybody_is_asked(walk: Scene) -> None:
    response = await CHAT.ask(walk, models=["A", "B"] * 500)
    assert (response.status_code, response.json()["error"]["param"]) == (422, "models")
    assert walk.models.asked == []


CIRCLES: dict[str, dict[str, dict[str, Any]]] = {
    "aliases": {"x": {"aliases": ["y"]}, "y": {"aliases": ["x"]}},
    "its own alias": {"x": {"aliases": ["x"]}},
    "one alias of two": {"x": {"aliases": ["z"]}, "y": {"aliases": ["z"]}},
    "fallbacks": {"x": {"fallbacks": ["y"]}, "y": {"fallbacks": ["x"]}},
    "its own fallback": {"x": {"fallbacks": ["x"]}},
    "fallbacks by an alias": {"x": {"fallbacks": ["why"]}, "y": {"aliases": ["why"], "fallbacks": ["x"]}},
}


@pytest.mark.parametrize("circle", CIRCLES)
async def test_fb_11_names_that_lead_in_circles_are_refused_at_the_start(circle: str) -> None:
    models = {name: {"deployments": [{"provider": "p", "model": name}], **more} for name, more in CIRCLES[circle].items()}
    _, refused = problems(config({"p": "http://127.0.0.1:1"}, models) | {"redis": {"url": "embedded"}})
    assert refused
    assert all("aliases" in where or "fallbacks" in where for where in refused)


@pytest.mark.parametrize("mode", MODES, ids=str)
@pytest.mark.parametrize("name", ["B", "alias-of-B"])
async def test_fb_12_the_model_of_an_answer_is_the_one_that_served_by_the_clients_name(
    name: str, mode: Mode, walk: Metered
) -> None:
    walk.models.acts["A"] = refuses(500)
    if mode.stream:
        pieces = (mode.chunk(), mode.chunk("Hello"), mode.chunk(finish="stop"))
        named = (piece.replace(b'"up"', b'"vendor/m-up-%d"' % number) for number, piece in enumerate(pieces))
        walk.models.acts["B1"] = streams(*named, event({}, choices=[], usage={"prompt_tokens": 1, "completion_tokens": 2}), DONE)
    else:
        walk.models.acts["B1"] = mode.answer("Hello", model="vendor/m-up-b")
    extra: dict[str, Any] = {"stream_options": {"include_usage": True}} if mode.stream else {}
    response = await mode.ask(walk, models=["A", name], **extra)
    found = chunks(response) if mode.stream else [response.json()]
    assert {each["model"] for each in found} == {name}
    assert len({each["id"] for each in found}) == 1
    assert (response.headers["x-gateway-model"], response.headers["x-gateway-provider"]) == (name, "q")
    assert "m-up" not in response.text
    line = await walk.line()
    assert (line["model_requested"], line["model_served"], line["provider"]) == ("A", "B", "q")


def sent(walk: Scene) -> dict[str, Request]:
    """Return the last request to each upstream model."""
    return {msgspec.json.decode(each.body)["model"].removeprefix("up-"): each for each in walk.server.requests}


@pytest.mark.parametrize("mode", MODES, ids=str)
async def test_fb_13_each_is_asked_for_its_own_model_at_its_own_address(mode: Mode, walk: Scene) -> None:
    walk.models.acts.update({"plain1": refuses(500), "exacting1": refuses(500)})
    await mode.ask(walk, models=["A", "plain", "exacting"] if mode.stream else ["plain", "exacting", "A"])
    walk.models.acts["A"] = refuses(500)
    await mode.ask(walk, models=["A", "plain", "exacting"])
    assert walk.models.asked[-3:] == ["A", "plain1", "exacting1"]
    end = "/chat/completions" if mode.chat else "/completions"
    at = {
        name: (request.path, request.header("authorization"), request.header("x-api-version"))
        for name, request in sent(walk).items()
    }
    assert at["A"] == (f"/v1{end}", "Bearer sk-up-p", None)
    assert at["plain1"] == (f"/v1{end}", "Bearer sk-up-plain", None)
    assert at["exacting1"] == (f"/other/v2{end}", "Bearer sk-up-exacting", "2026-01-01")


@pytest.mark.parametrize("mode", MODES, ids=str)
@pytest.mark.parametrize("order", [("exacting", "plain"), ("plain", "exacting")], ids=" ".join)
async def test_fb_14_each_is_sent_the_clients_request_by_its_own_rules_alone(
    order: tuple[str, str], mode: Mode, walk: Scene
) -> None:
    walk.models.acts[f"{order[0]}1"] = refuses(500)
    asked: dict[str, Any] = {"temperature": 0.2, "max_tokens": 100, "k": {"a": [1]}, "service_tier": "priority"}
    asked |= {"store": True} if mode.chat else {}
    response = await mode.ask(walk, models=[*order], **asked)
    prompt: dict[str, Any] = {"messages": [{"role": "user", "content": "hi"}]} if mode.chat else {"prompt": "hi"}
    common = {**prompt, "stream": mode.stream, "temperature": 0.2}
    plain = {**common, "model": "up-plain1", "max_tokens": 100, "k": {"a": [1]}}
    plain |= {"store": True} if mode.chat else {}
    plain |= {"stream_options": {"include_usage": True}} if mode.stream else {}
    bound = "max_completion_tokens" if mode.chat else "max_tokens"  # the older endpoint knows no other name
    exacting = {**common, "model": "up-exacting1", bound: 50, "service_tier": "prio"}
    exacting |= {"fail_fast": True} if order[0] == "exacting" else {}
    bodies = {name: msgspec.json.decode(request.body) for name, request in sent(walk).items()}
    assert bodies["plain1"] == plain
    assert bodies["exacting1"] == exacting
    lowered = response.headers.get("x-gateway-adjusted-params")
    dropped = response.headers.get("x-gateway-dropped-params")
    if order[1] == "plain":
        assert (lowered, dropped) == (None, None), "what the one that did not serve was spared is nobody's business"
    else:
        assert (lowered, dropped) == ("max_tokens=50", "k, store" if mode.chat else "k")


async def test_fb_14_requests_at_the_same_time_do_not_mix(walk: Scene) -> None:
    walk.models.acts.update({"A": refuses(429, BUSY), "plain1": refuses(500)})
    asking = [CHAT.ask(walk, models=["A", "plain", "B"], user=f"user-{number}", seed=number) for number in range(20)]
    answers = await asyncio.gather(*asking)
    assert {tuple(outcomes(answer)) for answer in answers} <= {("busy", "server", "ok"), ("refused", "server", "ok")}
    bodies = [msgspec.json.decode(request.body) for request in walk.server.requests[-40:]]
    assert all(body["user"] == f"user-{body['seed']}" for body in bodies)
