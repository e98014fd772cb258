import re

import pytest
from msgspec.structs import replace
from prometheus_client import CollectorRegistry
from prometheus_client.core import Metric
from prometheus_client.openmetrics.exposition import generate_latest
from prometheus_client.openmetrics.parser import text_string_to_metric_families
from prometheus_client.registry import Collector
from prometheus_client.samples import Exemplar, Timestamp

from gateway.policy.record import Outcome, Reason
from gateway.policy.spans import of_client
from gateway.telemetry import families
from gateway.telemetry.cells import Cells
from gateway.telemetry.exposition import Build, Exposition, Reading
from gateway.telemetry.health import LedgerHealth
from gateway.telemetry.metrics import page
from gateway.wire.traceparent import Parent
from tests.unit.telemetry.records import LABELS, attempt, record

LINE = re.compile(r"(# .*|\w+)(?:\{(.*)\})?( \S+(?: # \{.*\} \S+ \S+)?)?")
LABEL = re.compile(r'\w+="(?:[^"\\]|\\.)*"')


def shown(cells: Cells, *readings: Reading) -> dict[str, Metric]:
    health = LedgerHealth(("acquire",))
    health.redis_answered("acquire", 0.002)
    health.backlog(7, 3, 1.5)
    health.stored(40)
    health.buried()
    health.redis_failed("acquire")
    health.dropped(5)
    health.spans_ended(11, exported=True)
    health.spans_ended(3, exported=False)
    exposition = Exposition(cells, health, Build("1.2.3", 1_790_000_000.0), readings)
    text = page(exposition.collect()).decode()
    return {family.name: family for family in text_string_to_metric_families(text)}  # type: ignore[no-untyped-call]


def value(family: Metric, name: str, **labels: str) -> float:
    (found,) = [sample.value for sample in family.samples if sample.name == name and sample.labels == labels]
    return found


def test_every_known_series_starts_at_zero() -> None:
    found = shown(Cells(LABELS))
    for name, least in (("requests", 196), ("upstream_attempts", 150), ("rejections", 100), ("tokens", 56), ("cost_usd", 14)):
        samples = found[f"tiergate_{name}"].samples
        assert len(samples) >= least, name
        assert {sample.value for sample in samples} == {0.0}
    assert value(found["tiergate_inflight_requests"], "tiergate_inflight_requests", tier="priority", stream="true") == 0


def test_alerts_of_budgets_show_by_whose_they_are() -> None:
    cells = Cells(LABELS)
    cells.budget_alerts["org",] += 2
    family = shown(cells)["tiergate_budget_alerts"]
    assert {each.labels["scope"]: each.value for each in family.samples} == {"key": 0, "project": 0, "org": 2}


def test_events_that_were_left_out_show_from_zero_on() -> None:
    cells = Cells(LABELS)
    cells.observe(record(strange_events=3))
    family = shown(cells)["tiergate_stream_events_dropped"]
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
    found = shown(cells)
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
    waits = shown(cells)["tiergate_queue_wait_seconds"]
    name = "tiergate_queue_wait_seconds"
    assert value(waits, f"{name}_count", tier="flex", outcome="ok") == 2
    assert value(waits, f"{name}_sum", tier="flex", outcome="ok") == 2.2
    assert {sample.labels["tier"] for sample in waits.samples} == {"flex"}


def test_what_the_stores_told_and_what_other_rooms_keep() -> None:
    depth = Reading(families.QUEUE_DEPTH, lambda: {("llama", "flex"): 4})
    found = shown(Cells(LABELS), depth)
    assert value(found["tiergate_usage_stream_length"], "tiergate_usage_stream_length") == 7
    assert value(found["tiergate_usage_stream_pending"], "tiergate_usage_stream_pending") == 3
    assert value(found["tiergate_usage_stream_oldest_age_seconds"], "tiergate_usage_stream_oldest_age_seconds") == 1.5
    assert value(found["tiergate_usage_stored"], "tiergate_usage_stored_total") == 40
    assert value(found["tiergate_usage_dead"], "tiergate_usage_dead_total") == 1
    assert value(found["tiergate_traces_dropped"], "tiergate_traces_dropped_total") == 5
    assert value(found["tiergate_spans_exported"], "tiergate_spans_exported_total") == 11
    assert value(found["tiergate_spans_dropped"], "tiergate_spans_dropped_total") == 3
    assert value(found["tiergate_redis_errors"], "tiergate_redis_errors_total", op="acquire") == 1
    took = "tiergate_redis_op_duration_seconds"
    assert value(found[took], f"{took}_bucket", op="acquire", le="0.0025") == 1
    assert value(found["tiergate_build_info"], "tiergate_build_info", version="1.2.3") == 1
    assert value(found["tiergate_queue_depth"], "tiergate_queue_depth", model="llama", tier="flex") == 4


