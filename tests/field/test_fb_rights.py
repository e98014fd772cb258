"""Cases FB-17 and FB-18: no walk reaches a model that the key may not use, or past a limit that holds there."""

import asyncio
from collections.abc import AsyncIterator, Iterator
from typing import Any

import pytest
import pytest_asyncio

from tests.fakes.openai import refuses
from tests.field.metering import Metered
from tests.field.walking import CHAT, CHAT_STREAM, MODES, Mode, model, reset, walking, walks
from tests.integration.scene import Scene, bearer
from tests.valkey import Valkey

pytestmark = pytest.mark.asyncio(loop_scope="module")

FREE, DEAR = {"input": 0, "output": 0}, {"input": 0, "output": 100_000}
"""The dear one costs ten cents a token of output."""


def key(name: str, **rights: Any) -> dict[str, Any]:
    return {"name": name, "org": "acme", "secret": f"sk-test-secret-of-{name}", "default_tier": "default", **rights}


def of(name: str) -> dict[str, str]:
    return bearer(f"sk-test-secret-of-{name}")


ON_B = {"rpm": {"rpm": 1}, "rpd": {"rpd": 1}, "tpm": {"tpm": 60}, "slots": {"concurrency": 1}}
"""Limits of a key on the model B; the tokens are those of one request."""


def held_on_b() -> Iterator[tuple[str, dict[str, int]]]:
    """Yield who is held to what there. Each has an org of its own: what others' answers teach of prompts changes estimates."""
    for mode in MODES:
        yield from ((f"{name}-{mode}", limits) for name, limits in ON_B.items())


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def shared(valkey_server: Valkey, tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Metered]:
    models = {
        "led": model(name="led", fallbacks=["B", "C"]),
        "led-to-B": model(name="led-to-B", fallbacks=["B"]),
        "B": model(name="B", aliases=["alias-of-B"]),
        "free": model(name="free", price=FREE, fallbacks=["dear"]),
        "dear": model(name="dear", price=DEAR),
    }
    breaker = {"failures": 1_000, "window": "1ms", "cooldown_max": "1ms"}
    settings = walks(models=models, breaker=breaker, tiers={"default": {"queue": "0s"}}, plan={"tiers": ["default"]})
    settings["keys"] += [
        key("narrow", models=["led*", "A", "C"]),
        key("narrower", models=["led*", "A"]),
        key("at-p", providers=["p"]),
        *(key(name, org=f"org-of-{name}", limits={"per_model": {"B": limits}}) for name, limits in held_on_b()),
        *(key(f"poor-{mode}", budget={"usd": 0.25}) for mode in MODES),
        key("broke", budget={"usd": 0}),
    ]
    settings["orgs"] |= {f"org-of-{name}": {} for name, _ in held_on_b()}
    async with walking(settings, valkey_server, tmp_path_factory) as found:
        yield found


@pytest_asyncio.fixture(loop_scope="module")
async def walk(shared: Metered) -> AsyncIterator[Metered]:
    yield shared
    await shared.rest()
    await reset(shared)


@pytest.mark.parametrize("mode", MODES, ids=str)
async def test_fb_17_a_forbidden_entry_is_refused_up_front_as_an_unknown_one_is(mode: Mode, walk: Scene) -> None:
    """Even where the first of the list would have served (decision 24)."""
    told = []
    for entry in ("B", "alias-of-B", "never-heard-of"):
        response = await mode.ask(walk, headers=of("narrow"), models=["A", entry])
        assert (response.status_code, response.json()["error"]["code"]) == (404, "model_not_found")
        told.append(response.text.replace(f"'{entry}'", "'it'"))
    assert len(set(told)) == 1
    assert walk.models.asked == []


@pytest.mark.parametrize("mode", MODES, ids=str)
@pytest.mark.parametrize("status", [500, 503, 401])
async def test_fb_17_a_forbidden_fallback_of_the_configuration_is_passed_over(status: int, mode: Mode, walk: Scene) -> None:
    walk.models.acts.update({"led": refuses(status), "led-to-B": refuses(status)})
    response = await mode.ask(walk, headers=of("narrow"), model="led")
    assert (response.status_code, walk.models.asked) == (200, ["led", "C"])
    walk.models.asked.clear()
    for name in ("led", "led-to-B"):
        response = await mode.ask(walk, headers=of("narrower"), model=name)
        assert response.status_code in (429, 502)
    assert walk.models.asked == ["led", "led-to-B"]


