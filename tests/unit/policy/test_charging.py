from typing import Any

import pytest

from gateway.policy.catalogue import Budget, Guards, Limits, Org, Tier, TierTerms
from gateway.policy.charges import Charge, Dimension, Reach
from gateway.policy.charging import MOST_SLOTS, Target, Tenant, ceiling, target_charges
from gateway.policy.limits import budget_charges, payer_of
from tests.catalogues import TERMS, deployment, key, model

FULL = Limits(rpm=10, tpm=1000, rpd=100, concurrency=4)
KEY = key(
    limits=FULL,
    per_model={"m": FULL},
    concurrency_per_model=3,
    flex=Guards(rpm=5, concurrency=2),
    over_limit=Guards(rpm=6, concurrency=1),
)
ORG = Org(name="acme", limits=FULL, per_model={"m": FULL})
MODEL = model("m", deployment("m", max_concurrency=10, limits=FULL), limits=FULL)
TENANT = Tenant(KEY, ORG)


def charged(tier: Tier, *, walks_past_rates: bool = False) -> tuple[Charge, ...]:
    return target_charges(TENANT, Target(MODEL, MODEL.deployments[0], tier), TERMS[tier], walks_past_rates=walks_past_rates)


def places(charges: tuple[Charge, ...], **fields: Any) -> set[tuple[str, Dimension]]:
    return {(c.scope, c.dimension) for c in charges if all(getattr(c, name) == value for name, value in fields.items())}


def test_default_pays_in_all_six_scopes_and_the_callers_own_come_first() -> None:
    charges = charged(Tier.DEFAULT)
    assert {c.scope for c in charges} == {"k:k1", "km:k1:m", "o:acme", "om:acme:m", "m:m", "d:m/p"}
    tenant = [c.tenant for c in charges]
    assert tenant == sorted(tenant, reverse=True)
    assert {c.tenant for c in charges if c.scope in ("m:m", "d:m/p")} == {False}


@pytest.mark.parametrize("tier", [Tier.FLEX, Tier.NO_LIMIT, Tier.OVER_LIMIT])
def test_some_tiers_spend_no_rates_of_the_callers_but_every_slot(tier: Tier) -> None:
    own = places(charged(tier), tenant=True)
    guards = {place for place in own if place[0] in ("kf:k1", "kx:k1")}
    assert {dimension for _, dimension in own - guards} == {Dimension.CONCURRENCY}
    assert {scope for scope, _ in own - guards} == {"k:k1", "km:k1:m", "o:acme", "om:acme:m"}
    assert places(charged(tier), tenant=False) == places(charged(Tier.DEFAULT), tenant=False), "capacity holds for every tier"


def test_tiers_without_rates_have_guards_of_their_own() -> None:
    assert places(charged(Tier.FLEX), scope="kf:k1") == {("kf:k1", Dimension.RPM), ("kf:k1", Dimension.CONCURRENCY)}
    assert places(charged(Tier.OVER_LIMIT), scope="kx:k1") == {("kx:k1", Dimension.RPM), ("kx:k1", Dimension.CONCURRENCY)}
    assert not places(charged(Tier.DEFAULT), scope="kf:k1")


def test_a_limit_of_the_callers_own_ends_the_walk_but_rates_that_are_walked_past() -> None:
    assert all(c.ends_walk == c.tenant for c in charged(Tier.DEFAULT))
    past = charged(Tier.DEFAULT, walks_past_rates=True)
    assert places(past, ends_walk=True) == {place for place in places(past, tenant=True) if place[1] is Dimension.CONCURRENCY}


@pytest.mark.parametrize(
    ("room", "headroom", "expected"),
    [(10, 1.0, 10), (10, 0.7, 7), (90, 0.7, 63), (10, 0.85, 8), (1, 0.7, 1), (None, 1.0, MOST_SLOTS)],
)
def test_a_ceiling_is_never_nothing(room: int | None, headroom: float, expected: int) -> None:
    assert ceiling(deployment("m", max_concurrency=room), TierTerms(headroom=headroom)) == expected


