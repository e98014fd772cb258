"""One record, projected: numbers, a line and a trace. The only place that logs or counts per request."""

from typing import Protocol

from gateway.policy.record import Record
from gateway.telemetry.access import AccessLog
from gateway.telemetry.cells import Cells


class Traces(Protocol):
    """Who keeps traces."""

    def add(self, record: Record) -> None:
        """Take a record that is complete."""
        ...


class Observer:
    """Takes each request's record when it begins and when it is over."""

    def __init__(self, cells: Cells, access: AccessLog | None, traces: Traces) -> None:
        self._cells = cells
        self._access = access
        self._traces = traces

    def begin(self, record: Record) -> None:
        """Take a record whose request has begun; it counts as in flight until `observe`."""
        self._cells.begin(record)

    def observe(self, record: Record) -> None:
        """Take a record that is complete."""
        self._cells.observe(record)
        if self._access is not None:
            self._access.add(record)
        self._traces.add(record)
