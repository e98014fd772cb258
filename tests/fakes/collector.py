"""A collector of spans: OTLP over HTTP on loopback, read with the standard's own protobuf messages."""

import asyncio
from typing import Any, Self

import msgspec
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest, ExportTraceServiceResponse

from tests.fakes.http_server import Call, HttpServer

KINDS = {2: "server", 3: "client"}
STATUSES = {0: "unset", 1: "ok", 2: "error"}


class Told(msgspec.Struct, frozen=True, kw_only=True):
    """A span as the collector has it. Ids are hexadecimal; times are Unix nanoseconds."""

    trace_id: str
    span_id: str
    parent_id: str
    name: str
    kind: str
    status: str
    start_ns: int
    end_ns: int
    attributes: dict[str, Any]
    events: list[tuple[str, int, dict[str, Any]]]
    """Name, time and attributes of each, in the order in which they came."""
    resource: dict[str, Any]


class Collector:
    """`async with Collector() as collector`. `act` may take the place of what it usually does."""

    def __init__(self) -> None:
        self.spans: list[Told] = []
        self.bodies: list[bytes] = []
        self.refusing = False
        self.silent = False
        self._server = HttpServer(self._take)

    async def __aenter__(self) -> Self:
        await self._server.__aenter__()
        return self

    async def __aexit__(self, *how: Any) -> None:
        await self._server.__aexit__(*how)

    @property
    def url(self) -> str:
        """Return its base URL."""
        return self._server.base_url

    @property
    def asked(self) -> int:
        """Return how many batches have come."""
        return len(self._server.requests)

    async def heard(self, count: int) -> list[Told]:
        """Wait until there are so many spans, and return them as they began, callers before those they call."""
        async with asyncio.timeout(15.0):
            while len(self.spans) < count:
                await asyncio.sleep(0.02)
        return sorted(self.spans, key=lambda span: (span.start_ns, span.kind == "client"))

    async def _take(self, call: Call) -> None:
        assert (call.request.method, call.request.path) == ("POST", "/v1/traces")
        assert call.request.header("content-type") == "application/x-protobuf"
        self.bodies.append(call.request.body)
        if self.silent:
            await call.gone.wait()
            return
        if self.refusing:
            call.reply(400, b"")
            return
        self.spans += read(call.request.body)
        call.reply(200, ExportTraceServiceResponse().SerializeToString(), [("content-type", "application/x-protobuf")])


def read(body: bytes) -> list[Told]:
    """Return the spans of a batch."""
    request = ExportTraceServiceRequest.FromString(body)
    return [
        Told(
            trace_id=span.trace_id.hex(),
            span_id=span.span_id.hex(),
            parent_id=span.parent_span_id.hex(),
            name=span.name,
            kind=KINDS[span.kind],
            status=STATUSES[span.status.code],
            start_ns=span.start_time_unix_nano,
            end_ns=span.end_time_unix_nano,
            attributes=values(span.attributes),
            events=[(event.name, event.time_unix_nano, values(event.attributes)) for event in span.events],
            resource=values(group.resource.attributes),
        )
        for group in request.resource_spans
        for scope in group.scope_spans
        for span in scope.spans
    ]


def values(attributes: Any) -> dict[str, Any]:
    """Return attributes as Python has them."""
    return {each.key: getattr(each.value, each.value.WhichOneof("value")) for each in attributes}
