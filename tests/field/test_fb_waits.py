"""Cases FB-04, FB-05 and FB-06: when an upstream is left alone, for how long, and that the only one never is for good."""

import asyncio
from collections.abc import AsyncIterator
from email.utils import formatdate
from itertools import pairwise

import msgspec
import pytest
import pytest_asyncio

from tests.fakes.http_server import Call, Script
from tests.fakes.openai import BUSY, error, refuses
from tests.field.walking import CHAT, CHAT_STREAM, MODES, Mode, model, outcomes, reset, walking, walks
from tests.integration.fallback.chain import closed_url
from tests.integration.scene import Scene
from tests.valkey import Valkey

pytestmark = pytest.mark.asyncio(loop_scope="module")

THROTTLED = error("Rate limit reached", code="rate_limit_exceeded")


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def shared(valkey_server: Valkey, tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Scene]:
    """Rules as they ship, but for a breaker that opens for long and a queue that nobody waits in for long."""
    models = {"three": model("p", "q", "r", name="three"), "closed": model("nobody", name="closed")}
    tiers = {"priority": {"queue": "2s"}, "default": {"queue": "2s"}}
    rights = {"tiers": ["priority", "default"], "explain": True}
    found = walks(models=models, tiers=tiers, breaker={"open": "60s"}, plan=rights)
    providers = {name: {**found["providers"]["p"], "base_url": "{upstream}/v1"} for name in "pqr"}
    providers["nobody"] = {**found["providers"]["nobody"], "base_url": f"{closed_url()}/v1"}
    async with walking({**found, "providers": providers}, valkey_server, tmp_path_factory) as scene:
        yield scene


@pytest_asyncio.fixture(loop_scope="module")
async def walk(shared: Scene) -> AsyncIterator[Scene]:
    """Every case finds all upstreams well."""
    yield shared
    await shared.rest()
    await reset(shared)


class Turns:
    """What an upstream does, one after another, and when it was asked; it answers when there is no more."""

    def __init__(self, *scripts: Script, mode: Mode = CHAT) -> None:
        self.asked_s: list[float] = []
        self._scripts = iter(scripts)
        self._mode = mode

    async def __call__(self, call: Call) -> None:
        self.asked_s.append(asyncio.get_running_loop().time())
        await next(self._scripts, self._mode.answer("Hello"))(call)


async def test_fb_04_each_wait_is_the_latest_that_was_asked_for(walk: Scene) -> None:
    """In every mode, each of which has a model of its own here."""
    waits_ms = (60, 180, 90)
    hints = [{"retry_after_ms": "60"}, {"retry_after": "0.18"}, {"retry_after_ms": "90", "retry_after": "7"}]
    scripts = [Turns(*(refuses(429, BUSY, **hint) for hint in hints), mode=mode) for mode in MODES]
    walk.models.acts.update(zip("ABCD", scripts, strict=True))
    responses = await asyncio.gather(*(mode.ask(walk, model=name) for mode, name in zip(MODES, "ABCD", strict=True)))
    for mode, script, response in zip(MODES, scripts, responses, strict=True):
        assert (mode.text(response), outcomes(response)) == ("Hello", ["busy", "busy", "busy", "ok"])
        apart_ms = [1000 * (later - earlier) for earlier, later in pairwise(script.asked_s)]
        assert all(apart >= wait for apart, wait in zip(apart_ms, waits_ms, strict=True))


def dated(seconds: int) -> dict[str, str]:
    now_s = 1_780_000_000
    return {"date": formatdate(now_s, usegmt=True), "retry_after": formatdate(now_s + seconds, usegmt=True)}


HINTS: dict[str, tuple[dict[str, str], int]] = {
    "seconds": ({"retry_after": "3"}, 3),
    "a fraction": ({"retry_after": "2.2"}, 3),
    "milliseconds": ({"retry_after_ms": "3400", "retry_after": "9"}, 4),
    "a date": (dated(3), 3),
    "a date that is over": (dated(-3), 1),
    "negative": ({"retry_after": "-5"}, 1),
    "text": ({"retry_after": "abc"}, 1),
    "nothing": ({}, 1),
    "a day": ({"retry_after": "86400"}, 86_400),
    "longer than a day": ({"retry_after": "1982300"}, 86_400),
}


@pytest.mark.parametrize("mode", [CHAT, CHAT_STREAM], ids=str)
@pytest.mark.parametrize("hint", HINTS)
async def test_fb_04_a_wait_is_passed_on_in_every_form(hint: str, mode: Mode, walk: Scene) -> None:
    headers, expected_s = HINTS[hint]
    for status, body in ((429, BUSY), (429, THROTTLED), (503, b"")):
        walk.models.acts["A"] = refuses(status, body, **headers)
        response = await mode.ask(walk, model="A", fail_fast=True)
        assert (response.status_code, response.json()["error"]["code"]) == (429, "engine_overloaded")
        assert int(response.headers["retry-after"]) == expected_s
        assert ("x-should-retry" in response.headers) == (expected_s > 60)
        await reset(walk)