def test_every_family_is_in_the_catalogue_as_it_is_shown() -> None:
    cells = Cells(LABELS)
    cells.observe(record(queued_ms=40, overhead_s=0.001))
    of_rooms = (families.QUEUE_DEPTH, families.UPSTREAM_INFLIGHT, families.SPOOL, families.REDIS_UP, families.ORG_BUDGET)
    readings = [Reading(each, dict) for each in of_rooms]
    found = shown(cells, *readings)
    told = {family.name: family for family in families.CATALOGUE if not family.whole and family is not families.WORKER_UP}
    assert {name.removesuffix("_total") for name in told} == found.keys()
    for name, family in told.items():
        metric = found[name.removesuffix("_total")]
        assert (metric.type, metric.documentation) == (family.kind, family.help)
        assert {frozenset(sample.labels) - {"le"} for sample in metric.samples} <= {frozenset(family.labels)}


def test_names_are_prometheus_own() -> None:
    for family in families.CATALOGUE:
        assert family.name.startswith(("tiergate_", "gen_ai_"))
        assert (family.kind == "counter") == family.name.endswith("_total")
        assert family.help.endswith(".")
        assert not {"key", "key_id", "user", "request_id", "worker"} & set(family.labels)
    assert len({family.name for family in families.CATALOGUE}) == len(families.CATALOGUE)


def test_what_was_granted_and_what_came_of_the_tier_that_was_named() -> None:
    cells = Cells(LABELS)
    cells.observe(record(tier_requested="fast", tier_served="default"))
    cells.observe(record(tier_requested="auto", tier_served="over-limit"))
    cells.observe(record(tier_requested="flex", tier_served="flex"))
    cells.observe(record(tier_requested="flex", tier_served=None, outcome=Outcome.REJECTED, provider=None, model_served=None))
    found = shown(cells)
    grants = {(s.labels["model"], s.labels["tier"]): s.value for s in found["tiergate_grants"].samples}
    assert {key: count for key, count in grants.items() if count} == {
        ("llama", "default"): 1,
        ("llama", "over-limit"): 1,
        ("llama", "flex"): 1,
    }
    moved = {(s.labels["from_tier"], s.labels["to_tier"]): s.value for s in found["tiergate_downgrades"].samples}
    assert {key: count for key, count in moved.items() if count} == {("priority", "default"): 1}
    assert moved["priority", "flex"] == 0
    over = found["tiergate_over_limit_served"]
    assert value(over, "tiergate_over_limit_served_total", model="llama") == 1


def test_a_limit_that_had_no_room_counts_once_a_request() -> None:
    cells = Cells(LABELS)
    rpm = Reason(cause="limit", scope="key", dimension="rpm")
    busy = Reason(cause="limit", scope="key x model", dimension="concurrency")
    cooling = Reason(cause="cooling")
    refused = [replace(attempt(sent=False), reason=each) for each in (rpm, rpm, busy, cooling)]
    cells.observe(record(attempts=[*refused, attempt()], limited=rpm))
    found = shown(cells)["tiergate_limit_refusals"]
    counts = {(s.labels["scope"], s.labels["dimension"]): s.value for s in found.samples}
    assert {key: count for key, count in counts.items() if count} == {("key", "rpm"): 1, ("key_model", "concurrency"): 1}
    assert counts["org", "budget"] == 0


def test_orgs_of_the_configuration_have_a_label_and_others_share_one() -> None:
    cells = Cells(LABELS)
    for org in ("acme", "stranger", "another"):
        cells.observe(record(org=org))
        cells.observe(record(org=org, outcome=Outcome.REJECTED, error_code="rate_limit_exceeded"))
    found = shown(cells)
    spent = {sample.labels["org"]: sample.value for sample in found["tiergate_org_cost_usd"].samples}
    assert spent == {"acme": pytest.approx(0.003), "other": pytest.approx(0.006)}
    refused = found["tiergate_org_rejections"]
    total = "tiergate_org_rejections_total"
    assert value(refused, total, org="acme", reason="rate_limit_exceeded") == 1
    assert value(refused, total, org="other", reason="rate_limit_exceeded") == 2
    assert value(refused, total, org="acme", reason="insufficient_quota") == 0


