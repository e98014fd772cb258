"""Cases FB-01, FB-02, FB-03 and FB-21: up to the first content anything may be moved to another model, after it nothing."""

from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest
import pytest_asyncio

from tests.fakes.http_server import Call, Script
from tests.fakes.openai import DONE, JSON, SSE, USAGE, answers, event, refuses, silence, streams
from tests.field.metering import Metered
from tests.field.walking import (
    CHAT,
    CHAT_STREAM,
    FRAMINGS,
    MODES,
    STREAMS,
    Mode,
    bytes_apart,
    chunks,
    failing,
    model,
    outcomes,
    payloads,
    walking,
    walks,
)
from tests.integration.scene import Scene
from tests.valkey import Valkey

pytestmark = pytest.mark.asyncio(loop_scope="module")


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def shared(valkey_server: Valkey, tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Metered]:
    """B is at an account of its own: it is there at once, whatever A's account is out of."""
    short, elsewhere = model(name="short", timeouts={"total": "200ms"}), model(name="B")
    elsewhere["deployments"][0]["provider"] = "q"
    async with walking(walks(models={"short": short, "B": elsewhere}), valkey_server, tmp_path_factory) as found:
        yield found


@pytest_asyncio.fixture(loop_scope="module")
async def walk(shared: Metered) -> AsyncIterator[Metered]:
    yield shared
    await shared.rest()


def harmless(mode: Mode) -> dict[str, tuple[bytes, ...]]:
    """Return beginnings that say nothing."""
    return {
        "nothing": (),
        "ping": (b": ping\n\n", b": ping\n\n"),
        "opening": (mode.chunk(),),
        "opening and ping": (mode.chunk(), b": ping\n\n"),
        "empty text": (mode.chunk(), mode.chunk("")),
        "usage alone": (event({}, choices=[], usage=USAGE),),
        "no choices": (event({}, choices=[]), event({}, choices=None)),
        "retry and empty data": (b"retry: 10\n\n", b"data:\n\n", b"event: ping\n\n"),
    }


TROUBLES: dict[str, tuple[bytes, str]] = {
    "quota": (failing(429, "quota"), "account_rate"),
    "overloaded": (failing(529, "overloaded"), "busy"),
    "server": (failing(502, "down"), "server"),
    "unknown": (b'data: {"error":"it broke"}\n\n', "bad_answer"),
    "named event": (b'event: error\ndata: {"error":{"message":"boom","type":"server_error"}}\n\n', "server"),
}


@pytest.mark.parametrize("mode", STREAMS, ids=str)
@pytest.mark.parametrize("beginning", harmless(CHAT_STREAM))
async def test_fb_01_an_error_behind_a_harmless_beginning(beginning: str, mode: Mode, walk: Metered) -> None:
    for trouble, outcome in TROUBLES.values() if mode.chat else [TROUBLES["quota"]]:
        walk.models.asked.clear()
        walk.models.acts.update({"A": streams(*harmless(mode)[beginning], trouble), "B": mode.answer("Hello")})
        response = await mode.ask(walk, models=["A", "B"])
        assert (mode.text(response), response.headers["x-gateway-attempts"]) == ("Hello", "A;200, B;200")
        assert outcomes(response) == [outcome, "ok"]
        assert walk.models.asked == ["A", "B"]
        assert response.text.count('"role"') == mode.chat
        assert payloads(response).count("[DONE]") == 1
        line = (await walk.notes.lines())[-1]
        assert (line["model_served"], len(line["attempts"]), line["outcome"]) == ("B", 2, "ok")


@pytest.mark.parametrize("mode", STREAMS, ids=str)
@pytest.mark.parametrize("end", [Call.end, Call.reset, Call.close], ids=["end", "reset", "cut"])
async def test_fb_01_an_end_behind_a_harmless_beginning(end: Callable[[Call], None], mode: Mode, walk: Scene) -> None:
    for beginning in harmless(mode).values():
        walk.models.acts.update({"A": streams(*beginning, then=end), "B": mode.answer("Hello")})
        response = await mode.ask(walk, models=["A", "B"])
        assert (mode.text(response), response.headers["x-gateway-model"]) == ("Hello", "B")
        assert response.text.count('"role"') == mode.chat


