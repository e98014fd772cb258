"""What a row says of a stream fails where a stream is otherwise."""

import json
from typing import Any

import pytest

from tests.conformance.streams import check_stream

DONE = "data: [DONE]\n\n"
USAGE = {"total_tokens": 3}


def chunk(text: str | None = None, finish: str | None = None, index: int = 0, **more: Any) -> dict[str, Any]:
    delta = {} if text is None else {"content": text}
    return {"id": "c1", "choices": [{"index": index, "delta": delta, "finish_reason": finish}], **more}


def sse(*payloads: Any, end: str = DONE) -> str:
    return "".join(f"data: {json.dumps(payload)}\n\n" for payload in payloads) + end


ERROR = {"error": {"message": "broke off"}}
TRAILING = {"id": "c1", "choices": [], "usage": USAGE}
WHOLE = (chunk("a"), chunk("b"), chunk(finish="stop"))

HOLDS: list[tuple[dict[str, Any], str]] = [
    ({"done": True}, sse(*WHOLE)),
    ({"done": False}, sse(*WHOLE, ERROR, end="")),
    ({"done": True}, sse(*WHOLE).replace("\n", "\r\n")),
    ({"done": True}, ": ping\n\n" + sse(*WHOLE)),
    ({"done": True, "text_by_index": {"0": "ab"}, "finish_by_index": {"0": "stop"}}, sse(*WHOLE)),
    ({"done": True, "text_by_index": {"1": "x"}}, sse({"choices": [{"index": 1, "text": "x"}]})),
    ({"done": True, "every": {"id": "c1"}, "same_id": True}, sse(*WHOLE)),
    ({"done": False, "every": {"id": "c1"}, "same_id": True}, sse(*WHOLE, ERROR, end="")),
    ({"done": False, "events": [chunk("a"), ERROR]}, sse(*WHOLE, ERROR, end="")),
    ({"done": True, "events": [*WHOLE], "exact": True}, sse(*WHOLE)),
    ({"done": True, "service_tier": "flex"}, sse(chunk("a"), chunk("b", service_tier="flex"))),
    ({"done": True, "usage": "none"}, sse(*WHOLE, chunk(usage=None))),
    ({"done": True, "usage": "trailing"}, sse(*WHOLE, TRAILING)),
    ({"done": True, "usage": "finish"}, sse(chunk("a"), chunk(finish="stop", usage=USAGE))),
    ({"done": True, "usage": "any"}, sse(chunk("a", usage=USAGE))),
]

FAILS: list[tuple[dict[str, Any], str]] = [
    ({"done": True}, sse(*WHOLE, end="")),
    ({"done": True}, sse(*WHOLE, end=DONE + DONE)),
    ({"done": True}, DONE + sse(*WHOLE, end="")),
    ({"done": True}, sse(*WHOLE, end="data: [DONE]\n")),
    ({"done": True}, sse(*WHOLE, end="data: {\n\n" + DONE)),
    ({"done": True}, sse(*WHOLE, [])),
    ({"done": True}, '{"object": "chat.completion"}'),
    ({"done": False}, sse(*WHOLE)),
    ({"done": True, "text_by_index": {"0": "a"}}, sse(*WHOLE)),
    ({"done": True, "text_by_index": {"1": "ab"}}, sse(*WHOLE)),
    ({"done": True, "finish_by_index": {"0": "length"}}, sse(*WHOLE)),
    ({"done": True, "finish_by_index": {"0": "stop"}}, sse(*WHOLE, chunk(finish="stop"))),
    ({"done": True, "every": {"id": "c1"}}, sse(*WHOLE, {"choices": []})),
    ({"done": True, "same_id": True}, sse(*WHOLE, {"id": "c2", "choices": []})),
    ({"done": True, "same_id": True}, sse({"choices": []}, {"choices": []})),
    ({"done": True, "same_id": True}, sse()),
    ({"done": True, "events": [chunk("b"), chunk("a")]}, sse(*WHOLE)),
    ({"done": True, "events": [chunk("a"), chunk("a")]}, sse(*WHOLE)),
    ({"done": True, "events": [*WHOLE[:2]], "exact": True}, sse(*WHOLE)),
    ({"done": True, "service_tier": "flex"}, sse(*WHOLE)),
    ({"done": True, "service_tier": "flex"}, sse(chunk("a", service_tier="flex"), chunk("b", service_tier="default"))),
    ({"done": True, "usage": "none"}, sse(*WHOLE, TRAILING)),
    ({"done": True, "usage": "trailing"}, sse(*WHOLE)),
    ({"done": True, "usage": "trailing"}, sse(TRAILING, *WHOLE)),
    ({"done": True, "usage": "trailing"}, sse(chunk("a", usage=USAGE), TRAILING)),
    ({"done": True, "usage": "trailing"}, sse(chunk("a"), chunk(finish="stop", usage=USAGE))),
    ({"done": True, "usage": "finish"}, sse(*WHOLE)),
    ({"done": True, "usage": "finish"}, sse(*WHOLE, TRAILING)),
    ({"done": True, "usage": "finish"}, sse(chunk("a", usage=USAGE), chunk(finish="stop", usage=USAGE))),
    ({"done": True, "usage": "finish"}, sse(chunk(finish="stop", usage=USAGE), {"choices": []})),
    ({"done": True, "usage": "any"}, sse(*WHOLE)),
]


@pytest.mark.parametrize(("expect", "text"), HOLDS, ids=repr)
def test_a_stream_as_expected_holds(expect: dict[str, Any], text: str) -> None:
    assert [*check_stream(expect, text)] == []


@pytest.mark.parametrize(("expect", "text"), FAILS, ids=repr)
def test_a_stream_that_is_otherwise_fails(expect: dict[str, Any], text: str) -> None:
    assert [*check_stream(expect, text)]
