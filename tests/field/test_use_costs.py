"""Cases USE-09, USE-10, USE-12 and USE-13: parts of a whole are counted once, and several choices are one answer."""

from collections.abc import AsyncIterator
from typing import Any

import msgspec
import pytest
import pytest_asyncio

from tests.fakes.http_server import Script
from tests.fakes.openai import DONE, answers, event, streams
from tests.field.metering import (
    CACHED_NANO_USD,
    INPUT_NANO_USD,
    OUTPUT_NANO_USD,
    SLOW,
    Metered,
    key,
    metered,
    model,
    secret,
    settings,
)
from tests.valkey import Valkey

pytestmark = pytest.mark.asyncio(loop_scope="module")

PATHS = {"chat": "/v1/chat/completions", "completions": "/v1/completions"}
USAGE_SHOWN = {"include_usage": True}
STOP = event({}, "stop")

MODELS = {"uncached": model("uncached", price={"input": 10_000, "output": 20_000}), "outside": model("outside", "q")}
KEYS = [key("reasoner", limits=SLOW), key("chooser", limits=SLOW)]


def usage(prompt: int, completion: int, *, cached: Any = ..., reasoning: Any = ...) -> dict[str, Any]:
    found: dict[str, Any] = {"prompt_tokens": prompt, "completion_tokens": completion, "total_tokens": prompt + completion}
    if cached is not ...:
        found["prompt_tokens_details"] = {"cached_tokens": cached}
    if reasoning is not ...:
        found["completion_tokens_details"] = {"reasoning_tokens": reasoning}
    return found


def says(stream: bool, *stated: dict[str, Any]) -> Script:
    """An answer with this usage; a stream tells one after the other."""
    if not stream:
        return answers(usage=stated[-1])
    opening, *others = (event({}, choices=[], usage=each) for each in stated)
    return streams(opening, event({"content": "x"}), STOP, *others, DONE)


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def shared(valkey_server: Valkey, tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Metered]:
    whole = settings(*KEYS, models=MODELS)
    whole["providers"]["q"]["quirks"] = {"reasoning_outside": True}
    async with metered(whole, valkey_server, tmp_path_factory.mktemp("costs")) as gate:
        yield gate


@pytest_asyncio.fixture(loop_scope="module")
async def gate(shared: Metered) -> AsyncIterator[Metered]:
    yield shared
    await shared.rest()


async def shown(gate: Metered, stream: bool, **fields: Any) -> dict[str, Any]:
    """Ask, and return the usage that the client is told."""
    answer = await gate.ask(**fields, stream=stream, stream_options=USAGE_SHOWN if stream else ...)
    assert answer.status_code == 200
    if not stream:
        found: dict[str, Any] = answer.json()["usage"]
        return found
    last = answer.text.removesuffix("data: [DONE]\n\n").strip().rpartition("data: ")[2]
    told: dict[str, Any] = msgspec.json.decode(last)["usage"]
    return told


CACHED: list[tuple[Any, int]] = [(900, 900), (0, 0), (1_000, 1_000), (5_000, 1_000), (-5, 0), (None, 0), (..., 0), ("900", 0)]
"""Cached tokens as a provider reports them of a prompt of a thousand, and what is made of that."""


@pytest.mark.parametrize("stream", [False, True], ids=["whole", "stream"])
async def test_use_09_cached_tokens_are_paid_for_once(stream: bool, gate: Metered) -> None:
    for stated, cached in CACHED:
        gate.models.acts["m"] = says(stream, usage(1_000, 10, cached=stated))
        told = await shown(gate, stream, model="m")
        cost = (1_000 - cached) * INPUT_NANO_USD + cached * CACHED_NANO_USD + 10 * OUTPUT_NANO_USD
        line = (await gate.notes.lines())[-1]
        assert (line["input_tokens"], line["cached_tokens"], line["cost_nano_usd"]) == (1_000, cached, cost), stated
        assert told["estimated_cost"] == pytest.approx(cost / 10**9)
    assert [row["cost_micro_usd"] for row in await gate.run.rows()][-1] == 2_100_000


async def test_use_09_without_a_price_of_their_own_they_cost_what_the_others_do(gate: Metered) -> None:
    gate.models.acts["uncached"] = says(False, usage(1_000, 10, cached=900))
    told = await shown(gate, False, model="uncached")
    assert told["estimated_cost"] == pytest.approx(10.2)
    assert (await gate.line())["cached_tokens"] == 900


SNAPSHOTS: dict[str, list[dict[str, Any]]] = {
    "the same prompt twice": [usage(5_000, 0), usage(5_000, 40)],
    "details at the end": [usage(5_000, 1), usage(5_000, 40, cached=4_800)],
    "details at the beginning": [usage(5_000, 1, cached=4_800), usage(5_000, 40)],
    "running totals": [usage(5_000, n, cached=4_800) for n in (0, 10, 20, 40)],
    "nothing new at the end": [usage(5_000, 40, cached=4_800), usage(0, 0)],
    "the answer alone at the end": [usage(5_000, 0, cached=4_800), {"completion_tokens": 40}],
}


@pytest.mark.parametrize("snapshots", SNAPSHOTS)
async def test_use_10_two_views_of_one_total_are_not_added_up(snapshots: str, gate: Metered) -> None:
    stated = SNAPSHOTS[snapshots]
    gate.models.acts["m"] = says(True, *stated)
    told = await shown(gate, True, model="m")
    line = await gate.line()
    cached = 0 if snapshots == "the same prompt twice" else 4_800
    assert (line["input_tokens"], line["output_tokens"], line["cached_tokens"]) == (5_000, 40, cached)
    cost = (5_000 - cached) * INPUT_NANO_USD + cached * CACHED_NANO_USD + 40 * OUTPUT_NANO_USD
    assert line["cost_nano_usd"] == cost
    assert told["estimated_cost"] == pytest.approx(cost / 10**9)


