"""Records as OpenTelemetry has them: a server span a request, a client span a call to an upstream, with the GenAI attributes.

The one module that loads OpenTelemetry, itself loaded only where there is a collector. Sampling, resource, and the exporter's
headers, timeout, compression and certificates are as the standard's OTEL_ variables say. Nothing of a prompt or answer is told.
"""

import time
from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise
from urllib.parse import urlsplit

import msgspec
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.resources import OTELResourceDetector, Resource
from opentelemetry.sdk.trace import Event, ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SpanExportResult
from opentelemetry.sdk.trace.sampling import Decision
from opentelemetry.sdk.util.instrumentation import InstrumentationScope
from opentelemetry.trace import NonRecordingSpan, SpanContext, SpanKind, TraceFlags, set_span_in_context
from opentelemetry.trace.status import Status, StatusCode

from gateway.policy.pricing import NANO_USD
from gateway.policy.record import Attempt, Outcome, Record, short
from gateway.policy.spans import Hop, Span
from gateway.wire.traceparent import Parent

PATH = "/v1/traces"
"""Of the signal, below a collector's base URL."""

OPERATIONS = (
    ("/chat/completions", "chat"),
    ("/completions", "text_completion"),
    ("/embeddings", "embeddings"),
    ("/messages", "chat"),
    ("/responses", "chat"),
    ("/count_tokens", "count_tokens"),
)
"""`gen_ai.operation.name` by the end of a route's path."""

FAILED = frozenset({Outcome.INTERRUPTED, Outcome.TIMEOUT, Outcome.UPSTREAM_ERROR})
"""Ends that nobody but we and our providers have to answer for."""

REST_S = 0.00001
"""Any time at all lets others have the interpreter; kernels make some 60 µs of it."""

Attributes = Mapping[str, str | bool | int | float]


class Otlp:
    """A collector that speaks OTLP over HTTP; a `gateway.telemetry.spans.Exporter`."""

    def __init__(self, endpoint: str, *, release: str, worker: str) -> None:
        provider = TracerProvider(resource=resource_of(release, worker), shutdown_on_exit=False)
        self._ids = provider.id_generator
        self._sampler = provider.sampler
        self._makes = Maker(provider.resource, InstrumentationScope("tiergate", release))
        self._exporter = OTLPSpanExporter(endpoint.rstrip("/").removesuffix(PATH) + PATH)

    def span(self, parent: Parent | None) -> Span:
        """Return the span of a request that begins; whether it is kept is the parent's word, unless the sampler has its own."""
        trace_id = self._ids.generate_trace_id() if parent is None else parent.trace_id
        above = None if parent is None else set_span_in_context(NonRecordingSpan(context_of(parent)))
        decision = self._sampler.should_sample(above, trace_id, "request", SpanKind.SERVER).decision
        return Span(
            trace_id=trace_id,
            span_id=self._ids.generate_span_id(),
            parent_id=None if parent is None else parent.span_id,
            sampled=decision is Decision.RECORD_AND_SAMPLE,
        )

    def export(self, records: Sequence[Record]) -> bool:
        """Make the spans of these requests and hand them over; return whether they were taken."""
        spans = Gradual(self._makes, records)
        return self._exporter.export(spans) is SpanExportResult.SUCCESS  # type: ignore[arg-type]  # they are counted and gone through

    def shutdown(self) -> None:
        """Give up what is under way."""
        self._exporter.shutdown()  # type: ignore[no-untyped-call]  # the SDK leaves this one without types


