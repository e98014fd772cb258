from typing import Any

import pytest
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.sdk.util.instrumentation import InstrumentationScope
from opentelemetry.trace import SpanKind, StatusCode

from gateway.policy.catalogue import Deployment, Provider, Secret
from gateway.policy.record import Outcome
from gateway.policy.spans import Span
from gateway.telemetry.otlp import Gradual, Maker, operation_of, resource_of
from gateway.web.api import routes
from gateway.wire.contracts import PREFIXES
from tests.unit.telemetry.records import attempt, record

MAKER = Maker(Resource({}), InstrumentationScope("tiergate"))


def deployment(model: str = "llama", provider: str = "nebius", url: str = "https://api.example.com/v1") -> Deployment:
    where = Provider(name=provider, dialect="openai", base_url=url, api_key=Secret("k"))
    return Deployment(id=f"{model}/{provider}/up-{model}", provider=where, upstream_model=f"up-{model}")


def span(*starts_s: float, **changes: Any) -> Span:
    found = Span(trace_id=1, span_id=0xF000, sampled=True, **changes)
    for start_s in starts_s:
        found.hop(deployment(), start_s)
    return found


def made(own: Span, **changes: Any) -> list[ReadableSpan]:
    return [*MAKER.spans(record(span=own, model_requested="llama", model_shown="llama", **changes), own)]


def seconds(moment_ns: int | None) -> float:
    """Return when something was on the clock of the records."""
    assert moment_ns is not None
    return round(100.0 + moment_ns / 1e9 - 1_790_000_000, 6)


def events(found: ReadableSpan) -> list[tuple[str, float]]:
    return [(event.name, seconds(event.timestamp)) for event in found.events]


def test_a_stream_and_its_call_end_together() -> None:
    request, call = made(span(100.02))
    assert (request.kind, call.kind) == (SpanKind.SERVER, SpanKind.CLIENT)
    assert [seconds(each) for each in (request.start_time, request.end_time)] == [100.0, 100.5]
    assert [seconds(each) for each in (call.start_time, call.end_time)] == [100.02, 100.5]
    assert events(request) == [("tiergate.first_content", 100.04)]


def test_a_whole_answers_call_ends_with_it_and_never_after_the_request() -> None:
    assert seconds(made(span(100.02), stream=False)[1].end_time) == 100.42
    assert seconds(made(span(100.2), stream=False)[1].end_time) == 100.5


def test_what_was_refused_before_it_was_tried_has_no_span_but_an_event() -> None:
    tried = [attempt("small", outcome="refused", sent=False), attempt(outcome="server"), attempt()]
    request, first, second = made(span(100.02, 100.2), attempts=tried)
    assert events(request) == [("tiergate.fallback", 100.02), ("tiergate.first_content", 100.04), ("tiergate.fallback", 100.2)]
    reasons = [event.attributes["tiergate.reason"] for event in request.events if event.attributes]
    assert reasons == ["refused", "server"]
    assert [call.attributes and call.attributes.get("error.type") for call in (first, second)] == ["server", None]
    assert [call.status.status_code for call in (first, second)] == [StatusCode.ERROR, StatusCode.UNSET]


def test_a_call_that_a_fault_of_ours_cut_off_is_told_as_one() -> None:
    request, call = made(
        span(100.02), attempts=[], ttft_s=None, status=500, outcome=Outcome.INTERRUPTED, error_code="internal_error"
    )
    assert (request.status.status_code, call.status.status_code) == (StatusCode.ERROR, StatusCode.ERROR)
    assert call.attributes is not None
    assert call.attributes["error.type"] == "internal_error"
    assert seconds(call.end_time) == 100.5


def test_a_wait_is_told_when_it_is_over() -> None:
    own = span(100.4)
    own.waits.append((100.1, 100.4))
    [request, _] = made(own, ttft_s=0.45)
    assert events(request) == [("tiergate.queue", 100.4), ("tiergate.first_content", 100.45)]
    assert request.events[0].attributes == {"tiergate.queue.wait_ms": 300}


def test_a_refusal_is_no_failure_of_ours() -> None:
    [request] = made(span(), attempts=[], ttft_s=None, status=429, outcome=Outcome.REJECTED, error_code="rate_limit_exceeded")
    assert request.status.status_code is StatusCode.UNSET
    assert request.attributes is not None
    assert request.attributes["error.type"] == "rate_limit_exceeded"
    assert "gen_ai.usage.input_tokens" not in request.attributes


def test_a_request_that_names_no_model_is_named_by_what_it_does() -> None:
    own = span()
    [request] = MAKER.spans(record(span=own, route="/v1/embeddings", attempts=[]), own)
    assert request.name == "embeddings"


def test_a_clients_words_are_cut() -> None:
    own = span()
    [request] = MAKER.spans(record(span=own, model_requested="m" * 5000, tier_requested="t" * 5000, attempts=[]), own)
    assert len(request.name) < 250
    assert request.attributes is not None
    assert max(len(str(value)) for value in request.attributes.values()) == 200


def test_spans_are_counted_as_they_come() -> None:
    found = Gradual(MAKER, [record(span=span()), record(), record(span=span(100.1, 100.2))])
    assert [len(found), len([*found]), len([*found])] == [4, 4, 4]


def test_every_route_does_something() -> None:
    words = {operation_of(route.path) for route in routes(PREFIXES)}
    assert words == {"chat", "text_completion", "embeddings", "count_tokens"}
    assert operation_of("/v1/completions") == "text_completion"
    assert operation_of("/v1/chat/completions") == "chat"


def test_the_environment_names_who_tells(monkeypatch: pytest.MonkeyPatch) -> None:
    own = ("service.name", "service.version", "service.instance.id")
    assert [resource_of("1.2", "w0").attributes[name] for name in own] == ["tiergate", "1.2", "w0"]
    monkeypatch.setenv("OTEL_RESOURCE_ATTRIBUTES", "deployment.environment=test,service.instance.id=pod-1")
    told = resource_of("1.2", "w0").attributes
    assert [told[name] for name in (*own, "deployment.environment")] == ["tiergate", "1.2", "pod-1", "test"]
    monkeypatch.setenv("OTEL_SERVICE_NAME", "edge")
    assert resource_of("1.2", "w0").attributes["service.name"] == "edge"
