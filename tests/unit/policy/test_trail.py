from typing import Any

from gateway.policy.catalogue import Tier
from gateway.policy.record import Attempt, Record
from gateway.policy.trail import latin1, trail


def record(**fields: Any) -> Record:
    return Record(request_id="r1", route="/v1/chat/completions", started_s=0.0, started_unix_ms=0, **fields)


def tried(model: str, status: int) -> Attempt:
    return Attempt(model=model, provider="p", status=status, outcome="ok", sent=True)


def test_an_answer_says_who_served_it() -> None:
    served = record(
        status=200,
        attempts=[tried("busy", 429), tried("small", 200)],
        model_shown="small",
        provider="p",
        tier_served=Tier.OVER_LIMIT,
    )
    assert dict(trail(served, hide_providers=False)) == {
        b"x-request-id": b"r1",
        b"x-gateway-attempts": b"busy;429, small;200",
        b"x-gateway-model": b"small",
        b"x-gateway-provider": b"p",
        b"x-gateway-service-tier": b"over-limit",
        b"x-ratelimit-over-limit": b"yes",
    }
    assert b"x-gateway-provider" not in dict(trail(served, hide_providers=True))


def test_a_refusal_says_what_was_tried_and_no_more() -> None:
    refused = record(status=429, attempts=[tried("busy", 429)], model_shown="busy", provider="p", tier_served=Tier.DEFAULT)
    refused.rate_headers = [(b"x-ratelimit-limit-requests", b"10")]
    assert [name for name, _ in trail(refused, hide_providers=False)] == [
        b"x-request-id",
        b"x-gateway-attempts",
        b"x-ratelimit-limit-requests",
    ]


def test_dropped_fields_are_reported() -> None:
    found = dict(trail(record(status=200, dropped_params=("store", "user")), hide_providers=False))
    assert found[b"x-gateway-dropped-params"] == b"store, user"


def test_lowered_values_are_reported() -> None:
    found = dict(trail(record(status=200, adjusted_params=("max_tokens=8192", "logprobs=20")), hide_providers=False))
    assert found[b"x-gateway-adjusted-params"] == b"max_tokens=8192, logprobs=20"


def test_a_header_takes_only_what_fits() -> None:
    assert latin1("a\r\nb\x7f模é") == b"a??b??\xe9"
