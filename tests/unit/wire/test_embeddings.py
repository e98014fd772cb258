import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.errors import Unprocessable
from gateway.wire.contracts import DEEPINFRA, NEBIUS, OPENAI
from gateway.wire.prompts import MOST_INPUTS
from gateway.wire.request import Endpoint, InferenceRequest, parse
from tests.unit.wire.bodies import ABSENT, locs, read


def embed(**fields: object) -> InferenceRequest:
    return read(Endpoint.EMBEDDINGS, {"model": "m", "input": "Say hi"} | fields)


@pytest.mark.parametrize(
    ("given", "inputs", "tokens", "of_tokens"),
    [
        ("abc", 1, 2, False),
        ("", 1, 1, False),
        (["a", "b"], 2, 3, False),
        ([1, 2, 3], 1, 3, True),
        ([[1, 2], [3]], 2, 3, True),
        (["x"] * MOST_INPUTS, MOST_INPUTS, (4 * MOST_INPUTS + 3) // 3, False),
    ],
)
def test_inputs_are_classified_as_prompts_are(given: object, inputs: int, tokens: int, of_tokens: bool) -> None:
    request = embed(input=given)
    assert (request.prompts, request.prompt_tokens, request.token_prompt) == (inputs, tokens, of_tokens)


@pytest.mark.parametrize("given", [5, True, {"text": "a"}, ["a", 1], [-1], [1.5], [[1], "a"], ["a", None], [[["a"]]]])
def test_other_inputs_are_refused(given: object) -> None:
    with pytest.raises(Unprocessable) as refused:
        embed(input=given)
    assert (locs(refused.value), refused.value.error_code) == ([("body", "input")], "invalid_type")


@pytest.mark.parametrize("given", [b"[]", b"[ ]", b"[\n]"])
def test_no_input_at_all_is_refused(given: bytes) -> None:
    with pytest.raises(Unprocessable) as refused:
        parse(Endpoint.EMBEDDINGS, b'{"model":"m","input":' + given + b"}")
    assert [(field.loc, field.type) for field in refused.value.fields] == [(("body", "input"), "too_short")]


@pytest.mark.parametrize("given", [["x"] * (MOST_INPUTS + 1), [[1]] * (MOST_INPUTS + 1)])
def test_more_inputs_than_openai_takes_are_refused(given: object) -> None:
    with pytest.raises(Unprocessable) as refused:
        embed(input=given)
    assert [field.type for field in refused.value.fields] == ["too_long"]
    assert embed(input=[1] * (MOST_INPUTS + 1)).prompts == 1, "token ids are one input"


@pytest.mark.parametrize("missing", ["model", "input"])
def test_what_must_be_there(missing: str) -> None:
    with pytest.raises(Unprocessable) as refused:
        embed(**{missing: ABSENT})
    assert (locs(refused.value), refused.value.error_code) == ([("body", missing)], "missing_required_parameter")


@pytest.mark.parametrize(
    ("name", "value", "code"),
    [
        ("encoding_format", "hex", "out_of_range"),
        ("encoding_format", 1, "invalid_type"),
        ("dimensions", 0, "out_of_range"),
        ("dimensions", "256", "invalid_type"),
        ("user", 5, "invalid_type"),
        ("service_tier", 5, "invalid_type"),
        ("models", [], "out_of_range"),
    ],
)
def test_a_field_may_not_be_anything(name: str, value: object, code: str) -> None:
    with pytest.raises(Unprocessable) as refused:
        embed(**{name: value})
    assert (locs(refused.value), refused.value.error_code) == ([("body", name)], code)


def test_what_the_gateway_obeys_is_read() -> None:
    request = embed(models=["a", "b"], service_tier="flex", fail_fast=True, encoding_format="base64", dimensions=256, user="u")
    assert (request.models, request.service_tier, request.fail_fast) == (("a", "b"), "flex", True)
    assert (request.fields["encoding_format"], request.fields["dimensions"], request.fields["user"]) == ("base64", 256, "u")
    assert "encoding_format" not in embed(encoding_format=None).fields


def test_what_only_the_other_endpoints_know_is_unknown_here() -> None:
    request = embed(stream=True, n=7, max_tokens="much", temperature=9, stream_options=5, stop=7)
    assert (request.stream, request.n, request.max_tokens, request.include_usage) == (False, 1, None, None)


def test_an_input_is_no_prompt_elsewhere() -> None:
    with pytest.raises(Unprocessable) as refused:
        read(Endpoint.CHAT, {"model": "m", "messages": [{"role": "user"}], "extra_body": {"input": "x"}})
    assert locs(refused.value) == [("body", "extra_body", "input")]


@pytest.mark.parametrize(("contract", "tier"), [(OPENAI, "default"), (DEEPINFRA, "default"), (NEBIUS, "auto")])
def test_an_absent_tier(contract: object, tier: str) -> None:
    assert contract.absent_tier[Endpoint.EMBEDDINGS] == tier  # type: ignore[attr-defined]


@given(st.lists(st.text(max_size=5), min_size=1, max_size=20) | st.lists(st.lists(st.integers(0, 9), max_size=3), min_size=1))
def test_every_input_is_counted(inputs: list[object]) -> None:
    assert embed(input=inputs).prompts == len(inputs)
