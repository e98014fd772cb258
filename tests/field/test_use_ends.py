"""Cases USE-05 to USE-08, USE-14, USE-15: what a request costs that ends early or badly, and what is held meanwhile."""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Callable
from typing import Any

import httpx
import msgspec
import pytest
import pytest_asyncio

from gateway.policy.charges import Dimension
from tests.fakes.http_server import Call, Script
from tests.fakes.openai import DONE, SSE, answers, error, event, refuses, silence, streams
from tests.field.metering import INPUT_NANO_USD, OUTPUT_NANO_USD, SLOW, Metered, figures, key, metered, model, secret, settings
from tests.integration.scene import bearer
from tests.valkey import Valkey

pytestmark = pytest.mark.asyncio(loop_scope="module")

CHAT = "/v1/chat/completions"
HI = [{"role": "user", "content": "hi"}]
ROLE = event({"role": "assistant", "content": ""})
LEFT_AFTER = 199
TOKEN = event({"content": "four"})
"""Four bytes, which an estimate takes for one token."""

KEYS = [
    *(key(f"leaving{number}", limits=SLOW) for number in range(4)),
    *(key(f"failing{number}", limits={**SLOW, "rpm": 10}) for number in range(4)),
    key("served", limits=SLOW),
    key("burst", limits={"tpm": 100}),
    key("spender", budget={"usd": 4}),
    key("counted", budget={"tokens": 100}),
    key("unbounded", limits={"tpm": 10_000}),
]
MODELS = {
    "A": model("A"),
    "B": model("B", price={"input": 1, "output": 2}),
    "bounded": model("bounded", max_output_tokens=2_000, timeouts={"total": "200ms", "first_content": "100ms"}),
}


def usage(prompt: int, completion: int) -> dict[str, int]:
    return {"prompt_tokens": prompt, "completion_tokens": completion, "total_tokens": prompt + completion}


def told(prompt: int, completion: int) -> bytes:
    return event({}, choices=[], usage=usage(prompt, completion))


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def shared(valkey_server: Valkey, tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Metered]:
    async with metered(
        settings(*KEYS, models=MODELS, fallback={"retry_budget": 1}), valkey_server, tmp_path_factory.mktemp("ends")
    ) as gate:
        yield gate


@pytest_asyncio.fixture(loop_scope="module")
async def gate(shared: Metered) -> AsyncIterator[Metered]:
    yield shared
    await shared.rest()


async def leave(gate: Metered, name: str, enough: Callable[[str], bool]) -> None:
    """Ask for a stream, read until that is enough, and hang up; then wait until the provider has heard of it."""
    body = {"model": "A", "messages": HI, "stream": True}
    headers = {"authorization": f"Bearer {secret(name)}"}
    async with gate.run.client.stream("POST", CHAT, json=body, headers=headers) as answer:
        text = ""
        async for piece in answer.aiter_text():
            text += piece
            if enough(text):
                break
    await gate.server.until(lambda: not any(line for line in gate.server.lines if line.number in asked_on(gate)))


def asked_on(gate: Metered) -> set[int]:
    """Return the connections that requests have come on."""
    return {request.connection for request in gate.server.requests}


OPENINGS: dict[str, list[bytes]] = {
    "no usage": [ROLE],
    "usage first": [event({"role": "assistant"}, usage=usage(5_000, 0))],
    "usage now and then": [ROLE, *[TOKEN] * 50, told(5_000, 50)],
    "usage of all": [ROLE, *[TOKEN] * LEFT_AFTER, told(5_000, 333)],
}


@pytest.mark.parametrize("number", range(4), ids=list(OPENINGS))
async def test_use_05_who_leaves_before_the_usage_pays_for_what_was_sent(number: int, gate: Metered) -> None:
    opening = [*OPENINGS.values()][number]
    sent = sum(each is TOKEN for each in opening)

    async def act(call: Call) -> None:
        call.head(200, SSE, chunked=True)
        for each in (*opening, *[TOKEN] * (LEFT_AFTER - sent)):
            call.piece(each)
        await call.gone.wait()

    gate.models.acts["A"] = act
    await leave(gate, f"leaving{number}", lambda text: text.count("four") == LEFT_AFTER)
    line = await gate.line()
    assert line["outcome"] == "cancelled"
    known = number == 3
    assert (line["output_tokens"], line["estimated"]) == ((333, False) if known else (LEFT_AFTER, True))
    assert line["input_tokens"] == 5_000 if number else line["input_tokens"] > 0
    assert line["cost_nano_usd"] == INPUT_NANO_USD * line["input_tokens"] + OUTPUT_NANO_USD * line["output_tokens"]
    assert await gate.posted(f"leaving{number}") == line["input_tokens"] + line["output_tokens"]
    [row] = [row for row in await gate.run.rows() if row["key"] == f"leaving{number}"]
    assert (row["outcome"], row["output_tokens"]) == ("cancelled", line["output_tokens"])