@pytest.mark.parametrize("framing", FRAMINGS)
async def test_fb_01_wherever_the_bytes_are_cut(framing: str, walk: Scene) -> None:
    mode = CHAT_STREAM
    data = (b": ping\n\n" + mode.chunk() + failing(529, "overloaded")).replace(b"\n", FRAMINGS[framing])
    walk.models.acts["B"] = mode.answer("Hello")
    for cut in range(1, len(data), 5 if framing == "lf" else 11):
        walk.models.acts["A"] = bytes_apart(data, cut)
        response = await mode.ask(walk, models=["A", "B"])
        assert (mode.text(response), outcomes(response)) == ("Hello", ["busy", "ok"])
    walk.models.acts["A"] = bytes_apart(data, *range(1, len(data)))
    assert outcomes(await mode.ask(walk, models=["A", "B"])) == ["busy", "ok"]


@pytest.mark.parametrize("mode", STREAMS, ids=str)
@pytest.mark.parametrize(
    ("broken", "then"),
    [
        (b"", Call.reset),
        (b"", Call.close),
        (b"", Call.end),
        (failing(500, "boom"), Call.end),
        (failing(429, "Model busy"), Call.end),
        (failing(400, "messages: bad"), Call.end),
        (b'data: [{"error":{"code":503,"message":"down"}}]\n\n', Call.end),
        (b'data: {"detail":"worker-3.gpu.internal is gone"}\n\n', Call.end),
        (b"data: <html>\n\n", Call.end),
    ],
    ids=["reset", "cut", "end", "server", "busy", "client", "list", "detail", "html"],
)
async def test_fb_02_after_content_nobody_else_is_asked(
    broken: bytes, then: Callable[[Call], None], mode: Mode, walk: Metered
) -> None:
    walk.models.acts["A"] = streams(mode.chunk(), mode.chunk("Once upon"), *([broken] if broken else []), then=then)
    response = await mode.ask(walk, models=["A", "B"])
    assert (response.status_code, mode.text(response)) == (200, "Once upon")
    *_, last = chunks(response)
    assert (last["error"]["code"], last["error"]["type"]) == ("stream_interrupted", "upstream_error")
    assert "[DONE]" not in response.text
    assert "internal" not in response.text, "nothing of what the provider said of itself"
    assert walk.models.asked == ["A"]
    assert (await walk.line())["outcome"] == "interrupted"


@pytest.mark.parametrize("framing", FRAMINGS)
async def test_fb_02_content_and_an_error_however_they_are_cut(framing: str, walk: Scene) -> None:
    """What came before the error is delivered before it, in one write with it or apart (decision 18)."""
    mode = CHAT_STREAM
    data = (mode.chunk("Once") + failing(500, "boom")).replace(b"\n", FRAMINGS[framing])
    for cut in (*range(1, len(data), 5 if framing == "lf" else 11), len(data)):
        walk.models.acts["A"] = bytes_apart(data, cut)
        response = await mode.ask(walk, models=["A", "B"])
        assert mode.text(response) == "Once"
        assert [("error" in each) for each in chunks(response)] == [False, True]
        await walk.run.settled()  # faults in a row open the breaker: until the end of its probe is heard, others go elsewhere
    assert set(walk.models.asked) == {"A"}


async def head_alone(call: Call) -> None:
    call.head(200, SSE, chunked=True)
    await call.gone.wait()


async def pings(call: Call) -> None:
    call.head(200, SSE, chunked=True)
    call.piece(b": ping\n\n")
    await call.gone.wait()


async def opening(call: Call) -> None:
    call.head(200, SSE, chunked=True)
    call.piece(CHAT_STREAM.chunk() + CHAT_STREAM.chunk(""))
    await call.gone.wait()


async def half(call: Call) -> None:
    call.head(200, JSON, length=100)
    call.write(b'{"choices":[')
    await call.gone.wait()


