"""What simulated requests ask for: keys, an organisation, two models and their deployments, all small enough to be full."""

from gateway.policy.admission import Charge, Dimension, Precedence, Reach, Row, Upstream
from gateway.policy.catalogue import Breaker, Limits
from gateway.policy.claims import place_of
from gateway.policy.limits import charges

KEYS = {
    "k:ci": Limits(rpm=10, tpm=1_500, rpd=40, concurrency=9),
    "k:batch": Limits(rpm=20, tpm_in=500, tpm_out=350, concurrency=8, strict=True),
}
ORG = Limits(rpm=40, tpm=2_500, concurrency=14, burst_ratio=0.5)
FLEX = Limits(rpm=20, concurrency=3)
MODELS = {"a": Limits(tpm=2_000, rpd=60), "b": Limits(rpm=12, tpm_out=400)}
DEPLOYMENTS = {
    "a/one": Limits(concurrency=4, rpm=8),
    "a/two": Limits(concurrency=3),
    "b/one": Limits(tpm_in=500, concurrency=4),
    "b/two": Limits(concurrency=2**31 - 1),
}
"""The last one has no ceiling of its own: only congestion gives it one."""

SHARES_PPM = {
    Precedence.PRIORITY: 1_000_000,
    Precedence.DEFAULT: 1_000_000,
    Precedence.OVER_LIMIT: 850_000,
    Precedence.FLEX: 700_000,
}

BREAKER = Breaker(failures=3, ratio_ppm=400_000, window_ms=4_000, open_ms=1_500, max_open_ms=6_000, cooldown_max_ms=2_000)
"""Quicker than anybody's, so that all of its states come up within seconds."""

Candidate = tuple[Upstream, tuple[Charge, ...], str, Precedence]
"""Upstream, charges, pool and precedence."""


def candidates_of(key: str) -> list[Candidate]:
    """Return every candidate of a key: each deployment at two tiers that spend rates, and two that spend none."""
    own = charges(key, KEYS[key], reach=Reach.REQUEST, tenant=True, ends_walk=key == "k:ci")
    org = charges("o:acme", ORG, reach=Reach.REQUEST, tenant=True)
    slots = tuple(charge for charge in own if charge.dimension is Dimension.CONCURRENCY)
    guards = charges("kf:ci", FLEX, reach=Reach.REQUEST, tenant=True, ends_walk=True)
    spends = dict.fromkeys((Precedence.DEFAULT, Precedence.PRIORITY), own + org)
    spends |= dict.fromkeys((Precedence.FLEX, Precedence.OVER_LIMIT), slots + guards)
    found = []
    for deployment, limits in DEPLOYMENTS.items():
        model, provider = deployment.split("/")
        supply = charges(f"m:{model}", MODELS[model], reach=Reach.MODEL, tenant=False)
        supply += charges(f"d:{deployment}", limits, reach=Reach.DEPLOYMENT, tenant=False)
        slots_declared = 0 if deployment == "b/two" else limits.concurrency or 0
        for precedence, taken in spends.items():
            upstream = Upstream(deployment, provider, slots_declared, SHARES_PPM[precedence])
            found.append((upstream, taken + supply, model, precedence))
    return found


CANDIDATES = {key: candidates_of(key) for key in KEYS}
CHARGES = {place_of(charge): charge for rows in CANDIDATES.values() for _, row, _, _ in rows for charge in row}

__all__ = ["BREAKER", "CANDIDATES", "CHARGES", "Candidate", "Row"]
