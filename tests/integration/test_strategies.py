"""Which deployment is asked first, by each strategy, through a running gateway and providers of different speed."""

import asyncio
import contextlib
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest
import pytest_asyncio

from gateway.config import Edition, load
from gateway.policy.figures import Figures
from gateway.policy.pace import LONGEST_S
from tests.fakes.http_server import Call, Script
from tests.fakes.openai import DONE, SSE, USAGE, USUAL_STREAM, Models, answers, event, refuses, silence, streams
from tests.integration.load.rest import comes_to_rest
from tests.integration.scene import Scene, scene
from tests.running import config
from tests.valkey import Valkey

pytestmark = pytest.mark.asyncio(loop_scope="module")

SLOW_S = 0.15
"""Some thirty times what the other takes, on a machine that is not too busy."""

STREAM = (*USUAL_STREAM, event({}, choices=[], usage=USAGE), DONE)
HI = {"messages": [{"role": "user", "content": "hi"}]}
PATIENT = {"failures": 1000, "ratio": 1.0, "open": "1ms", "max_open": "1ms", "cooldown_max": "1ms"}
"""Nothing is left alone here by anything but its strategy."""


def model(strategy: str, name: str, *rooms: int | None, provider: str = "p", **fields: Any) -> dict[str, Any]:
    """A model at deployments `{name}0`, `{name}1` and so on, each with so much room."""
    deployments = [
        {"provider": provider, "model": f"up-{name}{place}", **({} if room is None else {"max_concurrency": room})}
        for place, room in enumerate(rooms)
    ]
    return {"deployments": deployments, "strategy": strategy, **fields}


HASTY = {"first_content": "200ms"}
BY_SPEED = ("stream", "whole", "faulty", "unpaid", "hanging", "broken", "late", "want")
IN_TURN = [{"provider": "p", "model": f"up-ordered{order}", "order": order} for order in (1, 2)]
MODELS = {
    "wide": model("least_busy", "wide", 9, 3),
    "busy": model("least_busy", "busy", None, None),
    "full": model("least_busy", "full", 1, 1),
    "heard": model("least_busy", "heard", None, None, provider="drains"),
    **{name: model("latency", name, None, None) for name in BY_SPEED},
    "tardy": model("latency", "tardy", None, None, timeouts=HASTY),
    "lingering": model("latency", "lingering", None, None, provider="drains", timeouts=HASTY),
    "ordered": {"deployments": IN_TURN, "strategy": "latency"},
}


def settings() -> dict[str, Any]:
    found = config({"p": "{upstream}", "drains": "{upstream}"}, MODELS, breaker=PATIENT, fallback={"retry_budget": 1.0})
    found["providers"]["drains"]["on_disconnect"] = "drain"
    return found


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def shared(valkey_server: Valkey, tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Scene]:
    async with scene(Models(), settings(), valkey_server, tmp_path_factory.mktemp("strategies")) as found:
        yield found


@pytest_asyncio.fixture(loop_scope="module")
async def field(shared: Scene) -> AsyncIterator[Scene]:
    yield shared
    await comes_to_rest(shared.run)
    await shared.rest()


def figures_of(field: Scene) -> Figures:
    found = field.run.gateway._corridor.snapshot.figures
    assert found is not None
    return found


def asked(field: Scene, model: str) -> list[str]:
    """Return whom this model's requests went to, in order."""
    return [each.removeprefix(model) for each in field.models.asked if each.startswith(model)]


class Held:
    """Answers that wait to be let go of; streams have said their first word by then."""

    def __init__(self) -> None:
        self.go = asyncio.Event()
        self.here = 0

    async def __call__(self, call: Call) -> None:
        self.here += 1
        is_stream = b'"stream":true' in call.request.body
        if is_stream:
            call.head(200, SSE, chunked=True)
            for each in USUAL_STREAM[:2]:
                call.piece(each)
        await self.go.wait()
        if not is_stream:
            await answers()(call)
            return
        for each in STREAM[2:]:
            call.piece(each)
        call.end()

    async def until(self, count: int) -> None:
        async with asyncio.timeout(5):
            while self.here < count:
                await asyncio.sleep(0.002)