async def slow_to_speak(call: Call) -> None:
    call.head(200, SSE, chunked=True)
    call.piece(ROLE)
    await call.gone.wait()


@pytest.mark.parametrize(("act", "accepted"), [(silence, False), (slow_to_speak, True)], ids=["before the head", "after it"])
async def test_use_06_who_leaves_before_the_first_token_pays_no_output(act: Script, accepted: bool, gate: Metered) -> None:
    gate.models.acts["A"] = act
    asking = asyncio.create_task(gate.ask(model=..., models=["A", "B"], stream=True))
    await gate.server.until(lambda: bool(gate.server.requests))
    if accepted:
        await taken_on(gate)
    asking.cancel()
    await asyncio.wait([asking])
    await gate.server.until(lambda: not any(line.number in asked_on(gate) for line in gate.server.lines))
    line = await gate.line()
    assert (line["outcome"], line["output_tokens"], line["opened"]) == ("cancelled", 0, True)
    assert ((line["input_tokens"] > 0), line["estimated"]) == (accepted, accepted)
    assert gate.models.asked == ["A"]
    assert await gate.run.leases() == 0


async def taken_on(gate: Metered) -> None:
    """Wait until the provider's head has arrived."""
    [kept] = gate.run.gateway._leases._kept.values()
    holder = kept.source.__self__.holder  # type: ignore[attr-defined]  # it is a bound method
    async with asyncio.timeout(5.0):
        while not holder.accepted:
            await asyncio.sleep(0.002)


LONG = error("x" * 20_000, code=500)
BROKEN = b"data: " + LONG + b"\n\n"


@pytest.mark.parametrize(
    "act",
    [streams(ROLE, BROKEN), streams(told(10, 0), BROKEN, DONE), refuses(500, LONG), refuses(200, LONG), refuses(400, LONG)],
    ids=["in a stream", "after usage", "with its status", "with a 200", "as a refusal"],
)
async def test_use_07_the_text_of_an_error_is_no_output(act: Script, gate: Metered) -> None:
    gate.models.acts["A"] = act
    answer = await gate.ask(model="A", stream=True)
    assert answer.status_code >= 400
    line = await gate.line()
    assert line["outcome"] in ("upstream_error", "client_error")
    assert (line["input_tokens"], line["output_tokens"], line["cost_nano_usd"], line["estimated"]) == (0, 0, 0, False)


async def test_use_07_after_content_only_the_content_counts(gate: Metered) -> None:
    gate.models.acts["A"] = streams(ROLE, TOKEN, TOKEN, BROKEN)
    answer = await gate.ask(model="A", stream=True)
    assert '"code":"stream_interrupted"' in answer.text
    line = await gate.line()
    assert (line["outcome"], line["output_tokens"], line["estimated"]) == ("interrupted", 2, True)


FAILURES: dict[str, tuple[bool, Script]] = {
    "usage, then an error": (True, streams(ROLE, told(100, 0), b"data: " + error("gone", code=500) + b"\n\n")),
    "usage, nothing said": (True, streams(ROLE, told(100, 7))),
    "an empty answer": (False, answers(choices=[], usage=usage(100, 7))),
    "usage in an error": (
        False,
        refuses(500, b'{"error":{"message":"gone"},"usage":{"prompt_tokens":100,"completion_tokens":7}}'),
    ),
}


@pytest.mark.parametrize("number", range(4), ids=list(FAILURES))
async def test_use_08_what_a_failed_attempt_used_is_not_paid_for(number: int, gate: Metered) -> None:
    stream, act = [*FAILURES.values()][number]
    name = f"failing{number}"
    gate.models.acts["A"] = act
    gate.models.acts["B"] = streams(TOKEN, event({}, "stop"), told(100, 20), DONE) if stream else answers(usage=usage(100, 20))
    answer = await gate.ask(key=secret(name), model=..., models=["A", "B"], stream=stream)
    assert (answer.status_code, answer.headers["x-gateway-model"]) == (200, "B")
    line = await gate.line()
    assert (line["input_tokens"], line["output_tokens"], line["estimated"]) == (100, 20, False)
    assert line["cost_nano_usd"] == 100 * 1_000 + 20 * 2_000
    assert [(tried["model"], tried["outcome"] == "ok") for tried in line["attempts"]] == [("A", False), ("B", True)]
    assert (await gate.posted(name), await gate.posted(name, Dimension.RPM)) == (120, 1)
    assert len([row for row in await gate.run.rows() if row["key"] == name]) == 1


async def test_use_14_a_burst_passes_no_limit_of_tokens(gate: Metered) -> None:
    answered = await burst(gate, "burst", max_tokens=80)
    assert Counter(answer.status_code for answer in answered) == {200: 1, 429: 19}
    assert {answer.json()["error"]["code"] for answer in answered if answer.status_code == 429} == {"rate_limit_exceeded"}
    assert 0 < await gate.posted("burst") <= 90
    assert (await figures(gate.run, "k:burst", Dimension.TPM))[1] == 0


