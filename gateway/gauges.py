"""What is read when the metrics are asked for: how things stand at this worker, which no request counts up."""

from collections.abc import Callable

from gateway.admission.failover import Failover
from gateway.admission.spool import Spool
from gateway.admission.turns import Turns
from gateway.alerts import Alerts
from gateway.policy.catalogue import Catalogue
from gateway.policy.charges import Charge, Unit
from gateway.policy.limits import budget_charges
from gateway.policy.periods import bounds_ms
from gateway.telemetry.exposition import Reading

MOST_ORGS = 200
"""How many orgs have a label: only what the configuration declares is a closed set, and a large one is no set of labels."""


def readings(
    current: Callable[[], Catalogue], turns: Turns, failover: Failover, alerts: Alerts, now_ms: Callable[[], int]
) -> tuple[Reading, ...]:
    """Return all of them; `current` is the catalogue of the moment, `now_ms` Unix time."""
    used = budgets_used(current, alerts, now_ms)
    return queue_depth(current, turns), spool_size(failover.spool), redis_up(failover), used


def queue_depth(current: Callable[[], Catalogue], turns: Turns) -> Reading:
    """Return the gauge of who waits at this worker; every model has a line for every tier that may wait."""

    def depth() -> dict[tuple[str, ...], int]:
        now = current()
        waiting = [(name, tier) for name in now.models for tier, terms in now.tiers.items() if terms.queue_s]
        return {**dict.fromkeys(waiting, 0), **turns.depth}

    return Reading(
        name="tiergate_queue_depth",
        help="Requests that wait for a busy model.",
        labels=("model", "tier"),
        read=depth,
    )


def spool_size(spool: Spool) -> Reading:
    """Return the gauge of what only this worker's disk knows."""
    return Reading(
        name="tiergate_usage_spool_bytes",
        help="On disk because Redis has not heard of it.",
        labels=(),
        read=lambda: {(): spool.size_bytes},
    )


def budgets_used(current: Callable[[], Catalogue], alerts: Alerts, now_ms: Callable[[], int]) -> Reading:
    """Return the gauge of how far the configuration's orgs are in their budgets, as this worker last heard of each."""

    def charges() -> dict[tuple[str, ...], Charge]:
        budgets = [(name, org.budget) for name, org in current().orgs.items() if org.budget is not None][:MOST_ORGS]
        return {
            (name, budget.period, "usd" if charge.unit is Unit.NANO_USD else "tokens"): charge
            for name, budget in budgets
            for charge in budget_charges(f"ob:{name}", budget)
        }

    def used(charge: Charge) -> float:
        spent, at_ms = alerts.heard.get(charge.scope, (0, 0))
        is_over = bounds_ms(at_ms, charge.period_ms)[1] <= now_ms()
        return 0.0 if is_over else spent / max(1, charge.capacity)

    return Reading(
        name="tiergate_org_budget_used_ratio",
        help="Share of a budget that is spent in its period, as this worker last heard.",
        labels=("org", "period", "unit"),
        read=lambda: {key: used(charge) for key, charge in charges().items()},
    )


def redis_up(failover: Failover) -> Reading:
    """Return the gauge of whether the store is asked, or left alone until it does its work again."""
    help_text = "Whether Redis is asked; 0 while this worker serves without it."
    return Reading(name="tiergate_redis_up", help=help_text, labels=(), read=lambda: {(): int(not failover.alone)})