@pytest.mark.parametrize("slow", [silence, head_alone, pings, opening], ids=lambda script: script.__name__)
async def test_fb_03_a_stream_that_never_says_anything_is_left(slow: Script, walk: Scene) -> None:
    walk.models.acts["A"] = slow
    response = await CHAT_STREAM.ask(walk, models=["A", "B"])
    assert (CHAT_STREAM.text(response), response.headers["x-gateway-attempts"]) == ("Hello", "A;0, B;200")
    assert outcomes(response) == ["timeout", "ok"]
    await walk.server.until(lambda: len(walk.server.lines) <= 1)


@pytest.mark.parametrize("slow", [silence, half], ids=lambda script: script.__name__)
async def test_fb_03_an_answer_that_never_comes_is_left(slow: Script, walk: Scene) -> None:
    walk.models.acts["short"] = slow
    response = await CHAT.ask(walk, models=["short", "B"])
    assert (CHAT.text(response), outcomes(response)) == ("Hello", ["timeout", "ok"])
    await walk.server.until(lambda: len(walk.server.lines) <= 1)


async def test_fb_03_where_nobody_is_left_the_client_hears_of_the_time(walk: Scene) -> None:
    walk.models.acts.update({"A": silence, "short": silence})
    for mode, name in ((CHAT_STREAM, "A"), (CHAT, "short")):
        response = await mode.ask(walk, model=name)
        assert (response.status_code, response.json()["error"]["code"]) == (504, "upstream_timeout")


@pytest.mark.parametrize("mode", MODES, ids=str)
@pytest.mark.parametrize("finish", ["length", "content_filter", "stop"])
async def test_fb_21_an_answer_without_text_is_an_answer(finish: str, mode: Mode, walk: Scene) -> None:
    """One that stopped with nothing said counts too: it finished (decision 18)."""
    walk.models.acts["T1"] = mode.answer("", finish)
    response = await mode.ask(walk, models=["T", "B"], max_tokens=1)
    assert (response.status_code, mode.text(response)) == (200, "")
    found = chunks(response) if mode.stream else [response.json()]
    assert found[-1]["choices"][0]["finish_reason"] == finish
    assert (walk.models.asked, response.headers["x-gateway-attempts"]) == (["T1"], "T;200")


CALL = {"index": 0, "id": "c", "type": "function", "function": {"name": "f", "arguments": "{}"}}
SAID_OTHERWISE: dict[str, dict[str, Any]] = {
    "tools": {"tool_calls": [CALL]},
    "reasoning": {"reasoning_content": "hm"},
    "refusal": {"refusal": "no"},
    "audio": {"audio": {"id": "a", "data": "AAAA"}},
}


@pytest.mark.parametrize("said", SAID_OTHERWISE)
async def test_fb_21_what_is_said_without_text_is_content(said: str, walk: Scene) -> None:
    members = SAID_OTHERWISE[said]
    choice = {"index": 0, "message": {"role": "assistant", "content": None, **members}, "finish_reason": "stop"}
    walk.models.acts["A"] = answers(choices=[choice])
    response = await CHAT.ask(walk, models=["A", "B"])
    assert response.json()["choices"] == [choice]
    walk.models.acts["A"] = streams(event(members), then=Call.reset)
    response = await CHAT_STREAM.ask(walk, models=["A", "B"])
    assert "error" in chunks(response)[-1], "it was content: nobody else may go on from it"
    walk.models.acts["A"] = streams(event(members), event({}, "stop"), DONE)
    response = await CHAT_STREAM.ask(walk, models=["A", "B"])
    assert payloads(response)[-1] == "[DONE]"
    assert walk.models.asked == ["A"] * 3


@pytest.mark.parametrize(
    "body", [b'{"choices":[]}', b'{"choices":null}', b'{"id":"x"}', b""], ids=["none", "null", "no", "nothing"]
)
async def test_fb_21_an_answer_without_a_choice_is_none(body: bytes, walk: Scene) -> None:
    walk.models.acts["A"] = refuses(200, body)
    response = await CHAT.ask(walk, models=["A", "B"])
    assert outcomes(response) == ["bad_answer", "ok"]
