"""Cases TQ-01 to TQ-05: how long a request waits, who comes first, and that the tier is what was asked for or said not to be."""

import asyncio
from collections.abc import AsyncIterator
from itertools import pairwise
from typing import Any

import httpx
import msgspec
import pytest
import pytest_asyncio

from tests.fakes.http_server import Call
from tests.fakes.openai import DONE, USAGE, answers, event, refuses, streams
from tests.fakes.wire import Wire, post
from tests.field.metering import Metered
from tests.field.walking import CHAT, CHAT_STREAM, MODES, Mode, chunks, model, outcomes, walking, walks
from tests.integration.scene import Scene
from tests.running import HEADERS
from tests.valkey import Valkey

pytestmark = pytest.mark.asyncio(loop_scope="module")

TIERS = {
    "priority": {"queue": "5s", "price": 1.5},
    "default": {"queue": "5s", "price": 1.0},
    "flex": {"queue": "150ms", "price": 0.5},
    "over-limit": {"queue": "0s"},
    "no-limit": {"queue": "5s"},
}
NAMED = {"priority": "prio", "default": "std", "flex": "slow"}


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def shared(valkey_server: Valkey, tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Metered]:
    def narrow(name: str) -> dict[str, Any]:
        found = model(name=name, queue={"max_waiters": 200, "per_org": 1})
        found["deployments"][0]["max_concurrency"] = 1
        return found

    models = {
        "one": narrow("one"),
        "named": model("named", name="named"),
        "plain": model(name="plain", tiers=["default"]),
    }
    settings = walks(models=models, tiers=TIERS, breaker={"failures": 1_000, "window": "1ms", "cooldown_max": "1ms"})
    settings["providers"]["named"] = {**settings["providers"]["p"], "tiers": NAMED}
    settings["keys"][0] |= {"allow_no_limit": True}
    async with walking(settings, valkey_server, tmp_path_factory) as found:
        yield found


@pytest_asyncio.fixture(loop_scope="module")
async def walk(shared: Metered) -> AsyncIterator[Metered]:
    yield shared
    await shared.rest()


async def depth(walk: Scene) -> float:
    """Return how many wait, as the metrics say it."""
    lines = (await walk.run.gateway._exposition.render()).decode().splitlines()
    return sum(float(line.rpartition(" ")[2]) for line in lines if line.startswith("tiergate_queue_depth{"))


@pytest.mark.parametrize("mode", MODES, ids=str)
async def test_tq_01_a_wait_ends_before_the_clients_patience_does(mode: Mode, walk: Scene) -> None:
    async with walk.filled("one"):
        response = await mode_ask(walk, mode, {"x-request-timeout": "0.2"}, model="one")
    assert (response.status_code, response.json()["error"]["code"]) == (429, "engine_overloaded")
    assert int(response.headers["retry-after"]) >= 1
    assert walk.models.asked == []


async def mode_ask(walk: Scene, mode: Mode, headers: dict[str, str], **fields: Any) -> httpx.Response:
    """Ask without waiting for the rest of the gateway to be still, which it is not here."""
    asked: dict[str, Any] = {"messages": [{"role": "user", "content": "hi"}]} if mode.chat else {"prompt": "hi"}
    path = "/v1/chat/completions" if mode.chat else "/v1/completions"
    return await walk.run.client.post(path, json={**asked, "stream": mode.stream, **fields}, headers=headers)


async def test_tq_01_an_sdks_own_patience_counts_where_it_says_so(walk: Scene) -> None:
    async with walk.filled("one"):
        response = await mode_ask(walk, CHAT, {"x-stainless-read-timeout": "0.4"}, model="one")
        assert (response.status_code, response.json()["error"]["code"]) == (429, "engine_overloaded")


async def test_tq_01_the_clock_runs_from_the_requests_arrival(walk: Scene) -> None:
    """A body that takes all of the time leaves none to wait in."""
    body = msgspec.json.encode({"model": "one", "messages": [{"role": "user", "content": "hi"}]})
    data = post(body, *HEADERS.items(), ("content-type", "application/json"), ("x-request-timeout", "0.1"))
    async with walk.filled("one"), Wire(walk.run.url) as wire:
        await wire.send(data[:-5])
        await asyncio.sleep(0.15)
        await wire.send(data[-5:])
        answer = await wire.answer()
    assert (answer.status, answer.json()["error"]["code"]) == (429, "engine_overloaded")
    assert walk.models.asked == []
    assert await depth(walk) == 0


async def test_tq_02_those_who_leave_hold_no_places_and_start_nothing(walk: Metered) -> None:
    before = len(walk.server.requests)
    async with walk.filled("one"):
        leaving = [asyncio.create_task(mode_ask(walk, CHAT, {}, model="one")) for _ in range(19)]
        await walk.run.waiting(19)
        staying = asyncio.create_task(mode_ask(walk, CHAT_STREAM, {}, model="one"))
        await walk.run.waiting(20)
        assert await depth(walk) == 20
        for each in leaving:
            each.cancel()
        await asyncio.gather(*leaving, return_exceptions=True)
        await walk.run.waiting(1)
        assert await depth(walk) == 1
    assert (await staying).status_code == 200
    assert len(walk.server.requests) - before == 2
    assert await depth(walk) == 0
    assert [line["outcome"] for line in await walk.notes.lines()].count("cancelled") == 19


