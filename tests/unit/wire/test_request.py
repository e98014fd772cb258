import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gateway.errors import InvalidJson, InvalidValue, Unprocessable
from gateway.wire.request import Endpoint, InferenceRequest, parse, refuse_entries

ABSENT = object()


def chat(**fields: object) -> InferenceRequest:
    return read(Endpoint.CHAT, {"model": "m", "messages": [{"role": "user", "content": "Say hi"}]} | fields)


def legacy(**fields: object) -> InferenceRequest:
    return read(Endpoint.COMPLETIONS, {"model": "m", "prompt": "Say hi"} | fields)


def read(endpoint: Endpoint, body: dict[str, object]) -> InferenceRequest:
    return parse(endpoint, msgspec.json.encode({name: value for name, value in body.items() if value is not ABSENT}))


ROUTES = {"chat": chat, "legacy": legacy}


def locs(refused: Unprocessable) -> list[tuple[str | int, ...]]:
    return [field.loc for field in refused.fields]


@pytest.mark.parametrize(
    ("route", "name", "low", "high", "below", "above"),
    [
        (route, *bounds)
        for route in ROUTES
        for bounds in (
            ("temperature", 0, 2, -0.1, 2.1),
            ("top_p", 0, 1, -0.1, 1.1),
            ("presence_penalty", -2, 2, -2.1, 2.1),
            ("frequency_penalty", -2, 2, -2.1, 2.1),
            ("n", 1, 128, 0, 129),
            ("max_tokens", 1, 10_000_000, 0, 10_000_001),
            ("max_completion_tokens", 1, 10_000_000, -1, 10_000_001),
            ("seed", -(2**63), 2**64 - 1, None, None),
        )
    ]
    + [
        ("legacy", "min_p", 0, 1, -0.01, 1.01),
        ("legacy", "top_k", 0, 5000, -1, None),
        ("legacy", "repetition_penalty", 0.01, 5, 0.009, 5.01),
        ("legacy", "logprobs", 0, 123, -1, None),
    ],
)
def test_numbers_have_bounds(route: str, name: str, low: float, high: float, below: float | None, above: float | None) -> None:
    make = ROUTES[route]
    assert make(**{name: low}).fields[name] == low
    assert make(**{name: high}).fields[name] == high
    assert name not in make(**{name: None}).fields
    for outside in (below, above):
        if outside is not None:
            with pytest.raises(Unprocessable) as refused:
                make(**{name: outside})
            assert (refused.value.param, refused.value.error_code, locs(refused.value)) == (
                name,
                "out_of_range",
                [("body", name)],
            )
    odds: tuple[object, ...] = ("high", True, [1], {})
    for odd in odds:
        with pytest.raises(Unprocessable) as refused:
            make(**{name: odd})
        assert (refused.value.param, refused.value.error_code) == (name, "invalid_type")


@pytest.mark.parametrize("seed", [b"18446744073709551616", b"-9223372036854775809", b"123456789012345678901234567890", b"1e999"])
def test_a_seed_beyond_64_bits_is_out_of_range(seed: bytes) -> None:
    with pytest.raises(Unprocessable) as refused:
        parse(Endpoint.COMPLETIONS, b'{"model":"m","prompt":"x","seed":' + seed + b"}")
    assert (refused.value.param, refused.value.error_code) == ("seed", "out_of_range")


