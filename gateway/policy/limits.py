"""What limits mean: the charges that a scope's limits make of a request, and the arithmetic of one bucket.

A bucket never forgives a hold: only what was posted leaks away. `debt` is what was posted and is still in the bucket, `held` what
live leases may yet post. RATE counts its debt in unit·ms, so that leaking is exact in integers: each millisecond takes `rate` of
it, and one unit weighs `period_ms`; in any stretch of W ms it posts at most B + L·W/P units, and over-runs (what goes beyond a
hold, or comes after its lease expired). CALENDAR empties at the end of each period of the calendar. HELD counts holders
alone. A RATE that is dynamic grows with use, see `gateway.policy.growth`. Times are Unix milliseconds. Pure.
"""

from collections.abc import Iterator, Mapping, Sequence
from fractions import Fraction

import msgspec
from msgspec.structs import replace

from gateway.policy.answers import Growth
from gateway.policy.catalogue import Budget, Dynamic, Limits
from gateway.policy.charges import Charge, Dimension, Kind, Reach, Unit
from gateway.policy.growth import BASE_MILLI, at_scale, next_scale, window_quota
from gateway.policy.periods import DAY_MS, PERIODS, bounds_ms

__all__ = [
    "DAY_MS",
    "EXACT",
    "LAYOUT",
    "MINUTE_MS",
    "Bucket",
    "budget_charges",
    "budget_of",
    "charges",
    "payer_of",
    "uses",
    "weight",
]

MINUTE_MS = 60_000

EXACT = 2**53
"""Lua counts in doubles, which are exact below this: no full bucket may weigh as much."""

STRICT_PERCENT = 15
"""How much of a strict limit is burst; the rest is rate, so that no minute passes the limit."""

PAYERS: Mapping[str, tuple[str, ...]] = {"kb": ("key_id",), "pb": ("org", "project"), "ob": ("org",)}
"""What the parts of a budget's name are, by the first of them."""

TOKENS = ":tokens"
"""Behind a budget's name, the bucket of its tokens; the bucket of its money has the name alone."""

LAYOUT = (
    (Dimension.RPM, Kind.RATE, Unit.REQUEST, MINUTE_MS),
    (Dimension.RPD, Kind.CALENDAR, Unit.REQUEST, DAY_MS),
    (Dimension.TPM, Kind.RATE, Unit.TOTAL, MINUTE_MS),
    (Dimension.TPM_IN, Kind.RATE, Unit.INPUT, MINUTE_MS),
    (Dimension.TPM_OUT, Kind.RATE, Unit.OUTPUT, MINUTE_MS),
    (Dimension.CONCURRENCY, Kind.HELD, Unit.SLOT, 0),
)
"""How each dimension counts, in the order in which refusals name them."""


def charges(scope: str, limits: Limits, *, reach: Reach, tenant: bool, ends_walk: bool = False) -> tuple[Charge, ...]:
    """Return what a candidate takes from the buckets of one scope.

    Raises ValueError where a limit is below 1 (strict: below 2), or too large to be counted exactly.
    """
    found = []
    figures = (limits.rpm, limits.rpd, limits.tpm, limits.tpm_in, limits.tpm_out, limits.concurrency)
    for limit, (dimension, kind, unit, period_ms) in zip(figures, LAYOUT, strict=True):
        if limit is None:
            continue
        capacity, rate = _shape(limit, limits) if kind is Kind.RATE else (limit, 0)
        dynamic = limits.dynamic if kind is Kind.RATE else None
        if limit < 1 or capacity * max(1, period_ms) >= EXACT or (dynamic is not None and _outgrows(capacity, rate, dynamic)):
            raise ValueError(f"{dimension} of {limit} is out of range")
        shape = (capacity, rate, period_ms, limit)
        ends = ends_walk and not limits.shadow
        found.append(Charge(scope, dimension, kind, unit, reach, *shape, tenant, ends, dynamic, shadow=limits.shadow))
    return tuple(found)


def uses(charges: Sequence[Charge]) -> Iterator[Charge]:
    """Yield, for each rate that grows with use, what counts for its growth alone."""
    return (replace(charge, kind=Kind.USE, ends_walk=False) for charge in charges if charge.dynamic is not None)


def budget_charges(owner: str, budget: Budget) -> tuple[Charge, ...]:
    """Return what a candidate takes from the budget of `owner` (`kb`, `pb` or `ob`, and whose it is): money, tokens or both.

    The period is part of the bucket's name: what was spent in another one's is no figure for it.
    """
    whose, _, name = owner.partition(":")
    scope, period_ms = f"{whose}:{budget.period}:{name}", PERIODS[budget.period]
    amounts = (
        (scope, Dimension.BUDGET, Unit.NANO_USD, budget.nano_usd),
        (f"{scope}{TOKENS}", Dimension.BUDGET_TOKENS, Unit.BUDGET_TOKENS, budget.tokens),
    )
    return tuple(
        Charge(
            scope=scope,
            dimension=dimension,
            kind=Kind.CALENDAR,
            unit=unit,
            reach=Reach.REQUEST,
            capacity=most,
            rate=0,
            period_ms=period_ms,
            limit=most,
            tenant=True,
            ends_walk=True,
            alert_ppm=budget.alert_ppm,
        )
        for scope, dimension, unit, most in amounts
        if most is not None
    )


def budget_of(charge: Charge) -> str:
    """Return the name of the budget that a charge is of: its money and its tokens have the same."""
    return charge.scope.removesuffix(TOKENS)


