"""How the stores do, as their rooms tell it: plain numbers for the next scrape."""

from collections import Counter
from collections.abc import Iterable

from gateway.telemetry.histogram import OWN_BOUNDS_S, Histogram

BEHIND = ("ledger", "traces")
"""What is written behind the requests."""


class LedgerHealth:
    """What the ledger's consumer, the keeper of traces, the exporter of spans and the callers of Redis report.

    `ops` are the scripts that are called.
    """

    def __init__(self, ops: Iterable[str] = ()) -> None:
        self.length = 0
        self.pending = 0
        self.oldest_age_s = 0.0
        self.stored_count = 0
        self.dead_count = 0
        self.dropped_count = 0
        self.spans_exported_count = 0
        self.spans_dropped_count = 0
        self.redis_calls = {op: Histogram(OWN_BOUNDS_S) for op in ops}
        self.redis_errors: Counter[str] = Counter(dict.fromkeys((*self.redis_calls, *BEHIND), 0))

    def backlog(self, length: int, pending: int, oldest_age_s: float) -> None:
        """Take what waits in the ledger's stream."""
        self.length, self.pending, self.oldest_age_s = length, pending, oldest_age_s

    def stored(self, count: int) -> None:
        """Count events that were committed."""
        self.stored_count += count

    def buried(self) -> None:
        """Count an event that can never be stored."""
        self.dead_count += 1

    def dropped(self, count: int) -> None:
        """Count traces that were not stored."""
        self.dropped_count += count

    def spans_ended(self, count: int, *, exported: bool) -> None:
        """Count spans that a collector has taken, or that were dropped."""
        if exported:
            self.spans_exported_count += count
        else:
            self.spans_dropped_count += count

    def redis_answered(self, op: str, took_s: float) -> None:
        """Count a call that was answered."""
        self.redis_calls[op].add(took_s)

    def redis_failed(self, op: str) -> None:
        """Count a failed call; `op` is a word of the code's, never of a request's."""
        self.redis_errors[op] += 1
