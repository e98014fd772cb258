"""One record, projected: numbers, a line, a trace and spans. The only place that logs or counts per request."""

from collections.abc import Mapping
from typing import Protocol

from gateway.policy.record import Record
from gateway.policy.spans import of_client, parent_of
from gateway.tasks import Owned
from gateway.telemetry.access import AccessLog
from gateway.telemetry.cells import Cells
from gateway.telemetry.spans import Spans
from gateway.wire.traceparent import TRACEPARENT


class Traces(Protocol):
    """Who keeps traces."""

    def add(self, record: Record) -> None:
        """Take a record that is complete."""
        ...


class Observer:
    """Takes each request's record when it begins and when it is over."""

    def __init__(self, cells: Cells, access: AccessLog | None, traces: Traces, spans: Spans | None = None) -> None:
        self._cells = cells
        self._access = access
        self._traces = traces
        self._spans = spans

    def start(self, owned: Owned) -> None:
        """Begin to export what goes elsewhere."""
        if self._spans is not None:
            self._spans.start(owned)

    async def stop(self) -> None:
        """Export what is left."""
        if self._spans is not None:
            await self._spans.stop()

    def begin(self, record: Record, fields: Mapping[bytes, bytes]) -> None:
        """Take a record whose request, with these headers, has begun; it counts as in flight until `observe`."""
        self._cells.begin(record)
        if self._spans is not None:
            record.span = self._spans.begin(fields)
        elif TRACEPARENT in fields and (parent := parent_of(fields)) is not None:
            record.span = of_client(parent)

    def observe(self, record: Record) -> None:
        """Take a record that is complete."""
        self._cells.observe(record)
        if self._access is not None:
            self._access.add(record)
        self._traces.add(record)
        if self._spans is not None:
            self._spans.add(record)