def payer_of(charge: Charge) -> dict[str, str]:
    """Return whose budget it is, by the ledger's columns: no name has a colon."""
    whose, _, *names = charge.scope.split(":")
    return dict(zip(PAYERS[whose], names, strict=False))


def _shape(limit: int, limits: Limits) -> tuple[int, int]:
    """Return a rate's burst and its sustained part. The ratio is taken as written: 0.29 of 100 is 29."""
    if not limits.strict:
        return max(1, int(limit * Fraction(str(limits.burst_ratio)))), limit
    if limit < 2:
        raise ValueError("a strict limit is 2 or more")
    burst = max(1, limit * STRICT_PERCENT // 100)
    return burst, limit - burst


def _outgrows(capacity: int, rate: int, dynamic: Dynamic) -> bool:
    """Return whether a rate at its ceiling is too large to be counted exactly."""
    return max(capacity * MINUTE_MS, rate * dynamic.window_ms) * dynamic.ceiling_milli >= EXACT * BASE_MILLI


class Bucket(msgspec.Struct):
    """One limit's counter, true at `at_ms`; where it is dynamic, its scale, when its window began, what was posted in that."""

    debt: int = 0
    at_ms: int = 0
    held: int = 0
    scale_milli: int = BASE_MILLI
    began_ms: int = 0
    posted: int = 0

    def fold(self, charge: Charge, now_ms: int) -> None:
        """Bring the bucket to `now_ms`. A clock that went back delays what is given back and never takes it twice."""
        if now_ms <= self.at_ms:
            return
        if charge.dynamic is not None:
            self._pass_windows(charge, charge.dynamic, now_ms)
        if charge.kind <= Kind.RATE:
            self._leak(charge, now_ms)
        elif charge.kind is Kind.CALENDAR and now_ms >= self._period_end_ms(charge):
            self.debt = 0
        self.at_ms = now_ms

    def post(self, charge: Charge, units: int) -> None:
        """Add what was used."""
        if charge.kind is not Kind.USE:
            most = self.in_force(charge).capacity * weight(charge) if is_bounded(charge) else EXACT - 1
            self.debt = max(self.debt, min(most, self.debt + units * weight(charge)))
        if charge.dynamic is not None:
            self.posted = min(EXACT - 1, self.posted + units)

    def in_force(self, charge: Charge) -> Charge:
        """Return the charge at the bucket's scale: what the other questions here are to be asked about."""
        return charge if charge.dynamic is None else at_scale(charge, self.scale_milli)

    def growth(self, charge: Charge, now_ms: int) -> Growth | None:
        """Return how far the limit has grown, None where it cannot."""
        if charge.dynamic is None:
            return None
        return Growth(self.scale_milli, self.posted, self.began_ms + charge.dynamic.window_ms - now_ms)

    def excess(self, charge: Charge, cost: int) -> int:
        """Return by how much (weighed as debt is) the bucket lacks room for `cost` units; 0 or less is room."""
        return self.debt + (self.held + cost - charge.capacity) * weight(charge)

    def wait_ms(self, charge: Charge, cost: int, now_ms: int) -> int | None:
        """Return when `cost` would fit if nothing else happened, None if only another holder's end can tell."""
        if charge.kind is Kind.HELD or self.held + cost > charge.capacity:
            return None
        if charge.kind is Kind.CALENDAR:
            return self._period_end_ms(charge) - now_ms
        return self.at_ms - now_ms - (-self.excess(charge, cost) // charge.rate)

    def level(self, charge: Charge) -> int:
        """Return what was posted and is still there, in whole units, rounded up."""
        return -(-self.debt // weight(charge))

    def reset_ms(self, charge: Charge, now_ms: int) -> int:
        """Return when the bucket would be empty if its holds were posted now; holders' slots have no such time."""
        weighed = self.debt + self.held * weight(charge)
        if charge.kind is Kind.HELD or weighed == 0:
            return 0
        if charge.kind is Kind.CALENDAR:
            return self._period_end_ms(charge) - now_ms
        return self.at_ms - now_ms - (-weighed // charge.rate)

    def _leak(self, charge: Charge, until_ms: int) -> None:
        self.debt = max(0, self.debt - self.in_force(charge).rate * max(0, until_ms - self.at_ms))
        self.at_ms = max(self.at_ms, until_ms)

    def _pass_windows(self, charge: Charge, dynamic: Dynamic, now_ms: int) -> None:
        """Judge the windows that are over. Each leaks at its own rate; one without use, at the base, begins with the next use."""
        while (self.posted or self.scale_milli > BASE_MILLI) and now_ms >= self.began_ms + dynamic.window_ms:
            ended_ms, quota = self.began_ms + dynamic.window_ms, window_quota(self.in_force(charge), dynamic)
            self._leak(charge, ended_ms)
            self.scale_milli = next_scale(dynamic, self.scale_milli, self.posted, quota)
            self.began_ms, self.posted = ended_ms, 0
        if not self.posted and self.scale_milli == BASE_MILLI:
            self.began_ms = now_ms

    def _period_end_ms(self, charge: Charge) -> int:
        return bounds_ms(self.at_ms, charge.period_ms)[1]


def is_bounded(charge: Charge) -> bool:
    """Return whether a bucket takes no more than it holds: one that refuses nobody would go on telling of a crowd long gone."""
    return charge.shadow and charge.kind is Kind.RATE


def weight(charge: Charge) -> int:
    """Return what one unit weighs in a bucket's debt."""
    return charge.period_ms if charge.kind <= Kind.RATE else 1
