from hypothesis import given
from hypothesis import strategies as st
from prometheus_client.parser import text_string_to_metric_families

from gateway.web.join import Join


def page(started: int, requests: int, inflight: int = 0) -> bytes:
    return (
        "# HELP tiergate_requests_total Requests.\n# TYPE tiergate_requests_total counter\n"
        f'tiergate_requests_total{{route="a b",outcome="{{ok}}"}} {requests}.0\n'
        "# HELP lag_seconds Lag.\n# TYPE lag_seconds histogram\n"
        f'lag_seconds_bucket{{le="1.0"}} {requests}.0\nlag_seconds_bucket{{le="+Inf"}} {requests}.0\n'
        f"lag_seconds_count {requests}.0\nlag_seconds_sum {requests}.5\n"
        f"# HELP inflight Now.\n# TYPE inflight gauge\ninflight {inflight}.0\n"
        "# HELP tiergate_start_time_seconds Start.\n# TYPE tiergate_start_time_seconds gauge\n"
        f"tiergate_start_time_seconds {started}.0\n"
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
