from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.errors import UnsupportedParameter
from gateway.policy.natures import ASKING, ASKS, COMMON, Nature, asks_much, unsaid
from gateway.policy.routing import Planner
from gateway.policy.tiers import wish
from gateway.providers import DIALECTS, NATURES
from gateway.wire.request import Endpoint, InferenceRequest, parse
from tests.catalogues import catalogue, deployment, key, model, provider

EVERYTHING = Nature(lacks=frozenset(ASKS))
POOR = provider("poor", nature=NATURES["anthropic"])


def chat(**fields: Any) -> InferenceRequest:
    return parse(Endpoint.CHAT, msgspec.json.encode({"model": "m", "messages": [{"role": "user", "content": "x"}], **fields}))


def completions(**fields: Any) -> InferenceRequest:
    return parse(Endpoint.COMPLETIONS, msgspec.json.encode({"model": "m", "prompt": "x", **fields}))


def responses(**fields: Any) -> InferenceRequest:
    return parse(Endpoint.RESPONSES, msgspec.json.encode({"model": "m", "input": "x", **fields}))


HI = {"role": "user", "content": "Hi"}
SO = {"role": "assistant", "content": "So"}
SCHEMA = {"type": "json_schema", "json_schema": {"name": "n", "schema": {"type": "object"}}}

ASKED: tuple[tuple[str, InferenceRequest, str], ...] = (
    ("choices", chat(n=2), "n"),
    ("logprobs", chat(logprobs=True), "logprobs"),
    ("logprobs", completions(logprobs=0), "logprobs"),
    ("logit_bias", chat(logit_bias={"5": 1}), "logit_bias"),
    ("penalties", chat(presence_penalty=0.5), "presence_penalty"),
    ("penalties", chat(frequency_penalty=-1), "frequency_penalty"),
    ("repetition_penalty", completions(repetition_penalty=1.1), "repetition_penalty"),
    ("token_rules", completions(min_p=0.1), "min_p"),
    ("token_rules", completions(stop_token_ids=[1]), "stop_token_ids"),
    ("functions", chat(functions=[{"name": "f"}]), "functions"),
    ("json_object", chat(response_format={"type": "json_object"}), "response_format"),
    ("regex", chat(response_format={"type": "regex", "regex": "a"}), "response_format"),
    ("begun_schema", chat(messages=[HI, SO], response_format=SCHEMA), "response_format"),
    ("sound", chat(modalities=["text", "audio"]), "modalities"),
    ("sound", chat(audio={"voice": "a"}), "audio"),
    ("web_search", chat(web_search_options={}), "web_search_options"),
    ("blank_stop", chat(stop="\n"), "stop"),
    ("blank_stop", chat(stop=["END", " "]), "stop"),
    ("kept", responses(previous_response_id="resp_1"), "previous_response_id"),
    ("kept", responses(conversation={"id": "conv_1"}), "conversation"),
)

CUSTOM = {"type": "custom", "custom": {"name": "c"}}
SOUND = {"type": "input_audio", "input_audio": {"data": "AA==", "format": "wav"}}
SEVERAL = {"type": "allowed_tools", "allowed_tools": {"mode": "auto", "tools": []}}

INSIDE: tuple[tuple[str, InferenceRequest, str], ...] = (
    ("custom_tools", chat(tools=[CUSTOM]), "tools"),
    ("allowed_tools", chat(tool_choice=SEVERAL), "tool_choice"),
    ("allowed_tools", chat(tool_choice=CUSTOM), "tool_choice"),
    ("turns", chat(messages=[{"role": "user", "content": [SOUND]}]), "messages.0.content.0"),
    ("turns", completions(prompt=["x", " "]), "prompt"),
)


@pytest.mark.parametrize(("name", "request_", "field"), INSIDE, ids=[f"{name}-{field}" for name, _, field in INSIDE])
def test_what_is_asked_for_inside_is_found_by_its_field(name: str, request_: InferenceRequest, field: str) -> None:
    nature = Nature(lacks=frozenset({name}))
    assert nature.looks_closer
    assert unsaid(nature, request_) == field
    assert unsaid(Nature(lacks=frozenset(ASKS) - {name}), request_) is None


@pytest.mark.parametrize(("name", "request_", "field"), ASKED, ids=[f"{name}-{field}" for name, _, field in ASKED])
def test_what_is_asked_for_is_found_by_its_field(name: str, request_: InferenceRequest, field: str) -> None:
    assert asks_much(request_)
    assert unsaid(Nature(lacks=frozenset({name})), request_) == field
    assert unsaid(Nature(lacks=frozenset(ASKS) - {name}), request_) is None


