from prometheus_client import generate_latest
from prometheus_client.core import Metric
from prometheus_client.parser import text_string_to_metric_families

from gateway.policy.record import Outcome
from gateway.telemetry.cells import Cells
from gateway.telemetry.exposition import Build, Exposition, Reading
from gateway.telemetry.health import LedgerHealth
from tests.unit.telemetry.records import LABELS, record


def families(cells: Cells, *readings: Reading) -> dict[str, Metric]:
    health = LedgerHealth()
    health.backlog(7, 3, 1.5)
    health.stored(40)
    health.buried()
    health.redis_failed("acquire")
    health.dropped(5)
    health.spans_ended(11, exported=True)
    health.spans_ended(3, exported=False)
    exposition = Exposition(cells, health, Build("1.2.3", 1_790_000_000.0), readings)
    text = generate_latest(exposition).decode()
    return {family.name: family for family in text_string_to_metric_families(text)}


def value(family: Metric, name: str, **labels: str) -> float:
    (found,) = [sample.value for sample in family.samples if sample.name == name and sample.labels == labels]
    return found


def test_every_known_series_starts_at_zero() -> None:
    found = families(Cells(LABELS))
    for name, least in (("requests", 196), ("upstream_attempts", 150), ("rejections", 100), ("tokens", 56), ("cost_usd", 14)):
        samples = found[f"tiergate_{name}"].samples
        assert len(samples) >= least, name
        assert {sample.value for sample in samples} == {0.0}
    assert value(found["tiergate_inflight_requests"], "tiergate_inflight_requests", tier="priority", stream="true") == 0


def test_alerts_of_budgets_show_by_whose_they_are() -> None:
    cells = Cells(LABELS)
    cells.budget_alerts["org",] += 2
    family = families(cells)["tiergate_budget_alerts"]
    assert {each.labels["scope"]: each.value for each in family.samples} == {"key": 0, "project": 0, "org": 2}


def test_events_that_were_left_out_show_from_zero_on() -> None:
    cells = Cells(LABELS)
    cells.observe(record(strange_events=3))
    family = families(cells)["tiergate_stream_events_dropped"]
    total = "tiergate_stream_events_dropped_total"
    assert value(family, total, provider="nebius", model="llama") == 3
    assert value(family, total, provider="deepinfra", model="llama") == 0


def test_a_request_shows_in_every_family_that_it_touches() -> None:
    cells = Cells(LABELS)
    cells.begin(record(request_id="live", tier_served="flex"))
    cells.observe(record())
    cells.observe(
        record(outcome=Outcome.REJECTED, error_code="invalid_api_key", tier_served=None, provider=None, model_served=None)
    )
    found = families(cells)
    total = "tiergate_requests_total"
    assert value(found["tiergate_requests"], total, route="chat", tier="default", outcome="ok", stream="true") == 1
    seconds = "tiergate_request_duration_seconds"
    same = {"route": "chat", "tier": "default", "outcome": "ok"}
    assert value(found[seconds], f"{seconds}_bucket", le="0.64", **same) == 1
    assert value(found[seconds], f"{seconds}_bucket", le="0.32", **same) == 0
    assert value(found[seconds], f"{seconds}_count", **same) == 1
    first = "tiergate_time_to_first_byte_seconds"
    assert value(found[first], f"{first}_sum", route="chat", tier="default", model="llama") == 0.04
    assert value(found["tiergate_tokens"], "tiergate_tokens_total", tier="default", model="llama", kind="cached") == 20
    assert value(found["tiergate_cost_usd"], "tiergate_cost_usd_total", tier="default", provider="nebius") == 0.0015
    assert value(found["tiergate_rejections"], "tiergate_rejections_total", tier="none", reason="invalid_api_key") == 1
    assert value(found["tiergate_inflight_requests"], "tiergate_inflight_requests", tier="flex", stream="true") == 1
    attempts = value(
        found["tiergate_upstream_attempts"],
        "tiergate_upstream_attempts_total",
        provider="nebius",
        model="llama",
        outcome="ok",
        attempt="1",
    )
    assert attempts == 2


def test_how_long_was_waited_shows_by_tier_and_end() -> None:
    cells = Cells(LABELS)
    cells.observe(record(queued_ms=0))
    cells.observe(record(request_id="r2", tier_served="flex", queued_ms=1_500))
    cells.observe(record(request_id="r3", tier_served="flex", queued_ms=700))
    waits = families(cells)["tiergate_queue_wait_seconds"]
    name = "tiergate_queue_wait_seconds"
    assert value(waits, f"{name}_count", tier="flex", outcome="ok") == 2
    assert value(waits, f"{name}_sum", tier="flex", outcome="ok") == 2.2
    assert {sample.labels["tier"] for sample in waits.samples} == {"flex"}


def test_what_the_stores_told_and_what_other_rooms_keep() -> None:
    depth = Reading(name="tiergate_queue_depth", help="Waiting.", labels=("model", "tier"), read=lambda: {("llama", "flex"): 4})
    found = families(Cells(LABELS), depth)
    assert value(found["tiergate_usage_stream_length"], "tiergate_usage_stream_length") == 7
    assert value(found["tiergate_usage_stream_pending"], "tiergate_usage_stream_pending") == 3
    assert value(found["tiergate_usage_stream_oldest_age_seconds"], "tiergate_usage_stream_oldest_age_seconds") == 1.5
    assert value(found["tiergate_usage_stored"], "tiergate_usage_stored_total") == 40
    assert value(found["tiergate_usage_dead"], "tiergate_usage_dead_total") == 1
    assert value(found["tiergate_traces_dropped"], "tiergate_traces_dropped_total") == 5
    assert value(found["tiergate_spans_exported"], "tiergate_spans_exported_total") == 11
    assert value(found["tiergate_spans_dropped"], "tiergate_spans_dropped_total") == 3
    assert value(found["tiergate_redis_errors"], "tiergate_redis_errors_total", op="acquire") == 1
    assert value(found["tiergate_build_info"], "tiergate_build_info", version="1.2.3") == 1
    assert value(found["tiergate_queue_depth"], "tiergate_queue_depth", model="llama", tier="flex") == 4
