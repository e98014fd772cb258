"""The walk over `models`: the 38 cases of the wire contract's section 3, each by its number.

A *full* model has its one slot held by somebody else's request; a *busy* one answers 429. Who waits for a full one is served when
the other's request ends.
"""

import asyncio
from collections.abc import Mapping
from typing import Any

import msgspec
import pytest

from tests.fakes.http_server import Call, Script
from tests.fakes.openai import (
    BUSY,
    CONTEXT,
    DONE,
    USUAL_STREAM,
    answers,
    error,
    event,
    refuses,
    silence,
    streams,
)
from tests.integration.scene import Scene

pytestmark = pytest.mark.asyncio(loop_scope="module")

busy = refuses(429, BUSY)


class Case(msgspec.Struct, frozen=True):
    """What is asked of whom, and what comes of it: a model that serves, or an error's status and code."""

    id: str
    body: Mapping[str, Any]
    end: str | tuple[int, str]
    full: tuple[str, ...] = ()
    acts: Mapping[str, Script] = {}
    tried: str | None = None
    """The whole of `x-gateway-attempts`; None where nothing may have been tried."""
    asked: tuple[str, ...] | None = None
    """Who was asked upstream; by default the one that serves."""
    param: str | None = None
    waits: bool = False
    """It is served once the full ones are free."""


OVERLOADED = (429, "engine_overloaded")
SHAPE = "invalid_type"

