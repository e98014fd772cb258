"""What a row says of an answer and of the calls behind it fails where they are otherwise."""

import json
from typing import Any

import msgspec
import pytest

from tests.conformance.cases import Row
from tests.conformance.checks import Answer, check
from tests.conformance.providers import Received, fits, value_of
from tests.fakes.http_server import Request

CALL = {"provider": "native", "path": "/v1/completions"}


def row(**expect: Any) -> Row:
    found = {
        "id": "x",
        "source": "decision",
        "section": "s",
        "shows": "s",
        "setup": {"provider": "native", "key": "full"},
        "request": {},
        "upstream": None,
        "expect": {"status": 200, "upstream_received": None, **expect},
    }
    return msgspec.convert(found, Row)


def answer(body: Any = None, status: int = 200, headers: list[tuple[str, str]] | None = None) -> Answer:
    return Answer(status, headers or [], body if isinstance(body, bytes) else json.dumps(body).encode())


def call(body: bytes = b'{"model":"m"}', provider: str = "native", path: str = "/v1/completions") -> Received:
    headers = [("authorization", "Bearer k")]
    return Received(provider, Request(connection=1, method="POST", path=path, headers=headers, body=body), value_of(body))


BAD = {"error": {"message": "no", "param": None}, "detail": [{"loc": ["body", "models", 0]}, {"loc": ["body", "n"]}]}

ANSWERS: list[tuple[dict[str, Any], Answer, bool]] = [
    ({}, answer(), True),
    ({}, answer(status=201), False),
    ({"status": {"$in": [429, 503]}}, answer(status=503), True),
    ({"status": {"$in": [429, 503]}}, answer(status=502), False),
    ({"error": {"param": None}}, answer(BAD), True),
    ({"error": {"code": None}}, answer(BAD), False),
    ({"error": {}}, answer({"detail": "no"}), False),
    ({"error": {}}, answer(b"<html>"), False),
    ({"error": {}, "detail_locs": [["body", "n"], ["body", "models", 0]]}, answer(BAD), True),
    ({"error": {}, "detail_locs": [["body", "n"]]}, answer(BAD), False),
    ({"error": {}, "detail_locs": [["body", "n"], ["body", "models"]]}, answer(BAD), False),
    ({"error": {}, "detail_locs": [["body", "n"]]}, answer({"error": {}, "detail": "no"}), False),
    ({"error": {}, "detail_loc_prefixes": [["body", "models"], ["body", "n"]]}, answer(BAD), True),
    ({"error": {}, "detail_loc_prefixes": [["body"], ["body", "stop"]]}, answer(BAD), False),
    ({"error": {}, "detail_loc_prefixes": [["body", "models"]]}, answer(BAD), False),
    ({"response": {"json_subset": {"a": 1}}}, answer({"a": 1, "b": 2}), True),
    ({"response": {"json_subset": {"a": 1}}}, answer({"b": 2}), False),
    ({"response": {"json_subset": {"a": 1}}}, answer(b'{"a": 1, "a": 1}'), False),
    ({"response": {"json_subset": {"a": {"$any": "number"}}}}, answer(b'{"a": NaN}'), False),
    ({"response": {"json_absent": ["a.b"]}}, answer({"a": {"c": 1}}), True),
    ({"response": {"json_absent": ["a.b"]}}, answer({"a": {"b": None}}), False),
    ({"response": {"headers": {"x-a": "1"}}}, answer(headers=[("X-A", "1")]), True),
    ({"response": {"headers": {"x-a": "1"}}}, answer(headers=[("X-A", "2")]), False),
    ({"response": {"headers_absent": ["x-b"]}}, answer(headers=[("X-A", "1")]), True),
    ({"response": {"headers_absent": ["x-a"]}}, answer(headers=[("X-A", "1")]), False),
    ({"response": {"text_absent": ["secret"]}}, answer("public"), True),
    ({"response": {"text_absent": ["secret"]}}, answer("a secret"), False),
    ({"stream": {"done": True}}, answer(b"data: [DONE]\n\n"), True),
    ({"stream": {"done": True}}, answer(b""), False),
]

CALLS: list[tuple[Any, list[Received], bool]] = [
    (None, [], True),
    (None, [call()], False),
    ({}, [call(), call()], True),
    ({}, [], False),
    ({}, [call(provider="second")], False),
    ({"path": "/v1/completions"}, [call()], True),
    ({"path": "/v1/completions"}, [call(path="/v1/completions?a=1")], False),
    ({"body_subset": {"model": "m"}}, [call()], True),
    ({"body_subset": {"model": "m"}}, [call(), call(b'{"model":"n"}')], False),
    ({"body_subset": {}}, [call(b"none")], False),
    ({"body_absent": ["n"]}, [call()], True),
    ({"body_absent": ["model"]}, [call()], False),
    ({"body_absent": ["a.b"]}, [call(b'{"a":{"b":null}}')], False),
    ({"headers_subset": {"Authorization": "Bearer k"}}, [call()], True),
    ({"headers_subset": {"authorization": "Bearer c"}}, [call()], False),
    ({"headers_absent": ["x-api-key"]}, [call()], True),
    ({"headers_absent": ["Authorization"]}, [call()], False),
    ({"raw_contains": ['"model":"m"']}, [call()], True),
    ({"raw_contains": ['"model": "m"']}, [call()], False),
    ([CALL], [call()], True),
    ([CALL], [call(), call()], False),
    ([CALL, {"provider": "second"}], [call(), call(provider="second")], True),
    ([CALL, {"provider": "second"}], [call(provider="second"), call()], False),
]


@pytest.mark.parametrize(("expect", "given", "holds"), ANSWERS, ids=repr)
def test_answers(expect: dict[str, Any], given: Answer, holds: bool) -> None:
    assert ([*check(row(**expect), given, [])] == []) is holds


@pytest.mark.parametrize(("expected", "received", "holds"), CALLS, ids=repr)
def test_calls(expected: Any, received: list[Received], holds: bool) -> None:
    assert ([*check(row(upstream_received=expected), answer(), received)] == []) is holds


def test_calls_in_any_order_are_still_exactly_these() -> None:
    expected = [{"body_subset": {"model": "m"}}, {"body_subset": {"model": "n"}}]
    anyhow = row(upstream_received=expected, received_order="any")
    m, n = call(), call(b'{"model":"n"}')
    assert not [*check(anyhow, answer(), [n, m])]
    assert [*check(anyhow, answer(), [n, n])]
    assert [*check(anyhow, answer(), [m])]


def test_a_reply_is_for_the_calls_that_it_names() -> None:
    assert fits({}, call())
    assert fits({"provider": "native", "body": {"model": "m"}}, call())
    assert not fits({"provider": "second"}, call())
    assert not fits({"body": {"model": "n"}}, call())
