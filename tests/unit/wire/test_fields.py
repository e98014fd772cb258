import msgspec
import pytest

from gateway.errors import Unprocessable
from gateway.wire.request import Endpoint, parse
from tests.unit.wire.bodies import ABSENT, ROUTES, legacy, locs, read


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