CASES = (
    Case("case_01_one_idle_model", {"models": ["A"]}, "A", tried="A;200"),
    Case("case_02_last_model_full", {"models": ["A"]}, "A", full=("A",), tried="A;200", waits=True),
    Case("case_03_last_model_full_fail_fast", {"models": ["A"], "fail_fast": True}, OVERLOADED, full=("A",), tried="A;429"),
    Case("case_04_the_first_is_idle", {"models": ["A", "B"]}, "A", tried="A;200"),
    Case("case_05_the_first_is_full", {"models": ["A", "B"]}, "B", full=("A",), tried="A;429, B;200"),
    Case("case_06_both_full", {"models": ["A", "B"]}, "B", full=("A", "B"), tried="A;429, B;200", waits=True),
    Case(
        "case_07_both_busy_fail_fast",
        {"models": ["A", "B"], "fail_fast": True},
        OVERLOADED,
        full=("A",),
        acts={"B": busy},
        tried="A;429, B;429",
        asked=("B",),
    ),
    Case("case_08_an_empty_list", {"models": []}, (422, "out_of_range"), param="models"),
    Case("case_09_five_entries_though_four_models", {"models": ["A", "B", "C", "D", "A"]}, (422, "out_of_range"), param="models"),
    Case("case_10_a_null_list", {"models": None, "model": "A"}, "A", tried="A;200"),
    Case(
        "case_11_a_busy_model_twice",
        {"models": ["A", "A", "B"]},
        "B",
        acts={"A": busy},
        tried="A;429, B;200",
        asked=("A", "B"),
    ),
    Case("case_12_only_one_model_twice", {"models": ["A", "A"]}, "A", full=("A",), tried="A;200", waits=True),
    Case(
        "case_13_an_alias_of_the_first",
        {"models": ["A", "alias-of-A", "B"]},
        "B",
        acts={"A": busy},
        tried="A;429, B;200",
        asked=("A", "B"),
    ),
    Case("case_14_the_list_wins", {"models": ["B"], "model": "A"}, "B", tried="B;200"),
    Case("case_15_no_model_beside_the_list", {"models": ["B"]}, "B", tried="B;200"),
    Case("case_16_an_unknown_model_beside_the_list", {"models": ["B"], "model": "nope"}, "B", tried="B;200"),
    Case("case_16_no_name_at_all_beside_the_list", {"models": ["B"], "model": {"a": 1}}, "B", tried="B;200"),
    Case("case_17_neither_model_nor_list", {}, (422, "missing_required_parameter"), param="model"),
    Case("case_18_a_deployment", {"models": ["deploy_id:x"]}, (422, "out_of_range"), param="models.0"),
    Case("case_19_a_revision", {"models": ["A:rev1"]}, (422, "out_of_range"), param="models.0"),
    Case("case_20_a_space_is_not_trimmed", {"models": ["A ", "A"]}, (404, "model_not_found"), param="model"),
    Case("case_21_an_empty_name", {"models": ["", "A"]}, (422, "out_of_range"), param="models.0"),
    Case("case_21_a_number", {"models": [1]}, (422, SHAPE), param="models.0"),
    Case("case_22_a_string", {"models": "A"}, (422, SHAPE), param="models"),
    Case("case_23_an_unknown_entry", {"models": ["A", "Unknown"]}, (404, "model_not_found"), param="model"),
    Case(
        "case_24_a_prompt_too_long_for_the_first",
        {"models": ["A", "B"]},
        (400, "context_length_exceeded"),
        acts={"A": refuses(400, CONTEXT)},
        tried="A;400",
        asked=("A",),
        param="messages",
    ),
    Case("case_25_nobody_listens", {"models": ["closed", "B"]}, "B", tried="closed;0, B;200"),
    Case("case_26_another_provider_of_the_same_model", {"models": ["half", "B"]}, "half", tried="half;0, half;200"),
    Case(
        "case_27_our_own_account_is_throttled",
        {"models": ["A", "B"]},
        "B",
        acts={"A": refuses(429, error("Rate limit reached for org-1", code="rate_limit_exceeded"), retry_after="7")},
        tried="A;429, B;200",
        asked=("A", "B"),
    ),
    Case(
        "case_30_an_error_before_the_first_word",
        {"models": ["A", "B"], "stream": True},
        "B",
        acts={"A": streams(b"data: " + BUSY + b"\n\n")},
        tried="A;200, B;200",
        asked=("A", "B"),
    ),
    Case(
        "case_32_our_key_is_refused_and_another_answers",
        {"models": ["A", "B"]},
        "B",
        acts={"A": refuses(401, error("Incorrect API key", code="invalid_api_key"))},
        tried="A;401, B;200",
        asked=("A", "B"),
    ),
    Case(
        "case_32_our_key_is_refused_and_nobody_is_left",
        {"models": ["A"]},
        (502, "upstream_auth_error"),
        acts={"A": refuses(401, error("Incorrect API key", code="invalid_api_key"))},
        tried="A;401",
        asked=("A",),
    ),
    Case(
        "case_34_flex_waits_for_the_last",
        {"models": ["A", "B"], "service_tier": "flex"},
        "B",
        full=("A", "B"),
        tried="A;429, B;200",
        waits=True,
    ),
    Case(
        "case_36_fail_fast_beats_priority",
        {"models": ["A"], "service_tier": "priority", "fail_fast": True},
        OVERLOADED,
        full=("A",),
        tried="A;429",
    ),
    Case("case_37_more_choices_than_the_first_allows", {"models": ["A", "B"], "n": 2}, (400, "invalid_value"), param="n"),
)


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.id)
async def test_a_case(case: Case, walk: Scene) -> None:
    async with walk.filled(*case.full):
        walk.models.acts.update(case.acts)
        asking = asyncio.create_task(walk.ask(**case.body))
        await (walk.run.waiting(1) if case.waits else asking)
    response = await asking
    served = isinstance(case.end, str)
    assert response.headers.get("x-gateway-attempts") == case.tried
    assert walk.models.asked == list(case.asked if case.asked is not None else (case.end,) if served else ())
    if served:
        assert (response.status_code, response.headers["x-gateway-model"]) == (200, case.end)
        assert model_of(response.text) == {case.end}
        return
    found = response.json()["error"]
    assert ((response.status_code, found["code"]), found["param"]) == (case.end, case.param)
    assert "x-gateway-model" not in response.headers
    if response.status_code == 429:
        assert int(response.headers["retry-after"]) >= 1


def model_of(text: str) -> set[str]:
    """Return the models that an answer names, whole or streamed."""
    payloads = [line.removeprefix("data: ") for line in text.splitlines() if line and line != DONE.decode().strip()]
    return {msgspec.json.decode(payload)["model"] for payload in payloads}


async def test_case_23_names_the_first_bad_entry(walk: Scene) -> None:
    response = await walk.ask(models=["A", "Unknown", "Other"])
    assert "'Unknown'" in response.json()["error"]["message"]


async def test_case_28_a_limit_of_the_callers_own_ends_the_walk(walk: Scene) -> None:
    key = "sk-test-secret-of-once"
    assert (await walk.ask(key=key, models=["C"], service_tier="default")).status_code == 200
    walk.models.asked.clear()
    response = await walk.ask(key=key, models=["A", "B"], service_tier="default")
    assert (response.status_code, response.json()["error"]["code"]) == (429, "rate_limit_exceeded")
    assert response.json()["error"]["type"] == "requests"
    assert response.headers["x-gateway-attempts"] == "A;429"
    assert walk.models.asked == []


