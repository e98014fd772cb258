"""How a deployment is doing, as an operator reads it: what keeps it from being asked, until when, and how many it may have.

Unix milliseconds of the store come in, times of day go out. Pure.
"""

from collections.abc import Mapping
from datetime import UTC, datetime

import msgspec

from gateway.policy.admission import Upstream
from gateway.policy.upstreams import MILLI, Condition


class CredentialStanding(msgspec.Struct, frozen=True, kw_only=True):
    """One credential by the name that may be shown. `state` is `well`, `cooling`, or `refused`: the provider did not take it."""

    name: str
    state: str
    until: datetime | None
    """When it is asked again like others."""


class Standing(msgspec.Struct, frozen=True, kw_only=True):
    """One deployment. `state` names what weighs most: `disabled`, `cooling`, `open`, `half_open`, `lowered` or `well`.

    `slots` is how many it may have at once now, `slots_declared` how many the configuration gives it; None is no ceiling.
    """

    deployment: str
    state: str
    disabled: bool
    cooling_until: datetime | None
    """For its own sake, or for its credentials': of several, until the first is back."""
    slots: int | None
    slots_declared: int | None
    breaker: str
    """`closed`, `open`, or `half_open`: one request at a time probes."""
    breaker_open_until: datetime | None
    failures: int
    """In a row."""
    credentials: tuple[CredentialStanding, ...]


def standing(upstream: Upstream, condition: Condition, left_alone_until_ms: Mapping[str, int], now_ms: int) -> Standing:
    """Return how a deployment is doing; its credentials are left alone until these instants, those below zero since refused."""
    declared = upstream.slots or None
    cooling_until_ms = max(condition.cooled_until_ms, min(map(abs, left_alone_until_ms.values())))
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
        credentials=tuple(credential_standing(name, until_ms, now_ms) for name, until_ms in left_alone_until_ms.items()),
    )


def credential_standing(name: str, until_ms: int, now_ms: int) -> CredentialStanding:
    """Return how a credential is doing."""
    until = moment(abs(until_ms), now_ms)
    word = "refused" if until_ms < 0 else "cooling"
    return CredentialStanding(name=name, state="well" if until is None else word, until=until)


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
