from typing import Any

from gateway.policy.catalogue import Deployment, Provider, Secret
from gateway.policy.spans import Span, of_client, parent_of
from gateway.wire.traceparent import Parent

HEADER = b"00-0000000000000000000000000000abcd-000000000000cafe-01"


def deployment(**changes: Any) -> Deployment:
    provider = Provider(name="p", dialect="openai", base_url="https://p", api_key=Secret("k"), **changes)
    return Deployment(id="m/p/up-m", provider=provider, upstream_model="up-m")


def test_each_call_has_an_id_of_its_own() -> None:
    span = Span(trace_id=0xABCD, span_id=0xF00D, sampled=True)
    ids = [span.hop(deployment(), 1.0).span_id for _ in range(6)]
    assert len({*ids, span.span_id}) == 7
    assert [hop.span_id for hop in span.hops] == ids


def test_only_a_provider_that_is_to_hear_of_a_trace_does() -> None:
    span = Span(trace_id=0xABCD, span_id=0xF00D, sampled=False)
    assert span.headers(span.hop(deployment(), 1.0)) == ()
    told = span.headers(span.hop(deployment(propagates=True), 2.0))
    assert told == ((b"traceparent", b"00-0000000000000000000000000000abcd-000000000000f00f-00"),)


def test_where_no_spans_are_made_the_clients_own_goes_on() -> None:
    parent = parent_of({b"traceparent": HEADER})
    assert parent == Parent(0xABCD, 0xCAFE, sampled=True)
    assert parent is not None
    span = of_client(parent)
    assert span.headers(span.hop(deployment(propagates=True), 1.0)) == ((b"traceparent", HEADER),)


def test_a_client_that_names_no_trace_has_none() -> None:
    assert parent_of({}) is None
    assert parent_of({b"traceparent": b"nonsense"}) is None