def test_everything_that_may_be_asked_for_is_shown() -> None:
    assert {name for name, _, _ in ASKED} == set(ASKS) - COMMON
    assert {name for name, _, _ in INSIDE} == COMMON
    assert {field for _, _, field in ASKED} == ASKING


@pytest.mark.parametrize(
    "request_",
    [
        chat(),
        chat(tools=[{"type": "custom", "name": "c"}, {"type": "function", "function": {"name": "custom"}}], tool_choice="auto"),
        chat(tool_choice={"type": "function", "function": {"name": "f"}}),
        completions(prompt=[1, 2]),
        chat(messages=[HI, SO]),
        chat(messages=[HI, SO, HI], response_format=SCHEMA),
        chat(n=1, logprobs=False, logit_bias={}, presence_penalty=0, frequency_penalty=0.0, functions=[], stop=["END"]),
        chat(response_format={"type": "json_schema", "json_schema": {"name": "n"}}, modalities=["text"], audio=None),
        completions(min_p=0, stop_token_ids=[], repetition_penalty=1.0, logprobs=None),
    ],
)
def test_asking_for_nothing_needs_no_words(request_: InferenceRequest) -> None:
    assert unsaid(EVERYTHING, request_) is None


@given(st.sampled_from(ASKED), st.sampled_from(sorted(NATURES)))
def test_what_asks_for_little_is_said_by_every_dialect(asked: tuple[str, InferenceRequest, str], dialect: str) -> None:
    _, request, _ = asked
    assert asks_much(request) or unsaid(NATURES[dialect], request) is None


def test_every_dialect_has_a_nature() -> None:
    assert NATURES.keys() == DIALECTS.keys()
    assert all(nature.lacks <= ASKS.keys() for nature in NATURES.values())


def planned(request: InferenceRequest, *models: Any) -> list[str]:
    plan = Planner(catalogue(*models)).plan(key(), request, wish(None, key(), Endpoint.CHAT), dice=0)
    return [candidate.target.deployment.provider.name for candidate in plan.candidates]


def test_a_deployment_without_words_for_a_request_is_left_out() -> None:
    both = model("m", deployment("m", POOR), deployment("m", provider("rich"), order=2))
    assert planned(chat(n=2), both) == ["rich"]
    assert planned(chat(n=1), both) == ["poor", "rich"]


def test_who_cannot_say_a_part_is_left_out_too() -> None:
    both = model("m", deployment("m", POOR), deployment("m", provider("rich"), order=2))
    assert planned(INSIDE[3][1], both) == ["rich"]
    assert planned(chat(), both) == ["poor", "rich"]


def test_a_request_that_nobody_can_say_is_refused_by_its_field() -> None:
    with pytest.raises(UnsupportedParameter, match="'m' does not support 'logprobs'") as raised:
        planned(chat(logprobs=True), model("m", deployment("m", POOR)))
    assert raised.value.param == "logprobs"


def test_a_fallback_of_the_configuration_without_words_is_left_out() -> None:
    first = model("m", deployment("m", provider("rich")), fallbacks=("n",))
    assert planned(chat(n=2), first, model("n", deployment("n", POOR))) == ["rich"]
    assert planned(chat(), first, model("n", deployment("n", POOR))) == ["rich", "poor"]


def test_who_keeps_nothing_has_nothing_to_come_back_to() -> None:
    for dialect in ("openai", "azure"):
        nature = NATURES[dialect]
        asked_for = responses(previous_response_id="resp_1")
        assert unsaid(nature, asked_for) is None
        assert unsaid(nature.without_store(), asked_for) == "previous_response_id"
        assert unsaid(nature.without_store(), responses()) is None


class TestWhatIsServed:
    def test_chat_that_is_messages_serves_both(self) -> None:
        assert NATURES["anthropic"].served([Endpoint.CHAT]) == {Endpoint.CHAT, Endpoint.MESSAGES}

    def test_other_chat_serves_itself(self) -> None:
        for dialect in ("openai", "azure"):
            assert NATURES[dialect].served([Endpoint.CHAT, Endpoint.COMPLETIONS]) == {Endpoint.CHAT, Endpoint.COMPLETIONS}

    def test_without_chat_there_are_no_messages(self) -> None:
        assert NATURES["anthropic"].served([]) == set()
