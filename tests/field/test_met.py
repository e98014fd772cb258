"""Cases MET-05 to MET-07: series are as many as the file makes them, and each request is counted once, as what it was."""

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest
import pytest_asyncio

from tests.fakes.http_server import Call, Script
from tests.fakes.openai import DONE, SSE, answers, error, refuses, silence
from tests.field.counting import by_label, counted, moved, name_of, total
from tests.field.streaming import BOTH, Shape, Stage, apart, event, model, no_more, stage, used
from tests.valkey import Valkey

pytestmark = pytest.mark.asyncio(loop_scope="module")

shaped = pytest.mark.parametrize("shape", BOTH, ids=lambda shape: shape.name.lower())
carried = pytest.mark.parametrize("name", ["m", "x"], ids=["http1", "httpx"])

ROUNDS = 10
MARKER = "xq-marker"
PAUSE_S = 0.06

REQUESTS, DURATION = "tiergate_requests_total", "tiergate_request_duration_seconds"
FIRST_BYTE = "tiergate_time_to_first_byte_seconds"
ATTEMPTS, INTERRUPTIONS = "tiergate_upstream_attempts_total", "tiergate_stream_interruptions_total"


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def shared(valkey_server: Valkey, tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Stage]:
    quick = {"first_content": "400ms", "idle": "400ms"}
    models = {"m": model("m"), "x": model("x", "x"), "quick": model("quick", timeouts=quick)}
    async with stage(valkey_server, tmp_path_factory.mktemp("met"), models) as found:
        yield found


@pytest_asyncio.fixture(loop_scope="module")
async def gate(shared: Stage) -> AsyncIterator[Stage]:
    yield shared
    await shared.rest()


async def all_kinds_of_things(gate: Stage, word: str) -> None:
    """Have this word wherever a client, or a provider, may write what it likes."""
    client = gate.run.client
    for shape in BOTH:
        choices = [{"index": 0, "text": "x", "message": {"content": "x"}, "finish_reason": "stop"}]
        for act, stream in (
            (answers(choices=choices, model=word, service_tier=word, system_fingerprint=word), False),
            (refuses(400, error(word, code=word, type=word)), False),
            (refuses(500, error(word, code=word, type=word)), False),
            (apart(event(error(word, code=word, type=word))), True),
            (apart(shape.says("x", model=word, service_tier=word), event(error(word, code=word))), True),
        ):
            gate.models.acts["m"] = act
            await gate.ask(path=shape.value, model="m", user=word, stream=stream, metadata={word: word})
        del gate.models.acts["m"]
        for fields in ({"models": ["m", word]}, {"model": word}, {"model": "m", "service_tier": word}, {word: word}):
            await gate.ask(path=shape.value, **fields)
        await gate.ask(path=shape.value, key=f"sk-guessed-{word}", model="m")
        headers = {"user-agent": word, "x-request-id": word, word: word, "referer": word}
        await client.post(shape.value, json={"model": "m", "messages": [], "prompt": "hi"}, headers=headers)
        await client.post(f"{shape.value}?ai_project_id={word}&{word}={word}", json={"model": "m"})
        await client.post(f"{shape.value}/{word}", json={})
        await client.request(word.upper().replace("-", ""), shape.value)
    await client.get(f"/{word}")
    await client.get(f"/v1/models/{word}")


async def test_met_05_nobody_makes_series_by_what_he_writes(gate: Stage) -> None:
    await all_kinds_of_things(gate, f"{MARKER}-0")
    before = await counted(gate.run)
    for number in range(1, ROUNDS):
        await all_kinds_of_things(gate, f"{MARKER}-{number}")
    after = await counted(gate.run)
    assert after.keys() == before.keys()
    assert total(moved(before, after), REQUESTS) >= 20 * (ROUNDS - 1)
    assert not [series for series in after if "xq" in series.lower() or "guessed" in series]


def stalls(shape: Shape) -> Script:
    return apart(shape.says("a"), then=no_more)


BROKEN = error("worker limit", type="server_error")
ENDS: dict[str, tuple[str, Any, str, str | None]] = {
    "whole": ("m", lambda shape: apart(shape.whole("a")), "ok", None),
    "left by its provider": ("m", lambda shape: apart(shape.says("a")), "interrupted", "upstream"),
    "cut": ("m", lambda shape: apart(shape.says("a"), then=Call.reset), "interrupted", "upstream"),
    "error inside": ("m", lambda shape: apart(shape.says("a"), event(BROKEN)), "interrupted", "upstream"),
    "silent in the middle": ("quick", stalls, "interrupted", "upstream"),
    "silent": ("quick", lambda _: silence, "timeout", None),
    "left by its client": ("m", stalls, "cancelled", "client"),
    "failed": ("m", lambda _: refuses(500), "upstream_error", None),
    "error first": ("m", lambda shape: apart(shape.begins(), event(BROKEN)), "upstream_error", None),
    "wrong": ("m", lambda _: refuses(400, error("no such thing")), "client_error", None),
    "refused": ("unheard-of", lambda _: silence, "rejected", None),
}
"""Ends of streams: the model that is asked, what its provider does, the outcome, and whose fault it is that it broke."""


