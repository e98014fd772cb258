import re
from collections.abc import Callable

import msgspec

from gateway.policy.record import Outcome, Record
from gateway.policy.spans import Span
from gateway.telemetry.access import AccessLog, Line, as_json, as_text
from gateway.wire.usage import Usage
from tests.unit.telemetry.records import attempt, record


def test_a_line_is_one_json_object_with_all_fields() -> None:
    told = record(opened=True, admitted_unix_ms=5, settled_unix_ms=9, org="acme", key_id="k1", client_request_id="theirs")
    text = as_json(told)
    assert text.endswith(b"}\n")
    assert text.count(b"\n") == 1
    line = msgspec.json.decode(text)
    assert tuple(line) == Line.__struct_fields__
    assert line["ts"] == "2026-09-21T14:13:20.500000Z"
    assert (line["event"], line["level"], line["outcome"], line["status"]) == ("request", "info", "ok", 200)
    assert (line["opened"], line["admitted_ms"], line["settled_ms"]) == (True, 5, 9)
    assert (line["ttft_ms"], line["duration_ms"], line["input_tokens"], line["output_tokens"]) == (40, 500, 26, 9)
    assert line["attempts"][0]["provider"] == "nebius"


def test_a_refusal_has_nulls_not_zeros_for_what_nobody_knows() -> None:
    refused = Record(request_id="r", route="chat", started_s=1.0, started_unix_ms=0, status=401, error_code="invalid_api_key")
    line = msgspec.json.decode(as_json(refused))
    assert line["outcome"] == "rejected"
    assert (line["duration_ms"], line["ttft_ms"], line["cost_nano_usd"], line["key_id"]) == (None, None, None, None)
    assert (line["own_cost_nano_usd"], line["price_version"]) == (None, None)


def test_a_cost_comes_with_its_price_and_what_the_operator_pays() -> None:
    used = Usage(input=26, cached=20, cache_write=4, output=9)
    line = msgspec.json.decode(as_json(record(own_cost_nano_usd=700_000, price_version="config-1", usage=used)))
    assert (line["cost_nano_usd"], line["own_cost_nano_usd"], line["price_version"]) == (1_500_000, 700_000, "config-1")
    assert (line["cached_tokens"], line["cache_write_tokens"]) == (20, 4)


def test_words_of_the_client_are_cut_and_cannot_break_the_line() -> None:
    line = as_json(record(model_requested="m\n" * 5000, tier_requested="t" * 5000))
    assert len(line) < 2000
    assert line.count(b"\n") == 1


def test_text_for_a_terminal() -> None:
    tried = [attempt(outcome="busy"), attempt("small")]
    text = as_text(record(attempts=tried, outcome=Outcome.INTERRUPTED, error_code="stream_interrupted")).decode()
    assert re.fullmatch(
        r"14:13:20 200 interrupted chat default llama@nebius 200 > small@nebius 200 500ms 26\+9 tokens r1 stream_interrupted\n",
        text,
    )


def test_lines_of_one_turn_leave_together() -> None:
    written: list[bytes] = []
    later: list[Callable[[], None]] = []
    log = AccessLog(written.append, later.append, lambda each: each.request_id.encode() + b"\n")
    for name in ("a", "b", "c"):
        log.add(record(request_id=name))
    assert (written, len(later)) == ([], 1)
    later.pop()()
    log.flush()
    assert written == [b"a\nb\nc\n"]
    log.add(record(request_id="d"))
    later.pop()()
    assert written == [b"a\nb\nc\n", b"d\n"]


def test_a_request_that_is_traced_says_so() -> None:
    assert msgspec.json.decode(as_json(record()))["trace_id"] is None
    traced = record(span=Span(trace_id=0xABCD, span_id=1, sampled=False))
    assert msgspec.json.decode(as_json(traced))["trace_id"] == "0000000000000000000000000000abcd"