class Maker:
    """Makes spans of records."""

    def __init__(self, resource: Resource, scope: InstrumentationScope) -> None:
        self._resource = resource
        self._scope = scope

    def spans(self, record: Record, span: Span) -> Iterator[ReadableSpan]:
        """Yield the request's span and those of its calls to upstreams, in the order in which they began."""
        operation, clock = operation_of(record.route), Clock(record)
        name, own = short(record.model_requested), Parent(span.trace_id, span.span_id, sampled=True)
        yield ReadableSpan(
            name=operation if name is None else f"{operation} {name}",
            context=context_of(own),
            parent=None if span.parent_id is None else context_of(Parent(span.trace_id, span.parent_id, sampled=True)),
            resource=self._resource,
            attributes=request_attributes(record, operation),
            events=request_events(record, span, clock),
            kind=SpanKind.SERVER,
            status=Status(StatusCode.ERROR if record.status >= 500 or record.outcome in FAILED else StatusCode.UNSET),
            start_time=clock.ns(record.started_s),
            end_time=clock.ns(clock.ended_s),
            instrumentation_scope=self._scope,
        )
        for call in calls(record, span):
            yield ReadableSpan(
                name=f"{operation} {call.hop.deployment.upstream_model}",
                context=context_of(Parent(span.trace_id, call.hop.span_id, sampled=True)),
                parent=context_of(own, is_remote=False),
                resource=self._resource,
                attributes=call_attributes(record, call, operation),
                kind=SpanKind.CLIENT,
                status=Status(StatusCode.UNSET if call.outcome in ("ok", "cancelled") else StatusCode.ERROR),
                start_time=clock.ns(call.hop.started_s),
                end_time=clock.ns(end_of(record, call, clock)),
                instrumentation_scope=self._scope,
            )


class Gradual:
    """The spans of some requests, each request's made when the exporter comes to it, with a rest before the next.

    It encodes as it goes, and a thread that computes makes the event loop wait at each of its turns, 5 ms a time: 64 requests at
    a stretch were seen to hold it up for 17 ms, and 512 for 100.
    """

    def __init__(self, makes: Maker, records: Sequence[Record]) -> None:
        self._makes = makes
        self._records = records

    def __len__(self) -> int:
        return sum(record.span.count for record in self._records if record.span is not None)

    def __iter__(self) -> Iterator[ReadableSpan]:
        for record in self._records:
            if record.span is not None:
                yield from self._makes.spans(record, record.span)
                time.sleep(REST_S)


class Call(msgspec.Struct, frozen=True):
    """A call to an upstream, and how it ended: `end` is None where a fault of ours left that unknown."""

    hop: Hop
    end: Attempt | None
    answered: bool
    """Its answer went to the client."""

    @property
    def outcome(self) -> str:
        """Return `ok`, a `Fault`, `cancelled`, or that we failed ourselves."""
        return "internal_error" if self.end is None else self.end.outcome


class Clock:
    """A request's moments on the wall clock, which is read once a request: its spans cannot disagree."""

    def __init__(self, record: Record) -> None:
        self.ended_s = record.started_s if record.ended_s is None else record.ended_s
        self._started_s = record.started_s
        self._started_unix_ns = record.started_unix_ms * 1_000_000

    def ns(self, moment_s: float) -> int:
        """Return Unix nanoseconds."""
        return self._started_unix_ns + round((moment_s - self._started_s) * 1e9)


def resource_of(release: str, worker: str) -> Resource:
    """Return what all spans say of who made them; what the environment says of it wins."""
    own = {"service.name": "tiergate", "service.version": release, "service.instance.id": worker}
    return Resource.create(own).merge(OTELResourceDetector().detect())


def context_of(span: Parent, *, is_remote: bool = True) -> SpanContext:
    """Return a span's ids as OpenTelemetry has them."""
    return SpanContext(span.trace_id, span.span_id, is_remote, TraceFlags(span.sampled))


def operation_of(route: str) -> str:
    """Return what a route does, in the convention's words."""
    return next((word for end, word in OPERATIONS if route.endswith(end)), "request")


def calls(record: Record, span: Span) -> Iterator[Call]:
    """Yield each call that began, with how it ended; only the last one can have been answered."""
    ends = [attempt for attempt in record.attempts if attempt.sent]
    for place, hop in enumerate(span.hops, 1):
        end = ends[place - 1] if place <= len(ends) else None
        yield Call(hop, end, answered=record.ttft_s is not None and place == len(span.hops))


def end_of(record: Record, call: Call, clock: Clock) -> float:
    """Return when a call ended: one that was answered by a stream, with that stream."""
    if call.end is None or (call.answered and record.stream):
        return clock.ended_s
    return min(call.hop.started_s + call.end.duration_ms / 1000, clock.ended_s)


