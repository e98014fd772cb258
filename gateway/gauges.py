"""What is read when the metrics are asked for: how things stand, which no request counts up.

At a worker: who waits, what its leases hold, what only its disk knows, what it last heard of budgets. Once, for the whole
gateway: how deployments do.
"""

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import UTC, datetime

import msgspec
from prometheus_client.core import Metric

from gateway.admission.failover import Failover
from gateway.admission.heartbeat import Leases
from gateway.admission.turns import Turns
from gateway.alerts import Alerts
from gateway.policy.catalogue import Catalogue
from gateway.policy.charges import Charge, Unit
from gateway.policy.limits import budget_charges
from gateway.policy.periods import bounds_ms
from gateway.policy.standing import Standing
from gateway.telemetry import families
from gateway.telemetry.exposition import Reading
from gateway.telemetry.labels import BREAKER_STATES
from gateway.telemetry.metrics import Key, Values, gauge

OUT_OF_SERVICE = frozenset({"disabled", "cooling", "open"})
"""Standings of what is not asked."""

Current = Callable[[], Catalogue]
"""Returns the catalogue of the moment."""

Places = Mapping[str, tuple[str, str]]
"""Provider and model by deployment."""


def places(catalogue: Catalogue) -> Places:
    """Return where each deployment belongs."""
    return {each.id: (each.provider.name, model.name) for model in catalogue.models.values() for each in model.deployments}


class Kept(msgspec.Struct, frozen=True):
    """Whom a worker's gauges are read from."""

    turns: Turns
    leases: Leases
    failover: Failover
    alerts: Alerts


def readings(current: Current, kept: Kept, most_orgs: int, now_ms: Callable[[], int]) -> tuple[Reading, ...]:
    """Return the gauges of one worker; `most_orgs` have a label of their own, and `now_ms` is Unix time."""
    failover = kept.failover
    return (
        queue_depth(current, kept.turns),
        upstream_inflight(current, kept.leases),
        Reading(families.SPOOL, lambda: {(): failover.spool.size_bytes}),
        Reading(families.REDIS_UP, lambda: {(): int(not failover.alone)}),
        budgets_used(current, kept.alerts, most_orgs, now_ms),
    )


def queue_depth(current: Current, turns: Turns) -> Reading:
    """Return the gauge of who waits at this worker; every model has a line for every tier that may wait."""

    def read() -> Values:
        now = current()
        waiting = [(name, tier) for name in now.models for tier, terms in now.tiers.items() if terms.queue_s]
        return {**dict.fromkeys(waiting, 0), **turns.depth}

    return Reading(families.QUEUE_DEPTH, read)


def upstream_inflight(current: Current, leases: Leases) -> Reading:
    """Return the gauge of the slots that this worker's requests hold."""

    def read() -> Values:
        known = places(current())
        held: Counter[Key] = Counter(dict.fromkeys(known.values(), 0))
        held.update(known[deployment] for deployment in leases.deployments() if deployment in known)
        return held

    return Reading(families.UPSTREAM_INFLIGHT, read)


def upstreams(known: Places, standings: Sequence[Standing], now: datetime) -> Iterator[Metric]:
    """Yield how deployments are doing, those of one provider and model together; nothing of a store that did not tell."""
    available: dict[Key, float] = {}
    cooldown_s: dict[Key, float] = {}
    limit: Counter[Key] = Counter()
    declared: Counter[Key] = Counter()
    breaker: Counter[Key] = Counter()
    for each in standings:
        place = known.get(each.deployment)
        if place is None:  # gone with a later reading of the configuration
            continue
        available[place] = max(available.get(place, 0), int(each.state not in OUT_OF_SERVICE))
        rest_s = 0.0 if each.cooling_until is None else max(0.0, (each.cooling_until - now).total_seconds())
        cooldown_s[place] = max(cooldown_s.get(place, 0.0), rest_s)
        breaker.update({(*place, state): int(each.breaker == state) for state in BREAKER_STATES})
        if each.slots is not None:
            limit[place] += each.slots
        if each.slots_declared is not None:
            declared[place] += each.slots_declared
    yield gauge(families.UPSTREAM_AVAILABLE, available)
    yield gauge(families.UPSTREAM_COOLDOWN, cooldown_s)
    yield gauge(families.UPSTREAM_LIMIT, limit)
    yield gauge(families.UPSTREAM_DECLARED, declared)
    yield gauge(families.BREAKER, breaker)


def budgets_used(current: Current, alerts: Alerts, most_orgs: int, now_ms: Callable[[], int]) -> Reading:
    """Return the gauge of how far the configuration's orgs are in their budgets, as this worker last heard of each."""

    def charges() -> dict[Key, Charge]:
        return {
            (org.name, org.budget.period, "usd" if charge.unit is Unit.NANO_USD else "tokens"): charge
            for org in [*current().orgs.values()][:most_orgs]
            if org.budget is not None
            for charge in budget_charges(f"ob:{org.name}", org.budget)
        }

    def used(charge: Charge) -> float:
        spent, at_ms = alerts.heard.get(charge.scope, (0, 0))
        is_over = bounds_ms(at_ms, charge.period_ms)[1] <= now_ms()
        return 0.0 if is_over else spent / max(1, charge.capacity)

    return Reading(families.ORG_BUDGET, lambda: {key: used(charge) for key, charge in charges().items()})


def utc_now() -> datetime:
    """Return the time of day."""
    return datetime.now(UTC)