@asynccontextmanager
async def under_way(field: Scene, requests: int, **fields: Any) -> AsyncIterator[Held]:
    """Keep so many requests under way for the length of the block."""
    held = Held()
    for place in (0, 1):
        field.models.acts[f"{fields['model']}{place}"] = held
    asking = [asyncio.create_task(field.ask(**fields)) for _ in range(requests)]
    try:
        await held.until(requests)
        yield held
    finally:
        held.go.set()
        answered = await asyncio.gather(*asking)
    assert {answer.status_code for answer in answered} == {200}


def slowly(script: Script, seconds: float = SLOW_S) -> Script:
    async def act(call: Call) -> None:
        await asyncio.sleep(seconds)
        await script(call)

    return act


async def ask(field: Scene, requests: int, **fields: Any) -> Counter[str]:
    """Ask so often, one after the other. Return who was asked first."""
    before = len(asked(field, fields["model"]))
    for _ in range(requests):
        assert (await field.ask(**fields)).status_code == 200
    return Counter(asked(field, fields["model"])[before:])


@pytest.mark.parametrize("stream", [True, False])
async def test_requests_that_come_together_fill_the_same_share_of_each(field: Scene, stream: bool) -> None:
    async with under_way(field, 8, model="wide", stream=stream):
        assert Counter(asked(field, "wide")) == {"0": 6, "1": 2}
        assert figures_of(field).under_way("wide/p/up-wide0") == 6


async def test_without_a_ceiling_the_weights_are_their_room(field: Scene) -> None:
    async with under_way(field, 11, model="busy"):
        assert sorted(Counter(asked(field, "busy")).values()) == [5, 6]


async def test_a_request_goes_where_nobody_is(field: Scene) -> None:
    async with under_way(field, 1, model="busy", stream=True):
        [taken] = asked(field, "busy")
        other = "1" if taken == "0" else "0"
        field.models.acts[f"busy{other}"] = answers()
        assert await ask(field, 10, model="busy") == {other: 10}


async def test_a_full_one_is_passed_over_as_ever_and_who_waits_is_served(field: Scene) -> None:
    async with under_way(field, 2, model="full"):
        assert sorted(asked(field, "full")) == ["0", "1"]
        waiting = asyncio.create_task(field.ask(model="full"))
        await field.run.waiting(1)
        assert (await field.ask(model="full", fail_fast=True)).status_code == 429
    assert (await waiting).status_code == 200


@pytest.mark.parametrize("model", ["busy", "heard"])
@pytest.mark.parametrize("stream", [True, False])
async def test_a_client_that_leaves_is_counted_until_its_provider_is_left(field: Scene, model: str, stream: bool) -> None:
    held = Held()
    field.models.acts.update({f"{model}{place}": held for place in (0, 1)})
    asking = [asyncio.create_task(field.ask(model=model, stream=stream)) for _ in range(4)]
    await held.until(4)
    for each in asking[:2]:
        each.cancel()
    counted = 4 if model == "heard" else 2
    async with asyncio.timeout(5):
        while len(figures_of(field)) != counted:
            await asyncio.sleep(0.002)
    held.go.set()
    await asyncio.gather(*asking, return_exceptions=True)


@pytest.mark.parametrize("kind", ["stream", "whole"])
async def test_the_fastest_is_asked_and_one_that_has_become_fast_is_found_out(field: Scene, kind: str) -> None:
    fast = streams(*STREAM) if kind == "stream" else answers()
    fields: dict[str, Any] = {"model": kind, "stream": kind == "stream"}
    field.models.acts.update({f"{kind}0": slowly(fast), f"{kind}1": fast})
    assert set((await ask(field, 2, **fields)).elements()) == {"0", "1"}, "each is tried once"
    assert (await ask(field, 60, **fields))["0"] <= 8, "one in fifty, by chance"
    field.models.acts.update({f"{kind}0": fast, f"{kind}1": slowly(fast)})
    await ask(field, 25, **fields)
    assert (await ask(field, 40, **fields))["1"] <= 8