@pytest.mark.parametrize(
    ("route", "fields", "bad"),
    [
        ("legacy", {"stop": ""}, ("stop",)),
        ("legacy", {"stop": ["END", ""]}, ("stop", 1)),
        ("legacy", {"stop": [1]}, ("stop", 0)),
        ("legacy", {"stop": 5}, ("stop",)),
        ("legacy", {"stop": ["s"] * 17}, ("stop",)),
        ("legacy", {"logit_bias": {"7": 100.1}}, ("logit_bias", "7")),
        ("legacy", {"logit_bias": {"abc": 1}}, ("logit_bias", "abc")),
        ("legacy", {"logit_bias": {"7": None}}, ("logit_bias", "7")),
        ("legacy", {"logit_bias": [7]}, ("logit_bias",)),
        ("legacy", {"stop_token_ids": [0] * 17}, ("stop_token_ids",)),
        ("legacy", {"stop_token_ids": ["a"]}, ("stop_token_ids", 0)),
        ("legacy", {"stop_token_ids": [1.5]}, ("stop_token_ids", 0)),
        ("legacy", {"prompt_cache_options": "1h"}, ("prompt_cache_options",)),
        ("legacy", {"prompt_cache_options": {"mode": "always"}}, ("prompt_cache_options", "mode")),
        ("legacy", {"data": {"image": "x"}}, ("data", "image")),
        ("legacy", {"data": {"image": [5]}}, ("data", "image", 0)),
        ("legacy", {"logprobs": True}, ("logprobs",)),
        ("legacy", {"echo": "yes"}, ("echo",)),
        ("legacy", {"suffix": 5}, ("suffix",)),
        ("legacy", {"best_of": "two"}, ("best_of",)),
        ("legacy", {"stream": "true"}, ("stream",)),
        ("legacy", {"fail_fast": "yes"}, ("fail_fast",)),
        ("legacy", {"service_tier": 3}, ("service_tier",)),
        ("legacy", {"stream_options": "yes"}, ("stream_options",)),
        ("legacy", {"stream_options": {"include_usage": "yes"}}, ("stream_options", "include_usage")),
        ("legacy", {"response_format": "json"}, ("response_format",)),
        ("legacy", {"response_format": {"type": "xml"}}, ("response_format", "type")),
        ("legacy", {"response_format": {}}, ("response_format", "type")),
        ("legacy", {"response_format": {"type": "json_schema"}}, ("response_format", "json_schema")),
        (
            "legacy",
            {"response_format": {"type": "json_schema", "json_schema": {"schema": {}}}},
            ("response_format", "json_schema", "name"),
        ),
        ("legacy", {"response_format": {"type": "regex"}}, ("response_format", "regex")),
        ("legacy", {"model": 5}, ("model",)),
        ("chat", {"messages": "Hello!"}, ("messages",)),
        ("chat", {"messages": {"role": "user"}}, ("messages",)),
        ("chat", {"messages": []}, ("messages",)),
        ("chat", {"messages": [{"role": "user"}, {"content": "x"}]}, ("messages", 1, "role")),
        ("chat", {"messages": [{"role": 5}]}, ("messages", 0, "role")),
        ("chat", {"messages": ["x"]}, ("messages", 0)),
        ("chat", {"logprobs": 5}, ("logprobs",)),
        ("chat", {"top_logprobs": 21, "logprobs": True}, ("top_logprobs",)),
        ("chat", {"tools": "f"}, ("tools",)),
        ("chat", {"tools": ["f"]}, ("tools", 0)),
        ("chat", {"reasoning_effort": "huge"}, ("reasoning_effort",)),
        ("chat", {"store": "yes"}, ("store",)),
        ("chat", {"extra_body": "top_k=1"}, ("extra_body",)),
        ("chat", {"extra_body": {"stream": True}}, ("extra_body", "stream")),
        ("chat", {"models": []}, ("models",)),
        ("chat", {"models": ["a", "b", "c", "d", "a"]}, ("models",)),
        ("chat", {"models": "a"}, ("models",)),
        ("chat", {"models": ["", "a"]}, ("models", 0)),
        ("chat", {"models": ["a", None]}, ("models", 1)),
        ("chat", {"model": ABSENT}, ("model",)),
        ("chat", {"model": None}, ("model",)),
        ("chat", {"messages": ABSENT}, ("messages",)),
        ("legacy", {"prompt": None}, ("prompt",)),
    ],
)
def test_a_bad_field_is_named(route: str, fields: dict[str, object], bad: tuple[str | int, ...]) -> None:
    with pytest.raises(Unprocessable) as refused:
        ROUTES[route](**fields)
    assert locs(refused.value) == [("body", *bad)]


