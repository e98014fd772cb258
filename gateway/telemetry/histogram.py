"""One distribution: buckets that are not cumulative, upper ends included, and of each bucket the last value that was traced.

Durations are seconds, sizes tokens. The bounds of `gen_ai_` families are those of OpenTelemetry's conventions.
"""

from bisect import bisect_left

import msgspec

DURATION_BOUNDS_S = tuple(round(0.01 * 2**n, 2) for n in range(17))
FIRST_BYTE_BOUNDS_S = DURATION_BOUNDS_S[:14]
"""Also what OpenTelemetry has for a whole operation, and for its first chunk."""

OWN_BOUNDS_S = (0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0)
FIRST_TOKEN_BOUNDS_S = (0.001, 0.005, 0.01, 0.02, 0.04, 0.06, 0.08, 0.1, 0.25, 0.5, 0.75, 1.0, 2.5, 5.0, 7.5, 10.0)
NEXT_TOKEN_BOUNDS_S = (0.01, 0.025, 0.05, 0.075, 0.1, 0.15, 0.2, 0.3, 0.4, 0.5, 0.75, 1.0, 2.5)
TOKEN_BOUNDS = tuple(float(4**n) for n in range(14))


class Exemplar(msgspec.Struct, frozen=True, gc=False):
    """One value whose request belongs to a trace, and when it was counted (Unix seconds)."""

    trace_id: int
    value: float
    unix_s: float


class Histogram:
    """A distribution over these bounds."""

    __slots__ = ("bounds", "buckets", "exemplars", "total")

    def __init__(self, bounds: tuple[float, ...]) -> None:
        self.bounds = bounds
        self.buckets = [0] * (len(bounds) + 1)
        self.total = 0.0
        self.exemplars: dict[int, Exemplar] | None = None
        """By bucket; made with the first."""

    @property
    def count(self) -> int:
        """Return how many values there were."""
        return sum(self.buckets)

    def add(self, value: float) -> None:
        """Count one value."""
        self.buckets[bisect_left(self.bounds, value)] += 1
        self.total += value

    def show(self, exemplar: Exemplar) -> None:
        """Keep a value that was counted as its bucket's exemplar."""
        if self.exemplars is None:
            self.exemplars = {}
        self.exemplars[bisect_left(self.bounds, exemplar.value)] = exemplar

    def merge(self, other: "Histogram") -> None:
        """Add another distribution over the same bounds, or over those and wider ones, which count as beyond these."""
        ends = len(self.bounds)
        theirs = [*other.buckets[:ends], sum(other.buckets[ends:])]
        self.buckets = [mine + more for mine, more in zip(self.buckets, theirs, strict=True)]
        self.total += other.total
        for place, exemplar in (other.exemplars or {}).copy().items():
            mine = (self.exemplars or {}).get(min(place, ends))
            if mine is None or mine.unix_s <= exemplar.unix_s:
                self.show(exemplar)
