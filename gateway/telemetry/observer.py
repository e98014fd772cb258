"""One record, projected: numbers and a line. The only place that logs or counts per request."""

from gateway.policy.record import Record
from gateway.telemetry.access import AccessLog
from gateway.telemetry.cells import Cells


class Observer:
    """Takes each request's record when it begins and when it is over."""

    def __init__(self, cells: Cells, access: AccessLog | None) -> None:
        self._cells = cells
        self._access = access

    def begin(self, record: Record) -> None:
        """Take a record whose request has begun; it counts as in flight until `observe`."""
        self._cells.begin(record)

    def observe(self, record: Record) -> None:
        """Take a record that is complete."""
        self._cells.observe(record)
        if self._access is not None:
            self._access.add(record)
