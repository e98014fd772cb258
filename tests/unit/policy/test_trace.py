"""What is told of a request: to the operator all of it, to a client what its header holds."""

from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.policy.answers import Cause, Refusal
from gateway.policy.charges import Charge, Dimension, Kind, Reach, Unit
from gateway.policy.record import Attempt, Outcome, Reason, Record
from gateway.policy.trace import LONGEST_HEADER, Trace, account, reason_of, trace_of
from gateway.policy.trail import trail

LIMIT = Reason(cause="limit", scope="key", dimension="rpm", wait_ms=700)


def record(**fields: Any) -> Record:
    return Record(request_id="r1", route="/v1/chat/completions", started_s=10.0, started_unix_ms=1_000, **fields)


def passed_over(model: str, reason: Reason = LIMIT) -> Attempt:
    return Attempt(model=model, provider="p", status=429, outcome="refused", sent=False, reason=reason)


def served(model: str) -> Attempt:
    return Attempt(model=model, provider="p", status=200, outcome="ok", sent=True, duration_ms=31)


def charge(scope: str, dimension: Dimension = Dimension.RPM, kind: Kind = Kind.RATE) -> Charge:
    return Charge(scope, dimension, kind, Unit.REQUEST, Reach.REQUEST, 9, 9, 60_000, 9, True, True)


@pytest.mark.parametrize(
    ("refusal", "reason"),
    [
        (Refusal(0, charge("k:ci"), 700), LIMIT),
        (
            Refusal(0, charge("om:acme:m", Dimension.TPM), 5),
            Reason(cause="limit", scope="org x model", dimension="tpm", wait_ms=5),
        ),
        (
            Refusal(0, charge("d:m/p/u", Dimension.CONCURRENCY, Kind.HELD), None),
            Reason(cause="limit", scope="deployment", dimension="concurrency"),
        ),
        (Refusal(0, charge("k:ci"), 700, Cause.TOO_LARGE), Reason(cause="too_large", scope="key", dimension="rpm")),
        (Refusal(0, charge("d:m/p/u"), 1_200, Cause.COOLING), Reason(cause="cooling", wait_ms=1_200)),
        (Refusal(0, charge("d:m/p/u"), None, Cause.OPEN), Reason(cause="open")),
        (Refusal(0, charge("d:m/p/u"), None, Cause.DISABLED), Reason(cause="disabled")),
    ],
)
def test_a_refusal_is_told_by_kind_and_never_by_whose_bucket_it_is(refusal: Refusal, reason: Reason) -> None:
    assert reason_of(refusal) == reason


def test_a_trace_comes_back_from_the_store_as_it_went() -> None:
    went = trace_of(record(attempts=[passed_over("a"), served("b")], outcome=Outcome.OK, status=200, ended_s=10.5, ttft_s=0.25))
    assert msgspec.msgpack.decode(msgspec.msgpack.encode(went), type=Trace) == went
    assert (went.ttft_ms, went.duration_ms) == (250, 500)


def test_service_over_the_limit_is_told_with_the_limit() -> None:
    over = record(attempts=[served("m")], tier_served="over-limit", limited=LIMIT)
    assert trace_of(over).limited == LIMIT
    assert msgspec.json.decode(account(over, hide_providers=False))["limited"]["dimension"] == "rpm"
    assert trace_of(record()).limited is None


def test_a_trace_keeps_of_a_clients_words_so_much() -> None:
    found = trace_of(record(models_requested=("m" * 10_000,) * 100, tier_requested="t" * 10_000, error_code="c" * 10_000))
    assert len(msgspec.msgpack.encode(found)) < 5_000
    assert trace_of(record(model_requested="m")).models_requested == ["m"]
    assert trace_of(record()).models_requested == []


def test_a_client_hears_what_was_tried_and_why_not() -> None:
    told = account(
        record(attempts=[passed_over("a"), served("b")], tier_served="default", queued_ms=12, tier_requested="auto"),
        hide_providers=False,
    )
    assert msgspec.json.decode(told) == {
        "tier_asked": "auto",
        "tier_served": "default",
        "queued_ms": 12,
        "attempts": [
            {
                "model": "a",
                "provider": "p",
                "status": 429,
                "outcome": "refused",
                "reason": {"cause": "limit", "scope": "key", "dimension": "rpm", "wait_ms": 700},
            },
            {"model": "b", "provider": "p", "status": 200, "outcome": "ok", "duration_ms": 31},
        ],
    }
    assert b"provider" not in account(record(attempts=[served("b")]), hide_providers=True)


@given(names=st.lists(st.text(max_size=200), max_size=40), word=st.text() | st.none())
def test_an_account_is_a_header_whatever_it_tells(names: list[str], word: str | None) -> None:
    attempts = [passed_over(name.encode("utf-8", "replace").decode()) for name in names]
    told = account(
        record(attempts=attempts, tier_requested=word and word.encode("utf-8", "replace").decode()), hide_providers=False
    )
    assert len(told) <= LONGEST_HEADER
    assert all(32 <= byte < 127 for byte in told)
    found = msgspec.json.decode(told)
    kept = [step["model"] for step in found["attempts"]]
    assert kept == [attempt.model for attempt in attempts[found.get("omitted", 0) :]]
    assert found.get("omitted", 0) + len(kept) == len(attempts)


def test_the_header_is_sent_where_it_was_asked_for_alone() -> None:
    assert b"x-gateway-explain" not in dict(trail(record(attempts=[served("b")]), hide_providers=False))
    asked = dict(trail(record(attempts=[served("b")], explains=True), hide_providers=True))
    assert asked[b"x-gateway-explain"] == account(record(attempts=[served("b")]), hide_providers=True)