def test_a_streamed_call_lasts_to_its_end_and_its_first_chunk_is_told_apart() -> None:
    cells = Cells(LABELS)
    first = record().attempts[0]
    cells.observe(record(attempts=[replace(first, duration_ms=30)], ttft_s=0.04, ended_s=100.5))
    found = shown(cells)
    whose = {"gen_ai_operation_name": "chat", "gen_ai_provider_name": "nebius", "gen_ai_request_model": "llama"}
    took = "tiergate_upstream_attempt_duration_seconds"
    assert value(found[took], f"{took}_sum", provider="nebius", model="llama") == pytest.approx(0.03 + 0.46)
    chunk = "gen_ai_client_operation_time_to_first_chunk_seconds"
    assert value(found[chunk], f"{chunk}_sum", **whose) == pytest.approx(0.03)
    token = "gen_ai_server_time_to_first_token_seconds"
    assert value(found[token], f"{token}_bucket", le="0.04", **whose) == 1
    following = "gen_ai_server_time_per_output_token_seconds"
    assert value(found[following], f"{following}_sum", **whose) == pytest.approx(0.46 / 8)


def test_names_of_opentelemetry_have_its_buckets_and_its_errors() -> None:
    cells = Cells(LABELS)
    cells.observe(record())
    cells.observe(record(route="completions", outcome=Outcome.TIMEOUT, attempts=[attempt(outcome="timeout")], ttft_s=None))
    found = shown(cells)
    usage = [s.labels for s in found["gen_ai_client_token_usage"].samples if s.name.endswith("_bucket")]
    assert {float(labels["le"]) for labels in usage} == {*(4**n for n in range(14)), float("inf")}
    server = [s for s in found["gen_ai_server_request_duration_seconds"].samples if s.name.endswith("_count")]
    assert {(s.labels["gen_ai_operation_name"], s.labels["error_type"]) for s in server} == {
        ("chat", ""),
        ("text_completion", "timeout"),
    }
    client = [s for s in found["gen_ai_client_operation_duration_seconds"].samples if s.name.endswith("_bucket")]
    assert max(float(s.labels["le"]) for s in client if s.labels["le"] != "+Inf") == 81.92


@pytest.mark.parametrize("exemplars", [True, False])
def test_a_traced_request_is_the_exemplar_of_its_buckets(exemplars: bool) -> None:
    cells = Cells(LABELS, exemplars=exemplars)
    cells.observe(record(span=of_client(Parent(0xA, 1, sampled=True))))
    cells.observe(record(span=of_client(Parent(0xB, 1, sampled=True))))
    cells.observe(record(span=of_client(Parent(0xC, 1, sampled=False))))
    cells.observe(record())
    found = shown(cells)
    expected = Exemplar({"trace_id": f"{0xB:032x}"}, 0.5, Timestamp(1_790_000_000, 500_000_000)) if exemplars else None
    for name in ("tiergate_request_duration_seconds", "gen_ai_server_request_duration_seconds"):
        [bucket] = [s for s in found[name].samples if s.labels.get("le") == "0.64"]
        assert bucket.exemplar == expected
    for name in ("tiergate_time_to_first_byte_seconds", "gen_ai_server_time_to_first_token_seconds"):
        assert bool([s for s in found[name].samples if s.exemplar]) is exemplars


def test_a_page_is_what_the_library_would_make_of_it() -> None:
    cells = Cells(LABELS, exemplars=True)
    cells.observe(record(queued_ms=40, span=of_client(Parent(0xA, 1, sampled=True))))
    odd = Reading(families.QUEUE_DEPTH, lambda: {('a "model"\\with\nall', "flex"): 1.5})
    found = [*Exposition(cells, LedgerHealth(), Build("1", 1.0), [odd]).collect()]
    registry = CollectorRegistry()
    registry.register(Fixed(found))
    assert lines(page(found)) == lines(generate_latest(registry))  # type: ignore[no-untyped-call]


class Fixed(Collector):
    """A collector of families that are there already."""

    def __init__(self, found: list[Metric]) -> None:
        self._found = found

    def collect(self) -> list[Metric]:
        return self._found


def lines(text: bytes) -> list[tuple[str, frozenset[str], str]]:
    """Return a page's lines, whatever the order of labels in each."""
    found = [LINE.fullmatch(line) for line in text.decode().splitlines()]
    return [(each[1], frozenset(LABEL.findall(each[2] or "")), each[3]) for each in found if each]
