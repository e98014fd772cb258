"""An explanation against the corridor's own plan, whatever the configuration, the key, the request and the dice."""

from typing import Any

import msgspec
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from gateway.errors import GatewayError, status_of
from gateway.policy.catalogue import Catalogue, Guards, Key, Limits, Model, Tier
from gateway.policy.charging import MOST_SLOTS
from gateway.policy.explain import Asked, explain
from gateway.policy.explanation import TargetStep
from gateway.policy.prices import Price
from gateway.policy.routing import Candidate, Plan, Planner
from gateway.policy.tiers import wish
from gateway.wire.request import Endpoint, parse
from tests.catalogues import TERMS, catalogue, deployment, key, model, provider

P1, P2, P3 = provider("p1"), provider("p2"), provider("p3")
LIMITS = (
    Limits(),
    Limits(rpm=3, tpm=500, rpd=9, concurrency=2),
    Limits(tpm_in=40, tpm_out=5_000, burst_ratio=0.5),
    Limits(rpm=60, tpm=90_000, strict=True),
)
RIGHTS: tuple[dict[str, Any], ...] = (
    {},
    {"over_limit": Guards(rpm=2, tpm=900, concurrency=1)},
    {"over_limit": Guards(), "reject_unsupported_tier": True, "models": ("A", "B")},
    {"tiers": frozenset({Tier.DEFAULT}), "default_tier": "flex", "auto": "priority"},
    {"flex": Guards(rpm=1), "auto": "project", "project": "search", "project_tiers": {"search": Tier.FLEX}},
    {"allow_no_limit": True, "default_tier": "no-limit", "max_n": 1},
)
ASKED: tuple[dict[str, Any], ...] = (
    {},
    {"models": ["B", "A", "B"]},
    {"models": ["A", "Z"]},
    {"max_tokens": 400},
    {"n": 2, "fail_fast": True},
    {"n": 3, "max_tokens": 20_000},
    {"messages": []},
)
DEPLOYED = (
    ((P1, 1, 1.0, None),),
    ((P1, 1, 1.0, 4), (P2, 1, 3.0, None)),
    ((P1, 2, 1.0, 4), (P2, 1, 2.0, 1), (P3, 1, 2.0, 90)),
)
TIERS = frozenset(Tier), frozenset({Tier.DEFAULT, Tier.OVER_LIMIT}), frozenset({Tier.DEFAULT, Tier.FLEX})
WORDS = None, "auto", "fast", "default", "flex", "no-limit", "over-limit", "best"


@st.composite
def models(draw: st.DrawFn, name: str, fallbacks: tuple[str, ...]) -> Model:
    deployed = draw(st.sampled_from(DEPLOYED))
    return model(
        name,
        *(deployment(name, at, order=order, weight=weight, max_concurrency=most) for at, order, weight, most in deployed),
        tiers=draw(st.sampled_from(TIERS)),
        max_output_tokens=draw(st.sampled_from((None, 100))),
        price=draw(st.sampled_from((None, Price(input=100, output=200)))),
        limits=draw(st.sampled_from(LIMITS)),
        fallbacks=fallbacks,
    )


@st.composite
def catalogues(draw: st.DrawFn) -> Catalogue:
    found = [draw(models(name, fallbacks)) for name, fallbacks in (("A", ("B", "C")), ("B", ()), ("C", ()))]
    on = draw(st.sampled_from((("capacity", "unavailable"), ("unavailable", "rate_limit"))))
    return replace(catalogue(*found, on=on), tiers={tier: replace(terms, queue_s=30.0) for tier, terms in TERMS.items()})


keys = st.builds(
    lambda rights, limits, on_model: key(limits=limits, per_model={"A": on_model}, **rights),
    st.sampled_from(RIGHTS),
    st.sampled_from(LIMITS),
    st.sampled_from(LIMITS),
)
bodies = st.builds(
    lambda asked, word: msgspec.json.encode(
        {"model": "A", "messages": [{"role": "user", "content": "hi"}], "service_tier": word, **asked}
    ),
    st.sampled_from(ASKED),
    st.sampled_from(WORDS),
)


def planned(of: Catalogue, by: Key, body: bytes, dice: int) -> Plan | GatewayError:
    try:
        request = parse(Endpoint.CHAT, body)
        return Planner(of).plan(by, request, wish(request.service_tier, by, Endpoint.CHAT), dice)
    except GatewayError as error:
        return error


def charges_of(candidate: Candidate) -> list[tuple[object, ...]]:
    cost, found = candidate.row.estimate.of, []
    for c in candidate.row.charges:
        counted = c.capacity >= MOST_SLOTS // 2
        bounds = (None, None) if counted else (c.limit, c.capacity)
        found.append((c.scope, c.dimension.name.lower(), *bounds, cost(c.unit), c.ends_walk))
    return found


def charges_told(target: TargetStep) -> list[tuple[object, ...]]:
    return [(c.bucket, c.dimension, c.limit, c.burst, c.cost, c.ends_walk) for c in target.charges]


@given(catalogues(), keys, bodies, st.integers(0, 2**62 - 1))
def test_what_is_told_is_what_the_corridor_plans(of: Catalogue, by: Key, body: bytes, dice: int) -> None:
    asked = Asked(endpoint=Endpoint.CHAT, body=body, project=None, now_unix_s=0)
    found, plan = explain(of, by, asked, lambda request, deployment, tier: ((), ())), planned(of, by, body, dice)
    if isinstance(plan, GatewayError):
        assert found.refused is not None
        assert (found.refused.status, found.refused.message) == (status_of(plan), plan.message)
        assert (found.refused.code, found.refused.param, found.targets) == (plan.error_code, plan.param, ())
        return
    candidates = {(each.target.deployment.id, each.target.tier): each for each in plan.candidates}
    assert len(found.targets) == len(candidates)
    for target in found.targets:
        candidate = candidates[target.deployment, target.tier]
        assert charges_told(target) == charges_of(candidate)
        assert target.hold.total_tokens == candidate.row.estimate.total
    walk = [(each.target.model.name, each.target.tier, each.target.deployment.order) for each in plan.candidates]
    assert [(target.model, target.tier, target.order) for target in found.targets] == walk
    # Only a request that is too large for a bucket can be refused by empty ones.
    if found.refused is None:
        assert any(all(charge.fits for charge in target.charges) for target in found.targets)
    else:
        assert found.refused.status == 429
        assert not all(charge.fits for charge in found.targets[0].charges)