@shaped
@pytest.mark.parametrize("end", ENDS)
async def test_met_06_a_stream_is_counted_once_as_what_became_of_it(end: str, shape: Shape, gate: Stage) -> None:
    name, act, outcome, side = ENDS[end]
    gate.models.acts[name] = act(shape)
    before = await counted(gate.run)
    async with gate.reading(shape, model=name) as answer:
        pieces = answer.aiter_raw()
        await anext(pieces)
        if end != "left by its client":
            _ = [piece async for piece in pieces]
    seen = moved(before, await counted(gate.run))
    of_requests = {series: delta for series, delta in seen.items() if name_of(series) == REQUESTS}
    assert list(of_requests.values()) == [1]
    assert by_label(of_requests, REQUESTS, "outcome") == by_label(seen, f"{DURATION}_count", "outcome") == {outcome: 1}
    assert {series for series in seen if f'outcome="{outcome}"' not in series and name_of(series) == f"{DURATION}_sum"} == set()
    assert by_label(seen, INTERRUPTIONS, "side") == ({side: 1} if side else {})
    assert total(seen, ATTEMPTS) == (0 if end == "refused" else 1)
    ended_well = end in ("whole", "left by its client")
    assert total(seen, ATTEMPTS, outcome="ok") == ended_well, "what a provider did wrong is no success of its"
    assert total(seen, f"{FIRST_BYTE}_count") == (1 if outcome == "ok" or side else 0), "of what had any content"


COUNTS = ("_total", "_count")
APART = ("tiergate_usage", "tiergate_traces", "tiergate_redis")
"""What is written behind the requests moves at its own pace."""


def of_answers(seen: Any) -> set[str]:
    """Return the families that a request has moved."""
    return {name_of(each) for each in seen if name_of(each).endswith(COUNTS) and not each.startswith(APART)}


@shaped
@carried
async def test_met_07_streams_and_answers_are_counted_alike(name: str, shape: Shape, gate: Stage) -> None:
    families = []
    said = {"text": "Hello"} if shape is Shape.COMPLETIONS else {"message": {"role": "assistant", "content": "Hello"}}
    choices = [{"index": 0, **said, "finish_reason": "stop"}]
    for stream, act in ((False, answers(choices=choices, usage=used(3, 2))), (True, apart(shape.whole("Hello")))):
        gate.models.acts[name] = act
        before = await counted(gate.run)
        assert (await gate.ask(path=shape.value, model=name, stream=stream)).status_code == 200
        seen = moved(before, await counted(gate.run))
        assert by_label(seen, REQUESTS, "stream") == {str(stream).lower(): 1}
        assert by_label(seen, "tiergate_tokens_total", "kind") == {"input": 3, "output": 2}
        assert total(seen, "tiergate_cost_usd_total") == pytest.approx(7e-6)
        families.append(of_answers(seen))
    whole, streamed = families
    assert len(whole) >= 6
    assert streamed - whole == {f"{FIRST_BYTE}_count"}
    assert whole - streamed == set()


@shaped
@carried
async def test_met_07_the_first_byte_is_the_first_that_says_something(name: str, shape: Shape, gate: Stage) -> None:
    """Neither a head nor a comment nor an empty beginning; and what comes behind it is not of it."""

    async def act(call: Call) -> None:
        call.head(200, SSE, chunked=True)
        call.piece(b": processing\n\n" + shape.begins())
        await asyncio.sleep(PAUSE_S)
        call.piece(shape.says("Hello"))
        await go_on.wait()
        call.piece(shape.ends() + DONE)
        call.end()

    go_on = asyncio.Event()
    gate.models.acts[name] = act
    before = await counted(gate.run)
    async with gate.reading(shape, model=name) as answer:
        pieces = answer.aiter_raw()
        assert b"Hello" in await anext(pieces)
        await asyncio.sleep(PAUSE_S)
        go_on.set()
        assert b"[DONE]" in b"".join([piece async for piece in pieces])
    seen = moved(before, await counted(gate.run))
    first_s, whole_s = total(seen, f"{FIRST_BYTE}_sum", model=name), total(seen, f"{DURATION}_sum")
    assert first_s >= PAUSE_S
    assert whole_s - first_s >= PAUSE_S
