"""What simulated requests ask for: keys, an organisation, two models and their deployments, all small enough to be full."""

from collections.abc import Mapping
from typing import NamedTuple

from msgspec.structs import replace

from gateway.policy.admission import Precedence, Upstream
from gateway.policy.breaker import Breaker
from gateway.policy.catalogue import (
    NO_LIMITS,
    Budget,
    Deployment,
    Dynamic,
    Guards,
    Key,
    Limits,
    Model,
    Org,
    Provider,
    Secret,
    Tier,
    TierTerms,
)
from gateway.policy.charges import Charge
from gateway.policy.charging import Target, Tenant, target_charges, upstreams_of
from gateway.policy.claims import place_of
from gateway.policy.patience import PRECEDENCE

KEYS = (
    Key(
        id="ci",
        name="ci",
        org="acme",
        plan="p",
        limits=Limits(rpm=10, tpm=1_500, rpd=30, concurrency=9),
        flex=Guards(rpm=20, concurrency=3),
        over_limit=Guards(rpm=30, tpm=2_000, concurrency=5),
    ),
    Key(
        id="batch",
        name="batch",
        org="acme",
        plan="p",
        limits=Limits(rpm=20, tpm_in=500, tpm_out=350, concurrency=8, strict=True),
        per_model={"b": Limits(rpm=12)},
    ),
    Key(
        id="grown",
        name="grown",
        org="acme",
        plan="p",
        limits=Limits(
            rpm=5,
            tpm_in=200,
            tpm_out=300,
            burst_ratio=0.5,
            concurrency=9,
            dynamic=Dynamic(window_ms=5_000, ceiling_milli=1_500),
        ),
        over_limit=Guards(rpm=9, concurrency=3),
    ),
    Key(
        id="capped",
        name="capped",
        org="acme",
        plan="p",
        project="search",
        limits=Limits(rpm=25),
        budget=Budget(nano_usd=600_000_000_000, tokens=700, period="day"),
        project_budgets={"search": Budget(nano_usd=900_000_000_000, period="week")},
        project_limits={"search": Limits(rpm=12, tpm=1_800, concurrency=7)},
    ),
    Key(
        id="watched",
        name="watched",
        org="acme",
        plan="p",
        limits=Limits(rpm=4, tpm=120, rpd=9, concurrency=2, shadow=True, dynamic=Dynamic(window_ms=5_000, ceiling_milli=1_500)),
        per_model={"a": Limits(rpm=12), "b": Limits(tpm_in=60, burst_ratio=0.5, shadow=True)},
        over_limit=Guards(rpm=9, concurrency=3),
    ),
)
"""`capped` spends money and tokens, for a project; the limits of the others are for themselves, those of `watched` shadows."""

ORG = Org(name="acme", limits=Limits(rpm=40, tpm=2_500, concurrency=14, burst_ratio=0.5), per_model={"a": Limits(rpm=30)})
SPENDER = replace(ORG, budget=Budget(nano_usd=1_000_000_000_000, tokens=2500, period="month"))

TERMS: Mapping[Tier, TierTerms] = {
    Tier.PRIORITY: TierTerms(queue_s=10.0),
    Tier.DEFAULT: TierTerms(queue_s=30.0),
    Tier.NO_LIMIT: TierTerms(queue_s=30.0),
    Tier.OVER_LIMIT: TierTerms(headroom=0.85),
    Tier.FLEX: TierTerms(headroom=0.7, queue_s=300.0),
}


CREDENTIALS = {"one": ("sk-1",), "two": ("sk-1", "sk-2")}
"""Of each provider."""


def deployed(model: str, provider: str, slots: int | None, limits: Limits = NO_LIMITS) -> Deployment:
    """Return a deployment; without slots it has no ceiling of its own, and only congestion gives it one."""
    keys = tuple(map(Secret, CREDENTIALS[provider]))
    account = Provider(name=provider, dialect="openai", base_url="http://p", api_key=keys[0], further_keys=keys[1:])
    return Deployment(id=f"{model}/{provider}", provider=account, upstream_model=model, max_concurrency=slots, limits=limits)


MODELS = (
    Model(
        name="a", limits=Limits(tpm=2_000, rpd=44), deployments=(deployed("a", "one", 4, Limits(rpm=8)), deployed("a", "two", 3))
    ),
    Model(
        name="b",
        limits=Limits(rpm=12, tpm_out=400),
        deployments=(deployed("b", "one", 4, Limits(tpm_in=500)), deployed("b", "two", None)),
    ),
)

BREAKER = Breaker(failures=3, ratio_ppm=400_000, window_ms=4_000, open_ms=1_500, max_open_ms=6_000, cooldown_max_ms=2_000)
"""Quicker than anybody's, so that all of its states come up within seconds."""


class Candidate(NamedTuple):
    """What one key takes for one deployment at one tier."""

    upstream: Upstream
    charges: tuple[Charge, ...]
    model: str
    tier: Tier
    precedence: Precedence


def candidates_of(key: Key) -> tuple[Candidate, ...]:
    """Return every candidate of a key, each charged as the gateway charges it."""
    return tuple(
        Candidate(
            upstream,
            target_charges(
                Tenant(key, ORG if key.budget is None else SPENDER),
                Target(model, deployment, tier),
                terms,
                walks_past_rates=key.id != "ci",
            ),
            model.name,
            tier,
            PRECEDENCE[tier],
        )
        for model in MODELS
        for deployment in model.deployments
        for tier, terms in TERMS.items()
        for upstream in upstreams_of(deployment, terms)
    )


CANDIDATES = {key.id: candidates_of(key) for key in KEYS}
CHARGES = {place_of(charge): charge for found in CANDIDATES.values() for each in found for charge in each.charges}
BUDGETS = tuple(charge for charge in CHARGES.values() if charge.is_budget)