@pytest.mark.parametrize("mode", MODES, ids=str)
async def test_fb_17_a_forbidden_provider_is_never_asked(mode: Mode, walk: Scene) -> None:
    walk.models.acts["T1"] = refuses(500)
    response = await mode.ask(walk, headers=of("at-p"), model="T")
    assert (response.status_code, walk.models.asked) == (502, ["T1"])


@pytest.mark.parametrize("mode", MODES, ids=str)
@pytest.mark.parametrize("limit", ["rpm", "rpd", "tpm"])
async def test_fb_18_a_limit_on_the_next_model_holds_for_who_is_led_there(limit: str, mode: Mode, walk: Scene) -> None:
    headers = of(f"{limit}-{mode}")
    walk.models.acts["A"] = refuses(500)
    answers = [await mode.ask(walk, headers=headers, models=["A", "B"], max_tokens=40) for _ in range(10)]
    assert [answer.status_code for answer in answers] == [200] + [429] * 9
    assert {answer.json()["error"]["code"] for answer in answers[1:]} == {"rate_limit_exceeded"}
    assert all(int(answer.headers["retry-after"]) >= 1 for answer in answers[1:])
    assert walk.models.asked.count("B") == 1
    del walk.models.acts["A"]
    assert (await mode.ask(walk, headers=headers, models=["A", "B"])).status_code == 200, "what holds on B, holds on B alone"


@pytest.mark.parametrize("mode", MODES, ids=str)
async def test_fb_18_slots_on_the_next_model_hold_for_who_is_led_there(mode: Mode, walk: Scene) -> None:
    headers = of(f"slots-{mode}")
    walk.models.acts["A"] = refuses(500)
    body = {"model": "B", "messages": [{"role": "user", "content": "hold"}], "user": "holder"}
    holding = asyncio.create_task(walk.run.client.post("/v1/chat/completions", json=body, headers=headers))
    before = len(walk.server.requests)
    await walk.server.until(lambda: len(walk.server.requests) > before)
    asked = {"messages": [{"role": "user", "content": "hi"}]} if mode.chat else {"prompt": "hi"}
    path = "/v1/chat/completions" if mode.chat else "/v1/completions"
    response = await walk.run.client.post(path, json={**asked, "models": ["A", "B"], "stream": mode.stream}, headers=headers)
    assert (response.status_code, response.json()["error"]["code"]) == (429, "rate_limit_exceeded")
    assert walk.models.asked == ["A"]
    walk.models.release()
    assert (await holding).status_code == 200


@pytest.mark.parametrize("mode", MODES, ids=str)
async def test_fb_18_a_budget_pays_for_the_model_that_serves(mode: Mode, walk: Metered) -> None:
    """Two requests of ten cents fit; the third is refused before anybody is asked, since it may come to the dear one (36)."""
    headers = of(f"poor-{mode}")
    walk.models.acts["free"] = refuses(500)
    finished = {"prompt_tokens": 1, "completion_tokens": 1, "total_tokens": 2}
    walk.models.acts["dear"] = mode.answer("a", usage=finished)
    answers = [await mode.ask(walk, headers=headers, model="free", max_tokens=1) for _ in range(10)]
    assert [answer.status_code for answer in answers] == [200] * 2 + [402] * 8
    assert {(answer.json()["error"]["code"], answer.headers["x-should-retry"]) for answer in answers[2:]} == {
        ("insufficient_quota", "false")
    }
    assert walk.models.asked == ["free", "dear"] * 2
    lines = (await walk.notes.lines())[:2]
    told = [(line["model_requested"], line["model_served"], line["cost_nano_usd"]) for line in lines]
    assert told == [("free", "dear", 100_000_000)] * 2


async def test_fb_18_without_a_budget_left_what_is_free_is_free(walk: Scene) -> None:
    for mode in (CHAT, CHAT_STREAM):
        assert (await mode.ask(walk, headers=of("broke"), models=["free"])).status_code == 200
        assert (await mode.ask(walk, headers=of("broke"), models=["free", "dear"])).status_code == 402
    assert walk.models.asked == ["free", "free"]
