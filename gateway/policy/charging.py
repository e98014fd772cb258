"""Which buckets a candidate is charged to: budgets, seven scopes, the tier's exemptions and the deployment's room.

Limits of key and org are the caller's own; those of model and deployment are capacity and hold for every tier. Pure.
"""

from collections.abc import Iterable, Iterator, Mapping
from fractions import Fraction
from math import floor

import msgspec

from gateway.policy.accounts import credentials
from gateway.policy.admission import Upstream
from gateway.policy.catalogue import NO_LIMITS, Deployment, Guards, Key, Limits, Model, Org, Tier, TierTerms
from gateway.policy.charges import Charge, Reach
from gateway.policy.limits import budget_charges, charges, uses
from gateway.policy.means import Capabilities
from gateway.policy.tiers import SPENDS_NO_RATES

MOST_SLOTS = 2**31 - 1
"""The ceiling of a deployment without one: its requests are counted all the same, so that congestion can lower it."""

MILLION = 1_000_000


Scope = tuple[str, Limits, Reach]
"""A scope's name, its limits, and how long what is held there is held."""


class Tenant(msgspec.Struct, frozen=True, gc=False):
    """Who is charged: a key and what it shares with its organisation."""

    key: Key
    org: Org


def tenant_of(key: Key, orgs: Mapping[str, Org]) -> Tenant:
    """Return who is charged for a key; `orgs` are those of the file."""
    return Tenant(key, key.shares or orgs.get(key.org) or Org(name=key.org))


class Target(msgspec.Struct, frozen=True, gc=False):
    """Where a request could go: one deployment of one model, at one tier."""

    model: Model
    deployment: Deployment
    tier: Tier

    @property
    def capabilities(self) -> Capabilities:
        """Return what can be done there."""
        return self.deployment.capabilities or self.model.capabilities


def target_charges(tenant: Tenant, target: Target, terms: TierTerms, *, walks_past_rates: bool) -> tuple[Charge, ...]:
    """Return the charges of one candidate, the caller's own limits first and budgets, which hold for every tier, before these.

    `walks_past_rates`: another candidate may be tried where a rate of the caller's own refuses this one (the next one is service
    over the limit, or `rate_limit` is in `fallback.on`). The caller's concurrency always ends the walk, `rate_limit` aside.
    """
    found = [*budgets(tenant)]
    (own, project, org), (own_here, org_here) = limits_of(tenant), limits_on(tenant, target.model.name)
    for scope, limits, reach in (own, own_here, project, org, org_here):
        rates, held = _split(limits)
        if target.tier not in SPENDS_NO_RATES:
            found += charges(scope, rates, reach=reach, tenant=True, ends_walk=not walks_past_rates)
        elif target.tier is Tier.OVER_LIMIT:
            found += uses(charges(scope, rates, reach=reach, tenant=True))
        found += charges(scope, held, reach=reach, tenant=True, ends_walk=True)
    found += guards_of(tenant.key, target.tier)
    found += charges(f"m:{target.model.name}", target.model.limits, reach=Reach.MODEL, tenant=False, ends_walk=False)
    room = msgspec.structs.replace(target.deployment.limits, concurrency=ceiling(target.deployment, terms))
    found += charges(f"d:{target.deployment.id}", room, reach=Reach.DEPLOYMENT, tenant=False, ends_walk=False)
    return tuple(found)


def declared_slots(deployment: Deployment) -> int:
    """Return how many requests the operator lets run on the deployment at once, 0 where nothing is said."""
    own = deployment.limits.concurrency
    return (deployment.max_concurrency if own is None else min(own, deployment.max_concurrency or own)) or 0


def ceiling(deployment: Deployment, terms: TierTerms) -> int:
    """Return how many requests may run on the deployment when one of this tier starts; never 0, or the tier would starve."""
    # The share is taken as written: 0.7 of 90 is 63, which in floats it is not.
    return max(1, floor((declared_slots(deployment) or MOST_SLOTS) * Fraction(str(terms.headroom))))


def upstreams_of(deployment: Deployment, terms: TierTerms) -> tuple[Upstream, ...]:
    """Return whom requests at these terms go to, as far as their state is shared: the deployment with each credential."""
    share_ppm = max(1, floor(MILLION * Fraction(str(terms.headroom))))
    slots = declared_slots(deployment)
    return tuple(Upstream(deployment.id, credential, slots, share_ppm) for credential in credentials(deployment.provider))


def limits_of(tenant: Tenant) -> tuple[Scope, Scope, Scope]:
    """Return the limits of a key, of its project and of its org."""
    key, org = tenant.key, tenant.org
    project = key.project or ""
    return (
        (f"k:{key.id}", key.limits, Reach.REQUEST),
        (f"p:{org.name}:{project}", key.project_limits.get(project, NO_LIMITS), Reach.REQUEST),
        (f"o:{org.name}", org.limits, Reach.REQUEST),
    )


def limits_on(tenant: Tenant, model: str) -> tuple[Scope, Scope]:
    """Return the limits of a key and of its org on one model."""
    key, org = tenant.key, tenant.org
    key_on_model = key.per_model.get(model, NO_LIMITS)
    if key.concurrency_per_model is not None and key_on_model.concurrency is None:
        around = key_on_model if model in key.per_model else key.limits
        key_on_model = msgspec.structs.replace(key_on_model, concurrency=key.concurrency_per_model, shadow=around.shadow)
    on_org = org.per_model.get(model, NO_LIMITS)
    return (f"km:{key.id}:{model}", key_on_model, Reach.MODEL), (f"om:{org.name}:{model}", on_org, Reach.MODEL)


def budgets(tenant: Tenant) -> Iterator[Charge]:
    """Yield the budgets of a key, of its project and of its org."""
    key, org = tenant.key, tenant.org
    if key.budget is not None:
        yield from budget_charges(f"kb:{key.id}", key.budget)
    if key.project is not None and key.project in key.project_budgets:
        yield from budget_charges(f"pb:{org.name}:{key.project}", key.project_budgets[key.project])
    if org.budget is not None:
        yield from budget_charges(f"ob:{org.name}", org.budget)


def budgets_of(charges: Iterable[Charge]) -> tuple[Charge, ...]:
    """Return those of these charges that are budgets."""
    return tuple(charge for charge in charges if charge.is_budget)


def _split(limits: Limits) -> tuple[Limits, Limits]:
    return (
        msgspec.structs.replace(limits, concurrency=None),
        msgspec.structs.replace(NO_LIMITS, concurrency=limits.concurrency, shadow=limits.shadow),
    )


def guards_of(key: Key, tier: Tier) -> tuple[Charge, ...]:
    """Return the bounds of the tiers that spend no rate credits; over-limit's let the walk go on, as its rates did."""
    if tier is Tier.FLEX:
        return _guard(f"kf:{key.id}", key.flex, ends_walk=True)
    if tier is Tier.OVER_LIMIT:
        return _guard(f"kx:{key.id}", key.over_limit, ends_walk=False)
    return ()


def _guard(scope: str, guards: Guards | None, *, ends_walk: bool) -> tuple[Charge, ...]:
    if guards is None:
        return ()
    limits = Limits(rpm=guards.rpm, tpm=guards.tpm, concurrency=guards.concurrency)
    return charges(scope, limits, reach=Reach.REQUEST, tenant=True, ends_walk=ends_walk)
