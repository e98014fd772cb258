from bisect import bisect_left

from hypothesis import given
from hypothesis import strategies as st

from gateway.faults import Fault
from gateway.policy.record import Outcome
from gateway.telemetry.cells import Cells
from gateway.telemetry.histogram import DURATION_BOUNDS_S, Histogram
from tests.unit.telemetry.records import LABELS, attempt, record


def test_requests_alike_share_a_cell() -> None:
    cells = Cells(LABELS)
    cells.observe(record())
    cells.observe(record(request_id="r2"))
    (cell,) = cells.requests.values()
    assert (cell.count, cell.input, cell.cached, cell.output, cell.reasoning, cell.cost_nano_usd) == (2, 52, 40, 18, 6, 3_000_000)
    assert (cell.stream, cell.outcome, cell.provider) == ("true", "ok", "nebius")
    assert (cell.duration.total, cell.duration.count) == (1.0, 2)


def test_only_streams_have_a_first_byte() -> None:
    cells = Cells(LABELS)
    cells.observe(record())
    cells.observe(record(stream=False))
    assert sorted(sum(cell.first_byte.buckets) for cell in cells.requests.values()) == [0, 1]


def test_no_client_mints_a_label() -> None:
    cells = Cells(LABELS)
    for n in range(1000):
        cells.observe(
            record(
                route=f"/{n}",
                tier_served=None,
                tier_requested=f"tier{n}",
                model_served=f"model{n}",
                provider=f"provider{n}",
                attempts=[attempt(f"a{n}", f"b{n}", f"c{n}"), attempt(f"d{n}")],
            )
        )
        cells.observe(
            record(outcome=Outcome.REJECTED, error_code=f"code{n}", tier_served=None, tier_requested=f"t{n}", attempts=[])
        )
    assert len(cells.requests) == 2
    assert set(cells.attempts) == {("other", "other", "other", "1", "other"), ("other", "other", "ok", "2", "other")}
    assert dict(cells.rejections) == {("other", "other"): 1000}
    assert set(cells.fallbacks) == {("other", "other", "capacity")}


def test_attempts_are_numbered_as_they_were_sent() -> None:
    cells = Cells(LABELS)
    busy = attempt(outcome=Fault.BUSY)
    refused = attempt(outcome="refused", sent=False)
    cells.observe(record(attempts=[refused, busy, busy, attempt("small", outcome=Fault.TIMEOUT), attempt("llama", "deepinfra")]))
    assert {key: each.duration.count for key, each in cells.attempts.items()} == {
        ("nebius", "llama", "busy", "1", "chat"): 1,
        ("nebius", "llama", "busy", "2", "chat"): 1,
        ("nebius", "small", "timeout", "3+", "chat"): 1,
        ("deepinfra", "llama", "ok", "3+", "chat"): 1,
    }
    assert dict(cells.fallbacks) == {("llama", "small", "capacity"): 1, ("small", "llama", "unavailable"): 1}


def test_a_refusal_counts_under_the_tier_it_asked_for() -> None:
    cells = Cells(LABELS)
    for tier in ("priority", "auto", None):
        cells.observe(record(outcome=Outcome.REJECTED, error_code="rate_limit_exceeded", tier_served=None, tier_requested=tier))
    assert set(cells.rejections) == {(tier, "rate_limit_exceeded") for tier in ("priority", "auto", "none")}


def test_a_stream_that_broke_has_a_side() -> None:
    cells = Cells(LABELS)
    cells.observe(record(outcome=Outcome.CANCELLED))
    cells.observe(record(outcome=Outcome.CANCELLED, ttft_s=None))
    cells.observe(record(outcome=Outcome.INTERRUPTED, error_code="stream_interrupted"))
    cells.observe(record(outcome=Outcome.INTERRUPTED, error_code="draining"))
    cells.observe(record(outcome=Outcome.TIMEOUT, error_code="upstream_timeout"))
    cells.observe(record(outcome=Outcome.CANCELLED, stream=False))
    assert dict(cells.interruptions) == {("client",): 1, ("upstream",): 2, ("drain",): 1}


def test_events_that_were_left_out_count_against_who_sent_them() -> None:
    cells = Cells(LABELS)
    for provider, count in (("nebius", 2), ("nebius", 1), ("deepinfra", 0), ("nobody", 4)):
        cells.observe(record(provider=provider, strange_events=count))
    assert dict(cells.strange_events) == {("nebius", "llama"): 3, ("other", "other"): 4}


def test_a_request_is_in_flight_until_it_is_observed() -> None:
    cells = Cells(LABELS)
    running = record()
    cells.begin(running)
    assert list(cells.running.values()) == [running]
    cells.observe(running)
    assert not cells.running


@given(st.lists(st.floats(0, 10_000), max_size=20))
def test_a_histogram_counts_each_value_once_in_its_bucket(values: list[float]) -> None:
    histogram = Histogram(DURATION_BOUNDS_S)
    for value in values:
        histogram.add(value)
    for n, bound in enumerate(DURATION_BOUNDS_S):
        assert sum(histogram.buckets[: n + 1]) == sum(value <= bound for value in values)
        assert bisect_left(DURATION_BOUNDS_S, bound) == n
    assert sum(histogram.buckets) == len(values)
