"""How a deployment is doing, as an operator reads it: what keeps it from being asked, until when, and how many it may have.

Unix milliseconds of the store come in, times of day go out. Pure.
"""

from datetime import UTC, datetime

import msgspec

from gateway.policy.admission import Upstream
from gateway.policy.upstreams import MILLI, Condition


class Standing(msgspec.Struct, frozen=True, kw_only=True):
    """One deployment. `state` names what weighs most: `disabled`, `cooling`, `open`, `half_open`, `lowered` or `well`.

    `slots` is how many it may have at once now, `slots_declared` how many the configuration gives it; None is no ceiling.
    """

    deployment: str
    state: str
    disabled: bool
    cooling_until: datetime | None
    """For its own sake, or for its credential's."""
    slots: int | None
    slots_declared: int | None
    breaker: str
    """`closed`, `open`, or `half_open`: one request at a time probes."""
    breaker_open_until: datetime | None
    failures: int
    """In a row."""


def standing(upstream: Upstream, condition: Condition, cooled_until_ms: int, now_ms: int) -> Standing:
    """Return how a deployment is doing; `cooled_until_ms` is its credential's."""
    declared = upstream.slots or None
    cooling_until_ms = max(condition.cooled_until_ms, cooled_until_ms)
    breaker = breaker_of(condition, now_ms)
    return Standing(
        deployment=upstream.deployment,
        state=state(condition, breaker, cooling=cooling_until_ms > now_ms),
        disabled=condition.disabled,
        cooling_until=moment(cooling_until_ms, now_ms),
        slots=condition.slots_milli // MILLI if condition.slots_milli else declared,
        slots_declared=declared,
        breaker=breaker,
        breaker_open_until=moment(condition.open_until_ms, now_ms),
        failures=condition.failures,
    )


def breaker_of(condition: Condition, now_ms: int) -> str:
    """Return what the breaker does."""
    if not condition.open_until_ms:
        return "closed"
    return "open" if condition.open_until_ms > now_ms else "half_open"


def state(condition: Condition, breaker: str, *, cooling: bool) -> str:
    """Return what weighs most."""
    if condition.disabled:
        return "disabled"
    if cooling:
        return "cooling"
    if breaker != "closed":
        return breaker
    return "lowered" if condition.slots_milli else "well"


def moment(until_ms: int, now_ms: int) -> datetime | None:
    """Return an instant that is still to come."""
    return datetime.fromtimestamp(until_ms / 1000, UTC) if until_ms > now_ms else None