def test_every_bad_field_is_told_at_once() -> None:
    with pytest.raises(Unprocessable) as refused:
        read(Endpoint.COMPLETIONS, {"max_tokens": 0, "echo": "yes", "models": None})
    assert locs(refused.value) == [("body", "model"), ("body", "prompt"), ("body", "max_tokens"), ("body", "echo")]
    assert refused.value.error_code == "missing_required_parameter"


@pytest.mark.parametrize(
    "fields",
    [
        {"stop": "END"},
        {"stop": []},
        {"stop": ["s"] * 16},
        {"logit_bias": {"50256": -100, "11": 0.5}},
        {"response_format": {"type": "regex", "regex": "a+"}},
        {"response_format": {"type": "json_schema", "json_schema": {"name": "pet", "schema": {}}}},
        {"prompt_cache_options": {}},
        {"prompt_cache_options": {"mode": "explicit", "ttl": "5m"}},
        {"data": {"image": ["data:image/png;base64,AA=="], "video": None}},
        {"top_logprobs": 3},
        {"messages": 5},
    ],
)
def test_what_the_contracts_allow_is_accepted(fields: dict[str, object]) -> None:
    assert legacy(**fields).members.value(next(iter(fields))) == msgspec.json.encode(next(iter(fields.values())))


@pytest.mark.parametrize("fields", [{"top_logprobs": 3}, {"top_logprobs": 3, "logprobs": False}, {"top_logprobs": 0}])
def test_top_logprobs_needs_logprobs(fields: dict[str, object]) -> None:
    with pytest.raises(InvalidValue) as refused:
        chat(**fields)
    assert refused.value.param == "top_logprobs"


@pytest.mark.parametrize(
    ("prompt", "prompts", "tokens", "of_tokens"),
    [
        ("abc", 1, 2, False),
        ("", 1, 1, False),
        (["a", "b"], 2, 3, False),
        ([1, 2, 3], 1, 3, True),
        ([0], 1, 1, True),
        ([[1, 2], [3]], 2, 3, True),
        ([], 1, 1, False),
    ],
)
def test_prompts_are_classified(prompt: object, prompts: int, tokens: int, of_tokens: bool) -> None:
    request = legacy(prompt=prompt)
    assert (request.prompts, request.prompt_tokens, request.token_prompt) == (prompts, tokens, of_tokens)


@pytest.mark.parametrize(
    "prompt", [5, True, {"text": "a"}, ["a", 1], [True], [-1], [1.5], [1.0], [[1], "a"], [[1, -2]], ["a", None], [[["a"]]]]
)
def test_other_prompts_are_refused(prompt: object) -> None:
    with pytest.raises(Unprocessable) as refused:
        legacy(prompt=prompt)
    assert locs(refused.value) == [("body", "prompt")]
    assert refused.value.error_code == "invalid_type"


def test_messages_are_estimated_by_their_bytes_and_files_at_a_flat_rate() -> None:
    text = msgspec.json.encode([{"role": "user", "content": "x" * 300}])
    assert chat(messages=[{"role": "user", "content": "x" * 300}]).prompt_tokens == -(-len(text) // 3) + 4
    image = {"type": "image_url", "image_url": {"url": "data:image/png;base64," + "A" * 90_000}}
    assert 1_000 < chat(messages=[{"role": "user", "content": [image]}]).prompt_tokens < 1_100


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


def test_only_plain_or_registered_names_may_be_in_models() -> None:
    refuse_entries(("a", "qwen:7b"), {"a", "qwen:7b"})
    with pytest.raises(Unprocessable) as refused:
        refuse_entries(("a:rev1", "a", "deploy_id:x", "10.0.0.1:8000", "http://e.example/m"), {"a"})
    assert locs(refused.value) == [("body", "models", place) for place in (0, 2, 3, 4)]


def test_extra_body_is_lifted_below_explicit_fields() -> None:
    request = chat(temperature=0.2, extra_body={"temperature": 0.9, "top_k": 40, "seed": 7})
    body = msgspec.json.decode(request.members.body)
    assert (body["temperature"], body["top_k"], body["seed"], "extra_body" in body) == (0.2, 40, 7, False)
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


@settings(max_examples=60)
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
