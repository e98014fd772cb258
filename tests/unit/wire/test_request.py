from collections.abc import Mapping

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.errors import InvalidJson, InvalidValue, Unprocessable
from gateway.faults import FieldError
from gateway.wire.request import Endpoint, parse
from tests.unit.wire.bodies import ABSENT, chat, legacy, locs


def test_what_the_gateway_obeys_is_read() -> None:
    request = chat(stream=True, n=3, max_tokens=100, max_completion_tokens=50, service_tier="flex", fail_fast=True)
    assert (request.model, request.stream, request.n, request.max_tokens) == ("m", True, 3, 50)
    assert (request.service_tier, request.fail_fast, request.models) == ("flex", True, None)


def test_null_is_absent() -> None:
    request = legacy(n=None, stream=None, max_tokens=None, service_tier=None, models=None, stream_options=None)
    assert (request.n, request.stream, request.max_tokens, request.service_tier) == (1, False, None, None)
    assert request.include_usage is None


@pytest.mark.parametrize(
    ("options", "on_chat", "on_completions"),
    [
        (None, None, None),
        ({}, False, True),
        ({"include_usage": None}, False, True),
        ({"include_usage": False}, False, False),
        ({"include_usage": True}, True, True),
    ],
)
def test_include_usage(options: dict[str, object] | None, on_chat: bool | None, on_completions: bool | None) -> None:
    assert chat(stream=True, stream_options=options).include_usage is on_chat
    assert legacy(stream=True, stream_options=options).include_usage is on_completions


@pytest.mark.parametrize("model", [ABSENT, "nope", 5, None, {"a": 1}])
def test_models_sets_model_aside(model: object) -> None:
    request = legacy(models=["b", "b"], model=model)
    assert (request.model, request.models) == (None, ("b", "b"))


def test_bad_values_are_told_with_bad_shapes_wherever_they_stand() -> None:
    def judge(fields: Mapping[str, object]) -> list[FieldError]:
        return [FieldError(("body", name), "no good", "value_error") for name in fields if name == "user"]

    body = {"n": 0, "user": "u", "extra_body": {"model": "m", "seed": 1, "stream": True}}
    with pytest.raises(Unprocessable) as refused:
        parse(Endpoint.CHAT, msgspec.json.encode(body), judge=judge)
    inside = [("body", "extra_body", "model"), ("body", "extra_body", "stream")]
    expected = [*(("body", name) for name in ("model", "messages", "n", "user")), *inside]
    assert sorted(locs(refused.value), key=str) == sorted(expected, key=str)


def test_extra_body_is_lifted_below_explicit_fields() -> None:
    request = chat(temperature=0.2, extra_body={"temperature": 0.9, "top_k": 40, "seed": 7})
    body = msgspec.json.decode(request.members.body)
    assert (body["temperature"], body["top_k"], body["seed"], "extra_body" in body) == (0.2, 40, 7, False)
    assert chat(temperature=None, extra_body={"temperature": 0.9}).fields["temperature"] == 0.9
    assert request.fields["seed"] == 7
    with pytest.raises(Unprocessable):
        chat(extra_body={"seed": "x"})
    assert "extra_body" not in msgspec.json.decode(chat(extra_body=None).members.body)


def test_unknown_fields_keep_their_bytes() -> None:
    body = b'{"model":"m","prompt":"x","x_vendor": {"k":  2.50, "big": 123456789012345678901234567890}}'
    assert parse(Endpoint.COMPLETIONS, body).members.body == body


def test_nesting_that_only_just_passes_is_never_a_fault_of_ours() -> None:
    for depth in range(850, 1000):
        with pytest.raises((InvalidJson, Unprocessable)):
            parse(Endpoint.CHAT, b'{"model":"m","messages":[{"role":"user"}],"temperature":' + b"[" * depth + b"]" * depth + b"}")


def test_no_prompt_shows_in_a_repr() -> None:
    assert "Say hi" not in repr(chat())


@given(
    st.dictionaries(
        st.sampled_from(["model", "messages", "prompt", "n", "stop", "models", "stream", "extra_body", "logit_bias", "tools"]),
        st.recursive(
            st.none() | st.booleans() | st.integers() | st.text(max_size=3),
            lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=2),
            max_leaves=5,
        ),
    ),
    st.sampled_from([Endpoint.CHAT, Endpoint.COMPLETIONS]),
)
def test_no_body_makes_anything_but_a_request_or_a_refusal(body: dict[str, object], endpoint: Endpoint) -> None:
    try:
        request = parse(endpoint, msgspec.json.encode(body))
    except (InvalidJson, InvalidValue, Unprocessable):
        return
    assert request.prompts >= 1