OUTSIDE: dict[str, dict[str, Any]] = {
    "told": {**usage(36, 10, reasoning=690), "total_tokens": 736},
    "told, and missing in the total": usage(36, 10, reasoning=690),
    "left of the total": {**usage(36, 10), "total_tokens": 736},
    "with a cost": {**usage(36, 10, reasoning=690), "total_tokens": 736, "cost": 1},
}


@pytest.mark.parametrize("stream", [False, True], ids=["whole", "stream"])
@pytest.mark.parametrize("name", OUTSIDE)
async def test_use_11_reasoning_beside_the_output_is_output(name: str, stream: bool, gate: Metered) -> None:
    before = await gate.posted("reasoner")
    gate.models.acts["outside"] = says(stream, OUTSIDE[name])
    told = await shown(gate, stream, key=secret("reasoner"), model="outside")
    assert (told["prompt_tokens"], told["completion_tokens"], told["total_tokens"]) == (36, 700, 736)
    assert "cost" not in told
    line = await gate.line()
    assert (line["input_tokens"], line["output_tokens"]) == (36, 700)
    assert line["cost_nano_usd"] == 36 * INPUT_NANO_USD + 700 * OUTPUT_NANO_USD
    assert before + 727 <= await gate.posted("reasoner") <= before + 736, "but for what has leaked since"


@pytest.mark.parametrize("stream", [False, True], ids=["whole", "stream"])
async def test_use_12_reasoning_is_a_part_of_the_output(stream: bool, gate: Metered) -> None:
    before = await gate.posted("reasoner")
    stated = usage(64, 135, reasoning=78)
    gate.models.acts["m"] = says(stream, stated)
    told = await shown(gate, stream, key=secret("reasoner"), model="m")
    assert {name: told[name] for name in stated} == stated
    line = await gate.line()
    assert (line["output_tokens"], line["reasoning_tokens"]) == (135, 78)
    assert line["cost_nano_usd"] == 64 * INPUT_NANO_USD + 135 * OUTPUT_NANO_USD
    assert before + 190 <= await gate.posted("reasoner") <= before + 199, "but for what has leaked since"


def parts(path: str, text: str, index: int, finish: str | None = None) -> bytes:
    """One choice's part of a stream at this path."""
    said = {"text": text, "logprobs": None} if path == "completions" else {"delta": {"content": text} if text else {}}
    return event({}, choices=[{"index": index, **said, "finish_reason": finish}])


def texts(chunks: list[dict[str, Any]]) -> dict[int, str]:
    found: dict[int, str] = {}
    for choice in (choice for chunk in chunks for choice in chunk["choices"]):
        said = choice.get("text") or choice.get("delta", {}).get("content") or ""
        found[choice["index"]] = found.get(choice["index"], "") + said
    return found


@pytest.mark.parametrize("end_mark", [True, False], ids=["with an end mark", "without"])
@pytest.mark.parametrize("path", PATHS)
async def test_use_13_two_choices_of_one_stream_stay_two(path: str, end_mark: bool, gate: Metered) -> None:
    gate.models.acts["m"] = streams(
        *(parts(path, "one ", 0), parts(path, "two ", 1), parts(path, "uno", 0), parts(path, "", 0, "stop")),
        *(parts(path, "due", 1), parts(path, "", 1, "length")),
        event({}, choices=[], usage=usage(5, 30)),
        *([DONE] if end_mark else []),
    )
    answer = await gate.ask(path=PATHS[path], model="m", n=2, stream=True, stream_options=USAGE_SHOWN)
    *events, last, end = answer.text.split("\n\n")
    assert (last, end) == ("data: [DONE]", "")
    chunks = [msgspec.json.decode(each.removeprefix("data: ")) for each in events]
    assert texts(chunks) == {0: "one uno", 1: "two due"}
    ends = [(c["index"], c["finish_reason"]) for chunk in chunks for c in chunk["choices"] if c["finish_reason"]]
    assert ends == [(0, "stop"), (1, "length")]
    assert [chunk["usage"]["completion_tokens"] for chunk in chunks if chunk.get("usage")] == [30]
    line = await gate.line()
    assert (line["outcome"], line["output_tokens"], line["estimated"]) == ("ok", 30, False)


@pytest.mark.parametrize("path", PATHS)
async def test_use_13_a_stream_is_not_whole_before_both_have_ended(path: str, gate: Metered) -> None:
    gate.models.acts["m"] = streams(parts(path, "one", 0), parts(path, "two", 1), parts(path, "", 0, "stop"))
    answer = await gate.ask(path=PATHS[path], model="m", n=2, stream=True)
    assert '"code":"stream_interrupted"' in answer.text
    assert "[DONE]" not in answer.text
    assert (await gate.line())["outcome"] == "interrupted"


async def test_use_13_two_choices_of_one_answer_stay_two(gate: Metered) -> None:
    choices = [
        {"index": index, "message": {"role": "assistant", "content": text}, "finish_reason": finish}
        for index, (text, finish) in enumerate([("one", "stop"), ("two", "length")])
    ]
    gate.models.acts["m"] = answers(choices=choices, usage=usage(5, 30))
    answer = await gate.ask(key=secret("chooser"), model="m", n=2)
    assert answer.json()["choices"] == choices
    assert (await gate.line())["output_tokens"] == 30
    assert await gate.posted("chooser") == 35