def request_attributes(record: Record, operation: str) -> Attributes:
    """Return what a request's span says."""
    committed = record.ttft_s is not None
    return known(
        {
            "http.request.method": "POST",
            "http.route": record.route,
            "http.response.status_code": record.status,
            "error.type": None if record.outcome is Outcome.OK else record.error_code or record.outcome.value,
            "gen_ai.operation.name": operation,
            "gen_ai.provider.name": record.provider,
            "gen_ai.request.model": short(record.model_requested),
            "gen_ai.request.stream": record.stream,
            "gen_ai.response.model": record.model_shown if committed else None,
            **(usage_attributes(record) if committed else {}),
            "tiergate.request_id": record.request_id,
            "tiergate.client_request_id": short(record.client_request_id),
            "tiergate.org": record.org,
            "tiergate.project": record.project,
            "tiergate.key_id": record.key_id,
            "tiergate.tier.requested": short(record.tier_requested),
            "tiergate.tier.served": record.tier_served,
            "tiergate.outcome": record.outcome.value,
            "tiergate.attempts": sum(attempt.sent for attempt in record.attempts),
            "tiergate.queue.wait_ms": record.queued_ms,
            "tiergate.cost_usd": None if record.cost_nano_usd is None else record.cost_nano_usd / NANO_USD,
            "tiergate.usage.estimated": record.estimated or None,
        }
    )


def call_attributes(record: Record, call: Call, operation: str) -> Attributes:
    """Return what the span of a call says. Its model is the one that was asked for upstream."""
    deployment = call.hop.deployment
    address = urlsplit(deployment.provider.base_url)
    return known(
        {
            "http.request.method": "POST",
            "http.response.status_code": None if call.end is None else call.end.status or None,
            "server.address": address.hostname,
            "server.port": address.port or (443 if address.scheme == "https" else 80),
            "error.type": None if call.outcome == "ok" else call.outcome,
            "gen_ai.operation.name": operation,
            "gen_ai.provider.name": deployment.provider.name,
            "gen_ai.request.model": deployment.upstream_model,
            "gen_ai.request.stream": record.stream,
            **(usage_attributes(record) if call.answered else {}),
            "tiergate.deployment": deployment.id,
        }
    )


def usage_attributes(record: Record) -> dict[str, int]:
    """Return what an answer used."""
    usage = record.usage
    return {
        "gen_ai.usage.input_tokens": usage.input,
        "gen_ai.usage.cache_read.input_tokens": usage.cached,
        "gen_ai.usage.output_tokens": usage.output,
        "gen_ai.usage.reasoning.output_tokens": usage.reasoning,
    }


def known(attributes: Mapping[str, str | bool | int | float | None]) -> Attributes:
    """Return those attributes that are known."""
    return {name: value for name, value in attributes.items() if value is not None}


def request_events(record: Record, span: Span, clock: Clock) -> list[Event]:
    """Return what happened on a request's way, in order: waits for busy models, moves to others, the first content."""
    found = [
        Event("tiergate.queue", {"tiergate.queue.wait_ms": round((end_s - from_s) * 1000)}, clock.ns(end_s))
        for from_s, end_s in span.waits
    ]
    found += fallbacks(record, span, clock)
    if record.stream and record.ttft_s is not None:
        found.append(Event("tiergate.first_content", {}, clock.ns(record.started_s + record.ttft_s)))
    return sorted(found, key=lambda event: event.timestamp)


def fallbacks(record: Record, span: Span, clock: Clock) -> Iterator[Event]:
    """Yield each move from a candidate to the next: when that one was called, or the next that was."""
    begun = 0
    for before, after in pairwise(record.attempts):
        begun += before.sent
        moment_s = span.hops[begun].started_s if begun < len(span.hops) else clock.ended_s
        attributes = {
            "tiergate.from.model": before.model,
            "tiergate.from.provider": before.provider,
            "tiergate.to.model": after.model,
            "tiergate.to.provider": after.provider,
            "tiergate.reason": before.outcome,
        }
        yield Event("tiergate.fallback", attributes, clock.ns(moment_s))
