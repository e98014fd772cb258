from datetime import UTC, datetime, timedelta

from prometheus_client.core import Metric

from gateway.gauges import upstreams
from gateway.policy.standing import Standing

NOW = datetime(2026, 11, 30, 12, tzinfo=UTC)
PLACES = {"m/p/a": ("p", "m"), "m/p/b": ("p", "m"), "m/q/a": ("q", "m")}
WELL = Standing(
    deployment="m/p/a",
    state="well",
    disabled=False,
    cooling_until=None,
    slots=8,
    slots_declared=10,
    breaker="closed",
    breaker_open_until=None,
    failures=0,
    credentials=(),
)


def values(metric: Metric) -> dict[tuple[str, ...], float]:
    return {
        tuple(sample.labels[name] for name in ("provider", "model", "state") if name in sample.labels): sample.value
        for sample in metric.samples
    }


def standing(**changes: object) -> Standing:
    return Standing(**{**{name: getattr(WELL, name) for name in WELL.__struct_fields__}, **changes})


def test_deployments_of_one_provider_and_model_are_told_together() -> None:
    cooling = NOW + timedelta(seconds=12)
    standings = [
        WELL,
        standing(deployment="m/p/b", state="cooling", cooling_until=cooling, slots=4, slots_declared=4),
        standing(deployment="m/q/a", state="open", breaker="open", slots=None, slots_declared=None),
    ]
    available, cooldown, limit, declared, breaker = map(values, upstreams(PLACES, standings, NOW))
    assert available == {("p", "m"): 1, ("q", "m"): 0}
    assert cooldown == {("p", "m"): 12, ("q", "m"): 0}
    assert (limit, declared) == ({("p", "m"): 12}, {("p", "m"): 14})
    assert breaker["p", "m", "closed"] == 2
    assert (breaker["q", "m", "open"], breaker["q", "m", "closed"]) == (1, 0)


def test_a_store_that_does_not_tell_is_not_spoken_for() -> None:
    assert [values(metric) for metric in upstreams(PLACES, (), NOW)] == [{}] * 5
