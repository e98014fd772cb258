"""By what a model's deployments are ordered. Pure."""

from enum import StrEnum


class Strategy(StrEnum):
    """Which of the deployments of one `order` is tried first: by chance, the least busy, or the fastest."""

    WEIGHTED = "weighted"
    LEAST_BUSY = "least_busy"
    LATENCY = "latency"