@pytest.mark.parametrize("mode", [CHAT, CHAT_STREAM], ids=str)
@pytest.mark.parametrize(
    ("hint", "headers"),
    [("30", {}), ("1", {"x-request-timeout": "0.5"}), ("86400", {})],
    ids=["its tier's patience", "its client's", "a day"],
)
async def test_fb_04_who_cannot_wait_so_long_is_told_at_once(hint: str, headers: dict[str, str], mode: Mode, walk: Scene) -> None:
    walk.models.acts["A"] = refuses(429, BUSY, retry_after=hint)
    response = await mode.ask(walk, model="A", headers=headers)
    assert (response.status_code, response.headers["retry-after"]) == (429, hint)
    told = msgspec.json.decode(response.headers["x-gateway-explain"])
    assert "queued_ms" not in told, "not a moment of it was waited for"
    assert walk.models.asked == ["A"]


async def test_fb_05_the_only_upstream_is_asked_though_its_breaker_is_open(walk: Scene) -> None:
    walk.models.acts["A"] = refuses(401)
    assert (await CHAT.ask(walk, model="A")).status_code == 502, "a refused credential opens it at once, for a minute"
    walk.models.acts["A"] = refuses(500)
    for _ in range(8):
        assert (await CHAT.ask(walk, model="A")).status_code == 502
    del walk.models.acts["A"]
    assert [(await CHAT.ask(walk, model="A")).status_code for _ in range(3)] == [200] * 3
    assert walk.models.asked == ["A"] * 12


async def test_fb_05_the_last_of_several_is_asked_though_all_their_breakers_are_open(walk: Scene) -> None:
    walk.models.acts.update(dict.fromkeys(("three1", "three2", "three3"), refuses(500)))
    for _ in range(6):
        assert (await CHAT.ask(walk, model="three")).status_code == 502
    walk.models.acts.clear()
    walk.models.asked.clear()
    response = await CHAT.ask(walk, model="three")
    assert (response.status_code, outcomes(response)) == (200, ["refused", "refused", "ok"])
    assert walk.models.asked == ["three3"]


async def test_fb_05_one_blip_does_not_take_the_only_upstream_away(walk: Scene) -> None:
    script = walk.models.acts["A"] = Turns(refuses(503, retry_after_ms="40"), refuses(503, retry_after_ms="40"))
    for _ in range(3):
        assert (await CHAT.ask(walk, model="A")).status_code == 200
    assert len(script.asked_s) == 5


@pytest.mark.parametrize("body", [BUSY, THROTTLED], ids=["busy", "throttled"])
async def test_fb_05_where_all_are_cooling_the_earliest_return_is_told_and_waited_for(body: bytes, walk: Scene) -> None:
    waits_s = {"three1": "6", "three2": "4", "three3": "9"}
    walk.models.acts.update({name: refuses(429, body, retry_after=wait) for name, wait in waits_s.items()})
    response = await CHAT.ask(walk, model="three", fail_fast=True)
    assert (response.status_code, response.headers["retry-after"], len(walk.models.asked)) == (429, "4", 3)
    response = await CHAT.ask(walk, model="three", fail_fast=True)
    assert (response.status_code, len(walk.models.asked)) == (429, 3), "nobody is asked before"
    assert 3 <= int(response.headers["retry-after"]) <= 5
    await reset(walk)
    waits_ms = {"three1": "9000", "three2": "150", "three3": "7000"}
    walk.models.acts.update({name: Turns(refuses(429, body, retry_after_ms=wait)) for name, wait in waits_ms.items()})
    response = await CHAT.ask(walk, model="three")
    assert (response.status_code, outcomes(response)[-1]) == (200, "ok"), "and who can wait is served when one is back"
    assert walk.models.asked[6:] == ["three2"]


@pytest.mark.parametrize("mode", [CHAT, CHAT_STREAM], ids=str)
async def test_fb_06_a_failure_or_some_take_nobody_out(mode: Mode, walk: Scene) -> None:
    """Five in a row would, and half of twenty: fewer say nothing."""
    walk.models.acts["T1"] = refuses(500)
    await mode.ask(walk, model="T")
    del walk.models.acts["T1"]
    await mode.ask(walk, model="T")
    await reset(walk)  # a store's first word of a stream takes the time that it takes to teach it what to do about one
    for _ in range(9):
        walk.models.acts["T1"] = refuses(500)
        assert outcomes(await mode.ask(walk, model="T")) == ["server", "ok"]
        del walk.models.acts["T1"]
        assert outcomes(await mode.ask(walk, model="T")) == ["ok"]
    walk.models.acts["T1"] = refuses(500)
    for _ in range(2):
        assert outcomes(await mode.ask(walk, model="T")) == ["server", "ok"]
    assert outcomes(await mode.ask(walk, model="T")) == ["refused", "ok"], "twenty have ended, and more than half failed"
