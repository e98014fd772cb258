from hypothesis import given
from hypothesis import strategies as st
from prometheus_client.openmetrics import parser as openmetrics
from prometheus_client.parser import text_string_to_metric_families

from gateway.web.join import Join, wants_openmetrics

EXEMPLAR = ' # {trace_id="0af7651916cd43dd8448eb211c80319c"} 0.5 1790000000.5'
ONCE = b"# HELP tiergate_whole Told once.\n# TYPE tiergate_whole gauge\ntiergate_whole 1.0\n# EOF\n"


def page(started: int, requests: int, inflight: int = 0) -> bytes:
    return (
        "# HELP tiergate_requests Requests.\n# TYPE tiergate_requests counter\n"
        f'tiergate_requests_total{{route="a b",outcome="{{ok}}"}} {requests}.0\n'
        "# HELP lag_seconds Lag.\n# TYPE lag_seconds histogram\n"
        f'lag_seconds_bucket{{le="1.0"}} {requests}.0{EXEMPLAR}\nlag_seconds_bucket{{le="+Inf"}} {requests}.0\n'
        f"lag_seconds_count {requests}.0\nlag_seconds_sum {requests}.5\n"
        f"# HELP inflight Now.\n# TYPE inflight gauge\ninflight {inflight}.0\n"
        "# HELP tiergate_start_time_seconds Start.\n# TYPE tiergate_start_time_seconds gauge\n"
        f"tiergate_start_time_seconds {started}.0\n# EOF\n"
    ).encode()


def total(text: bytes, name: str) -> float:
    families = text_string_to_metric_families(text.decode())
    return sum(sample.value for family in families for sample in family.samples if sample.name == name)


def test_each_family_once_each_series_with_its_worker() -> None:
    text = Join().join([page(1, 3), page(2, 4)]).decode()
    assert text.count("# TYPE tiergate_requests_total counter\n") == 1
    assert text.count("# HELP lag_seconds ") == 1
    assert 'tiergate_requests_total{worker="0",route="a b",outcome="{ok}"} 3.0\n' in text
    assert 'tiergate_requests_total{worker="1",route="a b",outcome="{ok}"} 4.0\n' in text
    assert 'inflight{worker="1"} 0.0\n' in text
    families = {family.name: family for family in text_string_to_metric_families(text)}
    assert len(families["lag_seconds"].samples) == 8
    assert [sample.value for sample in families["tiergate_worker_up"].samples] == [1, 1]


def test_openmetrics_for_whom_it_asks_with_what_was_traced() -> None:
    join = Join()
    pages = [page(1, 3), page(2, 4)]
    text = join.join(pages, ONCE, openmetrics=True).decode()
    parsed = openmetrics.text_string_to_metric_families(text)  # type: ignore[no-untyped-call]
    found = {family.name: family for family in parsed}
    assert [sample.value for sample in found["tiergate_requests"].samples] == [3, 4]
    traced = [sample for sample in found["lag_seconds"].samples if sample.exemplar]
    assert [(sample.labels["worker"], sample.exemplar.value) for sample in traced if sample.exemplar] == [("0", 0.5), ("1", 0.5)]
    assert text.endswith("# EOF\n")
    assert text.count("# EOF") == 1
    plain = join.join(pages, ONCE).decode()
    assert "trace_id" not in plain
    assert "# EOF" not in plain
    for each in (text, plain):
        assert "\ntiergate_whole 1.0\n" in each
    assert wants_openmetrics(
        "application/openmetrics-text;version=1.0.0,application/openmetrics-text;version=0.0.1;q=0.75,text/plain"
    )
    assert not wants_openmetrics("*/*")


def test_who_asks_in_one_format_and_then_in_the_other_hears_one_story() -> None:
    join = Join()
    join.join([page(1, 100)], openmetrics=True)
    assert total(join.join([page(9, 2)]), "tiergate_requests_total") == 102
    assert "tiergate_requests_total{" in join.join([page(9, 5)], openmetrics=True).decode()
    assert total(join.join([page(9, 5)]), "tiergate_requests_total") == 105


def test_the_gauges_of_a_dead_worker_end_with_it_and_its_counts_do_not() -> None:
    join = Join()
    join.join([page(1, 3, inflight=3), page(2, 4, inflight=3)])
    text = join.join([None, page(2, 5, inflight=3)])
    assert total(text, "inflight") == 3
    assert total(text, "tiergate_requests_total") == 8
    assert total(text, "tiergate_worker_up") == 1


def test_a_restarted_worker_goes_on_from_its_predecessors() -> None:
    join = Join()
    join.join([page(1, 100)])
    assert total(join.join([page(9, 2)]), "tiergate_requests_total") == 102
    assert total(join.join([page(9, 5)]), "lag_seconds_count") == 105
    join.join([None])
    assert total(join.join([page(12, 1)]), "tiergate_requests_total") == 106


def test_nothing_is_told_of_workers_that_never_answered() -> None:
    text = Join().join([None, None])
    assert [line for line in text.decode().splitlines() if not line.startswith("#")] == [
        'tiergate_worker_up{worker="0"} 0',
        'tiergate_worker_up{worker="1"} 0',
    ]


steps = st.lists(st.tuples(st.integers(0, 1), st.sampled_from(["serve", "restart", "away"])), max_size=30)


@given(steps)
def test_no_total_ever_falls_and_nothing_scraped_is_lost(walk: list[tuple[int, str]]) -> None:
    join = Join()
    started, served, away = [1, 1], [0, 0], [False, False]
    everything = seen = 0.0
    for worker, event in walk:
        if event == "serve" and not away[worker]:
            served[worker] += 1
            everything += 1
        elif event == "restart":
            started[worker], served[worker], away[worker] = started[worker] + 1, 0, False
        elif event == "away":
            away[worker] = True
        text = join.join([None if away[each] else page(started[each], served[each]) for each in (0, 1)])
        now = sum(float(line.rpartition(b" ")[2]) for line in text.splitlines() if line.startswith(b"tiergate_requests_total{"))
        assert now >= seen
        assert now == everything
        seen = now