async def test_use_14_a_burst_passes_no_budget(gate: Metered) -> None:
    answered = await burst(gate, "spender", max_tokens=80)
    assert Counter(answer.status_code for answer in answered) == {200: 2, 402: 18}
    lines = [line for line in await gate.notes.lines() if line["opened"]]
    assert [line["cost_nano_usd"] for line in lines] == [10 * INPUT_NANO_USD + 80 * OUTPUT_NANO_USD] * 2
    again = await gate.ask(key=secret("spender"), model="A", max_tokens=80)
    assert (again.status_code, again.headers["x-should-retry"]) == (402, "false")
    gate.models.acts["A"] = answers()
    assert (await gate.ask(key=secret("spender"), model="A", max_tokens=10)).status_code == 200, "0.6 USD are left"


async def test_use_14_a_burst_passes_no_budget_of_tokens(gate: Metered) -> None:
    answered = await burst(gate, "counted", max_tokens=80)
    assert Counter(answer.status_code for answer in answered) == {200: 1, 402: 19}
    [budget] = (await gate.run.client.get("/v1/key", headers=bearer(secret("counted")))).json()["budgets"]
    assert (budget["spent_tokens"], budget["held_tokens"], budget["remaining_tokens"]) == (90, 0, 10)


async def burst(gate: Metered, name: str, **fields: Any) -> list[httpx.Response]:
    """Ask twenty times at once; nobody is answered before all have been refused who are."""
    go_on = asyncio.Event()

    async def act(call: Call) -> None:
        await go_on.wait()
        await answers(usage=usage(10, 80))(call)

    gate.models.acts["A"] = act
    asking = [asyncio.create_task(gate.ask(key=secret(name), model="A", **fields)) for _ in range(20)]
    async with asyncio.timeout(10.0):
        while sum(task.done() for task in asking) + len(gate.models.asked) < 20:
            await asyncio.sleep(0.002)
    go_on.set()
    answered = await asyncio.gather(*asking)
    await gate.run.settled()
    return answered


async def test_use_15_a_request_without_a_bound_leaves_room_for_others(gate: Metered) -> None:
    go_on = asyncio.Event()

    async def act(call: Call) -> None:
        await go_on.wait()
        await answers()(call)

    gate.models.acts["B"] = act
    unbounded = secret("unbounded")
    asking = [asyncio.create_task(gate.ask(key=unbounded, model="B")) for _ in range(4)]
    await gate.server.until(lambda: len(gate.server.requests) == 4)
    assert (await gate.ask(key=unbounded, model="bounded", max_tokens=999_999_999)).status_code == 422
    huge = await gate.ask(key=unbounded, model="bounded", max_tokens=10_000_000)
    assert (huge.status_code, huge.headers["x-gateway-adjusted-params"]) == (200, "max_tokens=2000")
    assert msgspec.json.decode(gate.server.requests[-1].body)["max_tokens"] == 2_000
    go_on.set()
    assert {answer.status_code for answer in await asyncio.gather(*asking)} == {200}
    await gate.run.settled()
    assert (await figures(gate.run, "k:unbounded", Dimension.TPM))[1] == 0


ENDS: dict[str, tuple[Script, int]] = {
    "success": (answers(), 200),
    "a refusal": (refuses(400, error("no")), 400),
    "an error": (refuses(500), 502),
    "no capacity": (refuses(429), 429),
    "a timeout": (silence, 504),
    "a stream that breaks": (streams(TOKEN, then=Call.reset), 200),
}


@pytest.mark.parametrize("end", ENDS)
async def test_use_15_whatever_the_end_nothing_stays_held(end: str, gate: Metered) -> None:
    act, status = ENDS[end]
    gate.models.acts["bounded"] = act
    answer = await gate.ask(key=secret("unbounded"), model="bounded", stream="stream" in end, fail_fast=True)
    assert answer.status_code == status
    await gate.run.settled()
    assert (await figures(gate.run, "k:unbounded", Dimension.TPM))[1] == 0


async def test_use_15_who_leaves_leaves_nothing_held(gate: Metered) -> None:
    gate.models.acts["A"] = slow_to_speak
    asking = asyncio.create_task(gate.ask(key=secret("unbounded"), model="A", stream=True))
    await gate.server.until(lambda: bool(gate.server.requests))
    assert (await figures(gate.run, "k:unbounded", Dimension.TPM))[1] > 0
    asking.cancel()
    await asyncio.wait([asking])
    await gate.server.until(lambda: not any(line.number in asked_on(gate) for line in gate.server.lines))
    await gate.run.settled()
    assert (await figures(gate.run, "k:unbounded", Dimension.TPM))[1] == 0
