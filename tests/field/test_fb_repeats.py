"""Cases FB-15, FB-16 and FB-19: what was sent is never sent there again, nobody walks on for who has left, streams walk alike."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio

from tests.fakes.http_server import BlackHole, Call, Script
from tests.fakes.openai import BUSY, JSON, SSE, Models, completion, error, refuses, silence
from tests.field.metering import Metered
from tests.field.walking import CHAT, CHAT_STREAM, MODES, Mode, model, outcomes, walking, walks
from tests.integration.scene import Scene, scene
from tests.valkey import Valkey

pytestmark = pytest.mark.asyncio(loop_scope="module")

FORGIVING = {"failures": 1_000, "window": "1ms", "cooldown_max": "1ms", "open": "1ms", "max_open": "1ms"}


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def shared(valkey_server: Valkey, tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Metered]:
    quick = {"first_content": "250ms", "total": "250ms"}
    models = {
        "T": model("p", "q", name="T", timeouts=quick),
        "half": model("nobody", "p", name="half"),
        "hole": model("hole", name="hole", timeouts={"connect": "80ms"}),
        "alone": model(name="alone"),
        "B": model("r", name="B"),
    }
    async with BlackHole() as hole:
        settings = walks(models=models, breaker=FORGIVING)
        settings["providers"]["r"] = {**settings["providers"]["p"], "api_key": "sk-up-r"}
        settings["providers"]["hole"] = {**settings["providers"]["p"], "base_url": f"{hole.base_url}/v1"}
        async with walking(settings, valkey_server, tmp_path_factory) as found:
            yield found


@pytest_asyncio.fixture(loop_scope="module")
async def walk(shared: Metered) -> AsyncIterator[Metered]:
    yield shared
    await shared.rest()


async def reset(call: Call) -> None:
    call.reset()


async def close(call: Call) -> None:
    call.close()


async def half_a_head(call: Call) -> None:
    call.write(b"HTTP/1.1 200 OK\r\ncontent-ty")
    call.close()


async def half_an_answer(call: Call) -> None:
    call.head(200, JSON, length=len(completion()))
    call.write(completion()[:50])
    call.close()


async def half_a_stream(call: Call) -> None:
    call.head(200, SSE, chunked=True)
    call.piece(CHAT_STREAM.chunk())
    call.reset()


async def no_http(call: Call) -> None:
    call.write(b"* BYE\r\n\r\n")


AFTER_WORK: tuple[Script, ...] = (reset, close, half_a_head, half_an_answer, no_http, silence, refuses(500), refuses(504))


@pytest.mark.parametrize("mode", MODES, ids=str)
@pytest.mark.parametrize("script", AFTER_WORK, ids=lambda script: script.__name__)
async def test_fb_15_what_was_sent_is_not_sent_there_again(script: Script, mode: Mode, walk: Scene) -> None:
    """It may go to another one, once to each (decision 18)."""
    walk.models.acts.update({"T1": script, "T2": mode.answer("Hello")})
    response = await mode.ask(walk, model="T")
    assert (mode.text(response), walk.models.asked) == ("Hello", ["T1", "T2"])
    walk.models.acts["T2"] = script
    await walk.run.settled()
    response = await mode.ask(walk, model="T")
    assert response.status_code in (502, 504)
    assert walk.models.asked == ["T1", "T2"] * 2, response.headers["x-gateway-attempts"]
    assert len(outcomes(response)) == 2


@pytest.mark.parametrize("mode", MODES, ids=str)
async def test_fb_15_what_was_never_sent_goes_on_and_costs_nothing(mode: Mode, walk: Metered) -> None:
    walk.models.acts["half2"] = mode.answer("Hello")
    response = await mode.ask(walk, model="half")
    assert (mode.text(response), outcomes(response)) == ("Hello", ["connect", "ok"])
    response = await mode.ask(walk, models=["closed", "hole"])
    assert (response.status_code, response.json()["error"]["code"]) == (502, "upstream_unavailable")
    assert outcomes(response) == ["connect", "connect"]
    line = (await walk.notes.lines())[-1]
    assert (line["outcome"], line["cost_nano_usd"], line["input_tokens"]) == ("upstream_error", 0, 0)


async def test_fb_15_work_that_is_repeated_is_a_share_of_what_is_asked(valkey: Valkey, tmp_path: Path) -> None:
    """Three a second at any rate: of forty requests at once, at most thirty (and what another second adds)."""
    settings = walks(breaker=FORGIVING, fallback={})
    async with scene(Models(), settings, valkey, tmp_path) as walk:
        walk.models.acts["T1"] = refuses(500)
        answers = [await CHAT.ask(walk, model="T") for _ in range(40)]
        refused = [answer for answer in answers if answer.status_code != 200]
        assert 5 <= len(refused) <= 10
        assert {answer.headers["x-gateway-retry"] for answer in refused} == {"budget"}
        assert walk.models.asked.count("T2") == 40 - len(refused)


async def head_alone(call: Call) -> None:
    call.head(200, SSE, chunked=True)
    await call.gone.wait()


async def fails_at_its_going(call: Call) -> None:
    """Fail just when the other side hangs up."""
    await call.gone.wait()
    await refuses(500)(call)


@pytest.mark.parametrize("mode", MODES, ids=str)
@pytest.mark.parametrize("script", [silence, head_alone, fails_at_its_going], ids=lambda script: script.__name__)
async def test_fb_16_nobody_else_is_asked_for_a_client_that_has_left(script: Script, mode: Mode, walk: Metered) -> None:
    walk.models.acts["alone"] = script
    before = len(walk.server.requests)
    asking = asyncio.create_task(mode.ask(walk, models=["alone", "B", "C"]))
    await walk.server.until(lambda: len(walk.server.requests) > before)
    await leave(asking, walk)
    assert walk.models.asked == ["alone"]
    line = await walk.line()
    assert (line["outcome"], line["status"]) == ("cancelled", 499)


async def leave(asking: "asyncio.Task[Any]", walk: Scene) -> None:
    """Leave, and wait until nothing of the request is left."""
    asking.cancel()
    await asyncio.gather(asking, return_exceptions=True)
    await walk.run.settled()
    assert await walk.run.leases() == 0


async def test_fb_16_nor_while_a_connection_is_made(walk: Scene) -> None:
    asking = asyncio.create_task(CHAT.ask(walk, models=["hole", "B"]))
    async with asyncio.timeout(5.0):
        while not await walk.run.leases():
            await asyncio.sleep(0.002)
    await leave(asking, walk)
    assert walk.models.asked == []


ALIKE: dict[str, Script] = {
    "busy": refuses(429, BUSY),
    "throttled": refuses(429, error("Rate limit reached", code="rate_limit_exceeded")),
    "unavailable": refuses(503),
    "broken": refuses(500, b"<html>"),
    "our key": refuses(401),
    "our bill": refuses(400, error("Your credit balance is too low")),
    "no such model": refuses(404),
    "its timeout": refuses(504),
    "reset": reset,
    "closed": close,
    "silent": silence,
    "error inside": refuses(200, error("Model busy")),
    "page": refuses(200, b"<html>"),
    "nothing": refuses(200),
    "the client's": refuses(400, error("bad", code="invalid_value")),
}


@pytest.mark.parametrize("name", ALIKE)
async def test_fb_19_streams_and_answers_walk_alike(name: str, walk: Scene) -> None:
    walks_seen = []
    for mode in MODES:
        walk.models.asked.clear()
        walk.models.acts.update({"T1": ALIKE[name], "T2": ALIKE[name]})
        response = await mode.ask(walk, models=["T", "closed", "B"])
        walks_seen.append((response.status_code, outcomes(response), list(walk.models.asked)))
        await asyncio.sleep(0.003)  # what failed is forgiven in a millisecond
    assert walks_seen == [walks_seen[0]] * 4
    assert walks_seen[0][2] == (["T1"] if name == "the client's" else ["T1", "T2", "B1"])