def test_a_deployments_own_limit_lowers_its_ceiling() -> None:
    assert ceiling(deployment("m", max_concurrency=10, limits=Limits(concurrency=4)), TierTerms()) == 4
    assert ceiling(deployment("m", limits=Limits(concurrency=4)), TierTerms()) == 4


def test_a_keys_concurrency_per_model_is_the_key_and_models() -> None:
    plain = target_charges(
        Tenant(key(concurrency_per_model=200), Org(name="acme")),
        Target(MODEL, MODEL.deployments[0], Tier.FLEX),
        TERMS[Tier.FLEX],
        walks_past_rates=False,
    )
    assert [(c.scope, c.limit) for c in plain if c.tenant] == [("km:k1:m", 200)]


@pytest.mark.parametrize("tier", Tier)
def test_budgets_stand_first_and_hold_for_every_tier(tier: Tier) -> None:
    budgets = {"search": Budget(nano_usd=2, period="week"), "chat": Budget(nano_usd=9)}
    spender = key(limits=FULL, budget=Budget(nano_usd=1, period="day"), project="search", project_budgets=budgets)
    org = Org(name="acme", limits=FULL, budget=Budget(nano_usd=3))
    target = Target(MODEL, MODEL.deployments[0], tier)
    charges = target_charges(Tenant(spender, org), target, TERMS[tier], walks_past_rates=True)
    money = charges[:3]
    assert [(c.scope, c.capacity) for c in money] == [("kb:day:k1", 1), ("pb:week:acme:search", 2), ("ob:month:acme", 3)]
    assert all(c.is_budget and c.tenant and c.ends_walk and c.reach is Reach.REQUEST for c in money)
    assert not any(c.is_budget for c in charges[3:])


def test_tokens_stand_beside_the_money_of_their_budget() -> None:
    spender = key(
        budget=Budget(tokens=7, period="day"), project="search", project_budgets={"search": Budget(nano_usd=2, tokens=9)}
    )
    target = Target(MODEL, MODEL.deployments[0], Tier.FLEX)
    found = target_charges(
        Tenant(spender, Org(name="acme", budget=Budget(tokens=8))), target, TERMS[Tier.FLEX], walks_past_rates=True
    )
    assert [(c.scope, c.dimension, c.capacity) for c in found if c.is_budget] == [
        ("kb:day:k1:tokens", Dimension.BUDGET_TOKENS, 7),
        ("pb:month:acme:search", Dimension.BUDGET, 2),
        ("pb:month:acme:search:tokens", Dimension.BUDGET_TOKENS, 9),
        ("ob:month:acme:tokens", Dimension.BUDGET_TOKENS, 8),
    ]


def in_project(tier: Tier, project: str | None) -> set[tuple[str, Dimension]]:
    by = key(limits=FULL, project=project, project_limits={"search": Limits(rpm=5, tpm=900, concurrency=2), "chat": Limits()})
    target = Target(MODEL, MODEL.deployments[0], tier)
    found = target_charges(Tenant(by, ORG), target, TERMS[tier], walks_past_rates=False)
    return {(c.scope, c.dimension) for c in found if c.scope.startswith("p:") and c.tenant and c.ends_walk}


@pytest.mark.parametrize("tier", Tier)
def test_a_project_has_limits_of_its_own_like_the_orgs(tier: Tier) -> None:
    slots = {("p:acme:search", Dimension.CONCURRENCY)}
    rates = {("p:acme:search", Dimension.RPM), ("p:acme:search", Dimension.TPM)}
    assert in_project(tier, "search") == (slots | rates if tier in (Tier.PRIORITY, Tier.DEFAULT) else slots)
    assert in_project(tier, "chat") == in_project(tier, "unlimited") == in_project(tier, None) == set()


def test_the_ledger_knows_whose_a_budget_is() -> None:
    owners, both = ("kb:k1", "pb:acme:search", "ob:acme"), Budget(nano_usd=1, tokens=9, period="week")
    found = [payer_of(each) for owner in owners for each in budget_charges(owner, both)]
    assert found[::2] == found[1::2] == [{"key_id": "k1"}, {"org": "acme", "project": "search"}, {"org": "acme"}]