async def test_case_29_over_its_limit_auto_is_served_by_whoever_has_room(walk: Scene) -> None:
    key = "sk-test-secret-of-overflow"
    assert (await walk.ask(key=key, models=["C"])).json()["service_tier"] == "default"
    async with walk.filled("A"):
        response = await walk.ask(key=key, models=["A", "B"], service_tier="auto")
    assert (response.json()["model"], response.json()["service_tier"]) == ("B", "over-limit")
    assert (response.headers["x-gateway-attempts"], response.headers["x-ratelimit-over-limit"]) == ("A;429, B;200", "yes")


async def test_case_31_a_stream_that_died_after_three_tokens_is_told_and_billed(walk: Scene) -> None:
    walk.models.acts["A"] = streams(*(event({"content": text}) for text in ("one ", "two ", "tri ")), then=Call.reset)
    response = await walk.ask(models=["A", "B"], stream=True)
    payloads = [line.removeprefix("data: ") for line in response.text.split("\n\n") if line]
    assert [msgspec.json.decode(p)["choices"][0]["delta"]["content"] for p in payloads[:-1]] == ["one ", "two ", "tri "]
    assert msgspec.json.decode(payloads[-1])["error"]["code"] == "stream_interrupted"
    assert walk.models.asked == ["A"]
    row = (await walk.run.rows())[0]
    assert (row["outcome"], row["model_served"], row["output_tokens"], row["estimated"]) == ("interrupted", "A", 3, True)


async def test_case_33_nobody_walks_on_for_a_client_who_has_left(walk: Scene) -> None:
    walk.models.acts.update({"A": busy, "B": silence})
    asking = asyncio.create_task(walk.ask(models=["A", "B", "C"]))
    before = len(walk.server.requests)
    await walk.server.until(lambda: len(walk.server.requests) == before + 2)
    asking.cancel()
    await asyncio.gather(asking, return_exceptions=True)
    await walk.run.settled()
    assert walk.models.asked == ["A", "B"]
    row = (await walk.run.rows())[0]
    assert (row["outcome"], row["cost_micro_usd"], row["output_tokens"]) == ("cancelled", 0, 0)
    assert await walk.run.leases() == 0


async def test_case_35_tier_and_price_are_those_of_the_model_that_serves(walk: Scene) -> None:
    async with walk.filled("A"):
        downgraded = await walk.ask(models=["A", "B"], service_tier="priority")
    kept = await walk.ask(models=["A", "B"], service_tier="priority")
    assert [(r.json()["model"], r.json()["service_tier"]) for r in (downgraded, kept)] == [("B", "default"), ("A", "priority")]
    rows = {row["request_id"]: row for row in await walk.run.rows()}
    assert [rows[r.headers["x-request-id"]]["cost_micro_usd"] for r in (downgraded, kept)] == [50, 75]


async def test_case_38_a_list_of_prompts_is_served_by_one_model(walk: Scene) -> None:
    prompts = ["one", "two", "three"]
    choices = [{"index": place, "text": text, "finish_reason": "stop"} for place, text in enumerate(prompts)]
    walk.models.acts.update({"A": busy, "B": answers(object="text_completion", choices=choices)})
    response = await walk.ask(path="/v1/completions", models=["A", "B"], prompt=prompts)
    assert (response.json()["model"], [each["index"] for each in response.json()["choices"]]) == ("B", [0, 1, 2])
    assert walk.models.asked == ["A", "B"]
    assert [msgspec.json.decode(sent.body)["prompt"] for sent in walk.server.requests[-2:]] == [prompts, prompts]


async def test_a_stream_walks_as_an_answer_does_and_begins_once(walk: Scene) -> None:
    walk.models.acts.update(
        {"A": streams(USUAL_STREAM[0], b"data: " + BUSY + b"\n\n"), "B": streams(b": ping\n\n", then=Call.reset)}
    )
    response = await walk.ask(models=["A", "B", "C"], stream=True)
    assert model_of(response.text) == {"C"}
    assert response.text.count('"role"') == 1
    assert response.headers["x-gateway-attempts"] == "A;200, B;0, C;200"