async def test_streams_tell_nothing_of_whole_answers(field: Scene) -> None:
    figures = figures_of(field)
    await ask(field, 2, model="late", stream=True)
    assert all(figures.look(f"late/p/up-late{place}", stream=True).pace for place in (0, 1))
    assert not any(figures.look(f"late/p/up-late{place}", stream=False).pace for place in (0, 1))


@pytest.mark.parametrize(("model", "status"), [("faulty", 500), ("unpaid", 401)])
async def test_a_fault_counts_as_slow(field: Scene, model: str, status: int) -> None:
    field.models.acts[f"{model}0"] = refuses(status)
    await ask(field, 2, model=model)
    assert "0" in asked(field, model), "it was tried"
    assert (await ask(field, 40, model=model))["0"] <= 8


async def test_a_provider_that_hangs_loses_its_turn_by_those_who_leave(field: Scene) -> None:
    field.models.acts["hanging0"] = silence
    for _ in range(40):
        with contextlib.suppress(httpx.TimeoutException):
            await field.run.client.post("/v1/chat/completions", json={"model": "hanging", **HI}, timeout=0.3)
        await field.run.settled()
    assert 1 <= Counter(asked(field, "hanging"))["0"] <= 8


@pytest.mark.parametrize(("model", "provider"), [("tardy", "p"), ("lingering", "drains")])
async def test_a_first_content_that_does_not_come_in_time_counts_as_a_fault(field: Scene, model: str, provider: str) -> None:
    field.models.acts[f"{model}0"] = silence
    await ask(field, 2, model=model, stream=True)
    tardy = figures_of(field).look(f"{model}/{provider}/up-{model}0", stream=True).pace
    assert tardy is not None
    assert tardy.seconds >= LONGEST_S


async def test_streams_that_break_off_count_as_faults(field: Scene) -> None:
    field.models.acts["broken0"] = streams(*USUAL_STREAM[:2], then=Call.reset)
    await ask(field, 2, model="broken", stream=True)
    places = ["broken/p/up-broken0", "broken/p/up-broken1"]
    breaking, whole = (figures_of(field).look(each, stream=True).pace for each in places)
    assert breaking is not None
    assert whole is not None
    assert (breaking.answers > 1, whole.answers) == (True, 1.0), "its beginning, and its end"


@pytest.mark.parametrize("refusal", [refuses(429), refuses(400)], ids=["no room", "the client's own fault"])
async def test_what_is_no_fault_tells_nothing(field: Scene, refusal: Script) -> None:
    field.models.acts["want0"] = field.models.acts["want1"] = refusal
    assert (await field.ask(model="want", fail_fast=True)).status_code in (400, 429)
    assert not any(figures_of(field).look(f"want/p/up-want{place}", stream=False).pace for place in (0, 1))


async def test_the_operators_order_comes_before_all_speed(field: Scene) -> None:
    field.models.acts["ordered1"] = slowly(answers(), 0.02)
    assert await ask(field, 20, model="ordered") == {"1": 20}


async def test_no_request_is_counted_where_all_are_by_weight(valkey: Valkey, tmp_path: Path) -> None:
    models = {"m": model("weighted", "m", None, None)}
    async with scene(Models(), config({"p": "{upstream}"}, models), valkey, tmp_path) as found:
        assert (await found.ask(model="m")).status_code == 200
        assert found.run.gateway._corridor.snapshot.figures is None


async def test_a_later_reading_goes_by_what_was_seen_before(valkey: Valkey, tmp_path: Path) -> None:
    found = config({"p": "{upstream}"}, {"m": model("latency", "m", None, None)})
    async with scene(Models(), found, valkey, tmp_path) as field:
        await ask(field, 2, model="m")
        before = figures_of(field)
        await field.run.gateway.take(Edition(2, load(tmp_path / "gateway.yaml", {}).config))
        assert field.run.gateway._generation.number == 2
        assert figures_of(field) is before
