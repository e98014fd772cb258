"""What is read when the metrics are asked for: how things stand at this worker, which no request counts up."""

from gateway.admission.failover import Failover
from gateway.admission.spool import Spool
from gateway.admission.turns import Turns
from gateway.policy.catalogue import Catalogue
from gateway.telemetry.exposition import Reading


def queue_depth(catalogue: Catalogue, turns: Turns) -> Reading:
    """Return the gauge of who waits at this worker; every model has a line for every tier that may wait."""
    waiting = [(name, tier) for name in catalogue.models for tier, terms in catalogue.tiers.items() if terms.queue_s]
    return Reading(
        name="tiergate_queue_depth",
        help="Requests that wait for a busy model.",
        labels=("model", "tier"),
        read=lambda: {**dict.fromkeys(waiting, 0), **turns.depth},
    )


def spool_size(spool: Spool) -> Reading:
    """Return the gauge of what only this worker's disk knows."""
    return Reading(
        name="tiergate_usage_spool_bytes",
        help="On disk because Redis has not heard of it.",
        labels=(),
        read=lambda: {(): spool.size_bytes},
    )


def redis_up(failover: Failover) -> Reading:
    """Return the gauge of whether the store is asked, or left alone until it does its work again."""
    help_text = "Whether Redis is asked; 0 while this worker serves without it."
    return Reading(name="tiergate_redis_up", help=help_text, labels=(), read=lambda: {(): int(not failover.alone)})
