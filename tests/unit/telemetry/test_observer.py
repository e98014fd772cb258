from gateway.policy.record import Record
from gateway.telemetry.access import AccessLog
from gateway.telemetry.cells import Cells
from gateway.telemetry.observer import Observer
from tests.unit.telemetry.records import LABELS, record


class Kept:
    """A keeper of traces."""

    def __init__(self) -> None:
        self.records: list[Record] = []

    def add(self, record: Record) -> None:
        self.records.append(record)


def test_a_record_is_counted_and_logged_once() -> None:
    cells = Cells(LABELS)
    written: list[bytes] = []

    def render(each: Record) -> bytes:
        return each.request_id.encode()

    access = AccessLog(written.append, lambda flush: None, render)
    traces = Kept()
    observer = Observer(cells, access, traces)
    observer.begin(record(), {})
    assert len(cells.running) == 1
    observer.observe(record())
    access.flush()
    assert not cells.running
    assert sum(cell.count for cell in cells.requests.values()) == 1
    assert written == [b"r1"]
    assert [each.request_id for each in traces.records] == ["r1"]


def test_without_an_access_log_requests_are_counted_all_the_same() -> None:
    cells = Cells(LABELS)
    Observer(cells, None, Kept()).observe(record())
    assert sum(cell.count for cell in cells.requests.values()) == 1