async def test_tq_03_the_lower_tier_has_its_share_of_the_turns(walk: Scene) -> None:
    """One turn of five goes to default while priority waits too, and flex is told in time."""
    served: list[str] = []

    async def act(call: Call) -> None:
        served.append(msgspec.json.decode(call.request.body)["user"])
        await answers()(call)

    walk.models.acts["one"] = act
    async with walk.filled("one"):
        asking = []
        for number, tier in enumerate(("priority",) * 12 + ("default",) * 3, 1):
            asking.append(asyncio.create_task(mode_ask(walk, CHAT, {}, model="one", service_tier=tier, user=tier)))
            await walk.run.waiting(number)
        flex = await mode_ask(walk, CHAT, {}, model="one", service_tier="flex", user="flex")
        assert (flex.status_code, flex.json()["error"]["code"]) == (429, "flex_no_capacity")
    assert {each.status_code for each in await asyncio.gather(*asking)} == {200}
    turns = [place for place, tier in enumerate(served) if tier == "default"]
    assert [later - earlier for earlier, later in pairwise([-1, *turns])] == [5, 5, 5]


SAID: dict[str, tuple[str, str]] = {
    "auto": ("default", "std"),
    "default": ("default", "std"),
    "standard": ("default", "std"),
    "flex": ("flex", "slow"),
    "priority": ("priority", "prio"),
    "fast": ("priority", "prio"),
    "no-limit": ("no-limit", ""),
}
"""What is asked for: the tier that the answer names, and the provider's own word for it."""


async def tiers(walk: Metered) -> dict[str, tuple[str, str, int]]:
    """Return by request what was noted of its tier: asked for and served, and the cost in nano-USD."""
    lines = await walk.notes.lines()
    return {line["request_id"]: (line["tier_requested"], line["tier_served"], line["cost_nano_usd"]) for line in lines}


@pytest.mark.parametrize("mode", MODES, ids=str)
async def test_tq_04_a_tier_is_served_as_asked_and_never_sent_in_our_words(mode: Mode, walk: Metered) -> None:
    expected = {}
    for word, (tier, theirs) in SAID.items():
        for name in ("one", "named"):
            response = await mode.ask(walk, model=name, service_tier=word)
            found = chunks(response) if mode.stream else [response.json()]
            assert {each["service_tier"] for each in found} == {tier} == {response.headers["x-gateway-service-tier"]}
            sent = msgspec.json.decode(walk.server.requests[-1].body)
            assert sent.get("service_tier", "") == (theirs if name == "named" else "")
            expected[response.headers["x-request-id"]] = (word, tier)
    told = await tiers(walk)
    assert {request_id: told[request_id][:2] for request_id in expected} == expected


@pytest.mark.parametrize("mode", MODES, ids=str)
async def test_tq_04_what_is_no_tier_is_refused_on_every_route(mode: Mode, walk: Scene) -> None:
    for word, status in (("nonsense", 422), ("over-limit", 400), ("PRIORITY", 422), (5, 422), (["flex"], 422), ("", 422)):
        response = await mode.ask(walk, model="one", service_tier=word)
        assert (response.status_code, response.json()["error"]["param"]) == (status, "service_tier")
    assert (await mode.ask(walk, model="one", service_tier=None)).status_code == 200
    assert walk.models.asked == ["one"]


@pytest.mark.parametrize("mode", MODES, ids=str)
async def test_tq_05_a_model_without_the_tier_serves_its_own_and_says_so(mode: Mode, walk: Metered) -> None:
    walk.models.acts["named1"] = refuses(503)
    response = await mode.ask(walk, models=["named", "plain"], service_tier="priority")
    found = chunks(response) if mode.stream else [response.json()]
    assert {(each["model"], each["service_tier"]) for each in found} == {("plain", "default")}
    assert response.headers["x-gateway-service-tier"] == "default"
    assert outcomes(response) == ["busy", "ok"]
    [first, second] = walk.server.requests[-2:]
    assert msgspec.json.decode(first.body)["service_tier"] == "prio"
    assert "service_tier" not in msgspec.json.decode(second.body)
    assert (await walk.line())["tier_served"] == "default"


@pytest.mark.parametrize("mode", MODES, ids=str)
async def test_tq_05_what_a_provider_serves_instead_is_shown_and_paid(mode: Mode, walk: Metered) -> None:
    expected = {}
    for word, shown, cost in (("prio", "priority", 75_000), ("std", "default", 50_000), ("other", "priority", 75_000)):
        if mode.stream:
            pieces = (mode.chunk(), mode.chunk("Hello"), mode.chunk(finish="stop"), event({}, choices=[], usage=USAGE))
            named = (piece.replace(b'"id"', b'"service_tier":"%b","id"' % word.encode()) for piece in pieces)
            script = streams(*named, DONE)
        else:
            script = mode.answer("Hello", service_tier=word)
        walk.models.acts["named1"] = script
        response = await mode.ask(walk, models=["named", "plain"], service_tier="priority")
        found = chunks(response) if mode.stream else [response.json()]
        assert {each["service_tier"] for each in found} == {shown}
        expected[response.headers["x-request-id"]] = ("priority", shown, cost)
    told = await tiers(walk)
    assert {request_id: told[request_id] for request_id in expected} == expected
