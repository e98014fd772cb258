"""What a key may do and what it has used, as its bearer is told.

Its own limits and budget come with their levels. Those that it shares with other keys, its org's and its project's, come as they
are written: what others have used of them is none of its bearer's business. Money is micro-USD, instants are Unix seconds. Pure.
"""

from collections.abc import Iterator, Mapping, Sequence
from itertools import chain
from typing import Any

import msgspec

from gateway.policy.alerts import MILLION, is_due
from gateway.policy.answers import Level, Levels
from gateway.policy.catalogue import Key, Tier
from gateway.policy.charges import Charge, Unit
from gateway.policy.charging import Scope, Tenant, budgets, guards_of, limits_of, limits_on
from gateway.policy.growth import BASE_MILLI
from gateway.policy.limits import charges
from gateway.policy.periods import bounds_ms
from gateway.policy.tiers import absent
from gateway.wire.contracts import Contract
from gateway.wire.request import Endpoint

NANO_PER_MICRO = 1000

OWNERS: Mapping[str, str] = {
    "k": "key",
    "km": "key",
    "kf": "flex",
    "kx": "over-limit",
    "kb": "key",
    "p": "project",
    "pb": "project",
    "o": "org",
    "om": "org",
    "ob": "org",
}
"""Whose a bucket is, or for which tier of the key's, by the first part of its name."""

ON_MODEL = frozenset({"km", "om"})


class LimitLine(msgspec.Struct, frozen=True, kw_only=True):
    """One limit: `kind` as the configuration names it, `used` what still counts of what has ended, `held` what is under way.

    `reset_ms` is when all would be free again if what is under way ended now and nothing came after. Null is a figure of others'.
    """

    scope: str
    model: str | None
    kind: str
    limit: int
    burst: int
    scale: float | None
    used: int | None
    held: int | None
    remaining: int | None
    reset_ms: int | None


class BudgetLine(msgspec.Struct, frozen=True, kw_only=True):
    """One budget, of money or of tokens; `held` is the most that what is under way may take. Null is a figure of others'.

    At the share `alert` its operator hears of it, and has by now where it is `alerted`.
    """

    scope: str
    period: str
    limit_micro_usd: int | None = None
    spent_micro_usd: int | None = None
    held_micro_usd: int | None = None
    remaining_micro_usd: int | None = None
    limit_tokens: int | None = None
    spent_tokens: int | None = None
    held_tokens: int | None = None
    remaining_tokens: int | None = None
    alert: float
    alerted: bool | None
    resets_at: int


class TierRights(msgspec.Struct, frozen=True, kw_only=True):
    """Which tiers may be asked for by name, what `auto` means, and what stands in for none, by endpoint."""

    allowed: tuple[str, ...]
    auto: str
    over_limit: bool
    absent: Mapping[str, str]


class Account(msgspec.Struct, frozen=True, kw_only=True):
    """All of it."""

    object: str = "key"
    id: str
    name: str
    org: str
    project: str | None
    expires_at: int | None
    models: tuple[str, ...]
    service_tiers: TierRights
    limits: tuple[LimitLine, ...]
    budgets: tuple[BudgetLine, ...]


def own_charges(tenant: Tenant, models: Sequence[str]) -> tuple[Charge, ...]:
    """Return the key's own buckets, its budget first: on these models too, and of the tiers that spend no rates."""
    scopes = (limits_of(tenant)[0], *(limits_on(tenant, model)[0] for model in models))
    own_budget = (charge for charge in budgets(tenant) if OWNERS[_kind(charge)] == "key")
    guards = chain.from_iterable(guards_of(tenant.key, tier) for tier in (Tier.FLEX, Tier.OVER_LIMIT))
    return (*own_budget, *_charges(scopes), *guards)


def shared_charges(tenant: Tenant, models: Sequence[str]) -> tuple[Charge, ...]:
    """Return the buckets that the key shares with others, budgets first."""
    scopes = (*limits_of(tenant)[1:], *(limits_on(tenant, model)[1] for model in models))
    return (*(charge for charge in budgets(tenant) if OWNERS[_kind(charge)] != "key"), *_charges(scopes))


def account(tenant: Tenant, models: Sequence[str], contract: Contract, seen: Levels) -> Account:
    """Return what the bearer of the key is told.

    `models` are the names that it may use, `seen` the levels of `own_charges`.
    """
    key = tenant.key
    shared = shared_charges(tenant, models)
    own = [(level.charge, level) for level in seen.levels]
    lines: list[tuple[Charge, Level | None]] = [*own, *((charge, None) for charge in shared)]
    return Account(
        id=key.id,
        name=key.name,
        org=key.org,
        project=key.project,
        expires_at=None if key.expires_at_s is None else int(key.expires_at_s),
        models=tuple(models),
        service_tiers=_rights(key, contract),
        limits=tuple(_limit(charge, level) for charge, level in lines if not charge.is_budget and not charge.shadow),
        budgets=tuple(BudgetLine(**figures(charge, level, seen.now_ms)) for charge, level in lines if charge.is_budget),
    )


def _charges(scopes: Sequence[Scope]) -> Iterator[Charge]:
    return chain.from_iterable(charges(scope, limits, reach=reach, tenant=True) for scope, limits, reach in scopes)


def _kind(charge: Charge) -> str:
    return charge.scope.partition(":")[0]


def _rights(key: Key, contract: Contract) -> TierRights:
    named = [tier.value for tier in Tier if tier in key.tiers or (tier is Tier.NO_LIMIT and key.allow_no_limit)]
    return TierRights(
        allowed=("auto", *named),
        auto=key.auto or contract.auto,
        over_limit=key.over_limit is not None,
        absent={endpoint.value: absent(key, endpoint, contract) for endpoint in Endpoint},
    )


def _limit(charge: Charge, level: Level | None) -> LimitLine:
    kind = _kind(charge)
    growth = None if level is None else level.growth
    return LimitLine(
        scope=OWNERS[kind],
        model=charge.scope.split(":", 2)[2] if kind in ON_MODEL else None,
        kind=charge.dimension.name.lower(),
        limit=charge.limit,
        burst=charge.capacity,
        scale=None if growth is None else growth.scale_milli / BASE_MILLI,
        used=None if level is None else level.level,
        held=None if level is None else level.held,
        remaining=None if level is None else max(0, charge.capacity - level.level - level.held),
        reset_ms=None if level is None else level.reset_ms,
    )


def figures(charge: Charge, level: Level | None, now_ms: int) -> dict[str, Any]:
    """Return what a `BudgetLine` says of a budget."""
    unit, size = ("micro_usd", NANO_PER_MICRO) if charge.unit is Unit.NANO_USD else ("tokens", 1)
    found: dict[str, Any] = {f"limit_{unit}": charge.capacity // size}
    if level is not None:
        # What is spent and held is rounded up, what is left down.
        found[f"spent_{unit}"], found[f"held_{unit}"] = -(-level.level // size), -(-level.held // size)
        found[f"remaining_{unit}"] = max(0, charge.capacity - level.level - level.held) // size
    return found | {
        "scope": OWNERS[_kind(charge)],
        "period": charge.scope.split(":")[1],
        "alert": charge.alert_ppm / MILLION,
        "alerted": None if level is None else is_due(charge, level.level),
        "resets_at": bounds_ms(now_ms, charge.period_ms)[1] // 1000,
    }
