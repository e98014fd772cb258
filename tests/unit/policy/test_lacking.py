from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.errors import UnsupportedParameter
from gateway.policy.lacking import HINTS, IDLE, NEEDED, is_idle, lacked
from gateway.policy.routing import Planner
from gateway.policy.tiers import wish
from gateway.wire.request import TABLES, Endpoint, InferenceRequest, parse
from tests.catalogues import catalogue, deployment, key, model, provider


def chat(**fields: Any) -> InferenceRequest:
    return parse(Endpoint.CHAT, msgspec.json.encode({"model": "m", "messages": [{"role": "user", "content": "x"}], **fields}))


def completions(**fields: Any) -> InferenceRequest:
    return parse(Endpoint.COMPLETIONS, msgspec.json.encode({"model": "m", "prompt": "x", **fields}))


ASKING: tuple[dict[str, Any], ...] = (
    {"temperature": 0},
    {"top_p": 0.5},
    {"n": 2},
    {"presence_penalty": 0.5},
    {"logprobs": True},
    {"logit_bias": {"5": 1}},
    {"tools": [{"type": "function"}]},
    {"tool_choice": "none"},
    {"parallel_tool_calls": False},
    {"response_format": {"type": "json_object"}},
    {"reasoning_effort": "none"},
    {"stop": "x"},
)
SILENT: tuple[dict[str, Any], ...] = (
    {"temperature": 1},
    {"top_p": 1.0},
    {"n": 1},
    {"presence_penalty": 0},
    {"logprobs": False},
    {"logit_bias": {}},
    {"tools": []},
    {"tool_choice": "auto"},
    {"parallel_tool_calls": True},
    {"response_format": {"type": "text"}},
    {"reasoning_effort": None},
    {"stop": []},
)


@pytest.mark.parametrize("fields", ASKING)
def test_what_would_change_the_answer_is_found_by_its_field(fields: dict[str, Any]) -> None:
    assert lacked(frozenset({*fields, "seed"}), chat(**fields)) == next(iter(fields))
    assert lacked(frozenset({"echo"}), chat(**fields)) is None


@pytest.mark.parametrize("fields", SILENT)
def test_what_asks_for_nothing_is_not(fields: dict[str, Any]) -> None:
    assert lacked(frozenset(fields), chat(**fields)) is None


def test_hints_and_what_is_not_known_never_are() -> None:
    given = {"seed": 1, "user": "u", "metadata": {"a": "b"}, "verbosity": "low", "prompt_cache_key": "k", "x_vendor": 1}
    assert lacked(frozenset(given), chat(**given)) is None
    assert lacked(frozenset({"echo"}), chat(echo=True)) is None
    assert lacked(frozenset({"echo"}), completions(echo=True)) == "echo"


def test_no_log_probability_but_the_sampled_ones_is_one() -> None:
    assert lacked(frozenset({"logprobs"}), completions(logprobs=0)) == "logprobs"


@given(st.sampled_from(sorted(IDLE)))
def test_an_idle_field_is_known_or_at_least_spelled_as_one(name: str) -> None:
    assert is_idle(name, b"null")
    assert name == "top_k" or any(name in table.fields for table in TABLES.values())


def test_the_lists_name_fields() -> None:
    known = {name for table in TABLES.values() for name in table.fields}
    assert known >= HINTS | NEEDED
    assert HINTS.isdisjoint(NEEDED | IDLE.keys())
    assert not is_idle("seed", b"1e999")


def planned(request: InferenceRequest, *models: Any) -> list[str]:
    plan = Planner(catalogue(*models)).plan(key(), request, wish(None, key(), Endpoint.CHAT), dice=0)
    return [candidate.target.deployment.provider.name for candidate in plan.candidates]


def test_a_provider_that_lacks_a_field_is_left_out() -> None:
    poor = provider("poor", lacks=frozenset({"logprobs", "seed"}))
    both = model("m", deployment("m", poor), deployment("m", provider("rich"), order=2))
    assert planned(chat(logprobs=True), both) == ["rich"]
    assert planned(chat(logprobs=False, seed=1), both) == ["poor", "rich"]
    with pytest.raises(UnsupportedParameter, match="'m' does not support 'logprobs'") as raised:
        planned(chat(logprobs=True), model("m", deployment("m", poor)))
    assert raised.value.param == "logprobs"
