from typing import Any

import pytest

from gateway.policy.account import Account, account, own_charges, shared_charges
from gateway.policy.answers import Growth, Level, Levels
from gateway.policy.catalogue import Budget, Dynamic, Guards, Key, Limits, Org, Tier
from gateway.policy.charges import Charge
from gateway.policy.charging import Target, Tenant, target_charges
from gateway.policy.claims import place_of
from gateway.policy.growth import at_scale
from gateway.wire.contracts import DEEPINFRA, NEBIUS, OPENAI, Contract
from tests.catalogues import TERMS, key, model

NOON_MS = 1_790_942_400_000
"""12:00 UTC of a Friday, 2026-10-02."""

KEY = key(
    limits=Limits(rpm=10, concurrency=4),
    per_model={"qwen:7b": Limits(tpm=1_000)},
    concurrency_per_model=3,
    flex=Guards(rpm=5),
    over_limit=Guards(rpm=6, concurrency=1),
    budget=Budget(nano_usd=5_000_000_500, period="day"),
    project="search",
    project_budgets={"search": Budget(nano_usd=7_000_000_000, period="week")},
    project_limits={"search": Limits(rpd=8)},
    expires_at_s=1_800_000_000.5,
)
ORG = Org(
    name="acme", limits=Limits(rpm=100), per_model={"m": Limits(rpd=9)}, budget=Budget(nano_usd=9_000_000_000, period="month")
)
TENANT = Tenant(KEY, ORG)
MODELS = ("m", "qwen:7b")


def scopes(charges: tuple[Charge, ...]) -> list[str]:
    return list(dict.fromkeys(charge.scope for charge in charges))


def told(*, of: Key = KEY, contract: Contract = OPENAI, **figures: Any) -> Account:
    levels = tuple(
        Level(charge, **{"level": 0, "held": 0, "reset_ms": 0, **figures}) for charge in own_charges(Tenant(of, ORG), MODELS)
    )
    return account(Tenant(of, ORG), MODELS, contract, Levels(NOON_MS, levels))


def test_ones_own_buckets_are_read_and_the_shared_ones_are_not() -> None:
    assert scopes(own_charges(TENANT, MODELS)) == ["kb:day:k1", "k:k1", "km:k1:m", "km:k1:qwen:7b", "kf:k1", "kx:k1"]
    assert scopes(shared_charges(TENANT, MODELS)) == [
        "pb:week:acme:search",
        "ob:month:acme",
        "p:acme:search",
        "o:acme",
        "om:acme:m",
    ]


def test_they_are_the_buckets_that_requests_are_charged_to() -> None:
    asked = {charge for each in MODELS for tier in Tier for charge in charged(each, tier) if charge.tenant}
    read = (*own_charges(TENANT, MODELS), *shared_charges(TENANT, MODELS))
    assert {place_of(charge) for charge in read} == {place_of(charge) for charge in asked}
    assert {(place_of(each), each.capacity, each.rate) for each in read} == {
        (place_of(each), each.capacity, each.rate) for each in asked
    }


def charged(name: str, tier: Tier) -> tuple[Charge, ...]:
    found = model(name)
    return target_charges(TENANT, Target(found, found.deployments[0], tier), TERMS[tier], walks_past_rates=False)[:-1]


def test_a_limit_with_its_level() -> None:
    found = {(line.scope, line.model, line.kind): line for line in told(level=3, held=2, reset_ms=1_500).limits}
    line = found["key", None, "rpm"]
    assert (line.limit, line.burst, line.used, line.held, line.remaining, line.reset_ms, line.scale) == (
        10,
        10,
        3,
        2,
        5,
        1_500,
        None,
    )
    assert found["key", "qwen:7b", "tpm"].remaining == 995
    assert found["key", "m", "concurrency"].limit == 3
    assert found["over-limit", None, "concurrency"].remaining == 0, "never less than nothing"
    assert {place for place in found if place[0] not in ("project", "org")} == {
        ("key", None, "rpm"),
        ("key", None, "concurrency"),
        ("key", "m", "concurrency"),
        ("key", "qwen:7b", "tpm"),
        ("key", "qwen:7b", "concurrency"),
        ("flex", None, "rpm"),
        ("over-limit", None, "rpm"),
        ("over-limit", None, "concurrency"),
    }


def test_what_others_have_used_is_not_told() -> None:
    found = told(level=3)
    shared = [line for line in found.limits if line.scope == "org"]
    assert [(line.model, line.kind, line.limit) for line in shared] == [(None, "rpm", 100), ("m", "rpd", 9)]
    assert {(line.used, line.held, line.remaining, line.reset_ms, line.scale) for line in shared} == {(None,) * 5}
    budgets = [line for line in found.budgets if line.scope != "key"]
    assert [(line.scope, line.period, line.limit_micro_usd) for line in budgets] == [
        ("project", "week", 7_000_000),
        ("org", "month", 9_000_000),
    ]
    assert {(line.spent_micro_usd, line.held_micro_usd, line.remaining_micro_usd) for line in budgets} == {(None,) * 3}


def test_money_is_never_told_too_well() -> None:
    [line] = [line for line in told(level=1_000_000_001, held=1).budgets if line.scope == "key"]
    assert (line.limit_micro_usd, line.spent_micro_usd, line.held_micro_usd) == (5_000_000, 1_000_001, 1)
    assert line.remaining_micro_usd == 4_000_000
    assert told(level=6 * 10**9).budgets[0].remaining_micro_usd == 0


def test_tokens_are_told_beside_money_and_whether_the_operator_has_heard() -> None:
    spender = key(budget=Budget(nano_usd=4_000, tokens=1_000, period="day", alert_ppm=500_000))
    money, tokens = told(of=spender, level=400, held=100).budgets[:2]
    assert (money.limit_micro_usd, money.limit_tokens, money.spent_tokens, money.alerted) == (4, None, None, False)
    assert (tokens.limit_tokens, tokens.spent_tokens, tokens.held_tokens, tokens.remaining_tokens) == (1_000, 400, 100, 500)
    assert (tokens.scope, tokens.period, tokens.limit_micro_usd, tokens.alert) == ("key", "day", None, 0.5)
    assert told(of=spender, level=500).budgets[1].alerted
    assert {line.alerted for line in told(of=spender).budgets if line.scope == "org"} == {None}


def test_a_projects_limits_come_as_they_are_written() -> None:
    by = key(project="search", project_limits={"search": Limits(rpm=7)})
    [line] = [line for line in told(of=by, level=3).limits if line.scope == "project"]
    assert (line.model, line.kind, line.limit, line.used, line.remaining) == (None, "rpm", 7, None, None)


def test_a_budget_resets_with_its_period() -> None:
    ends = {line.period: line.resets_at for line in told().budgets}
    assert ends == {"day": 1_790_985_600, "week": 1_791_158_400, "month": 1_793_491_200}


def test_a_limit_that_has_grown_is_told_as_it_is_in_force() -> None:
    grown = key(limits=Limits(rpm=10, dynamic=Dynamic(window_ms=1_000, ceiling_milli=2_000)))
    [charge] = own_charges(Tenant(grown, Org(name="acme")), ())
    in_force = at_scale(charge, 1_200)
    seen = Levels(NOON_MS, (Level(in_force, 1, 0, 5_000, Growth(1_200, 1, 500)),))
    [line] = account(Tenant(grown, Org(name="acme")), (), OPENAI, seen).limits
    assert (line.limit, line.burst, line.scale, line.remaining) == (12, 12, 1.2, 11)


@pytest.mark.parametrize(
    ("contract", "auto", "chat", "embeddings"),
    [
        (OPENAI, "overflow", "auto", "default"),
        (DEEPINFRA, "priority", "default", "default"),
        (NEBIUS, "overflow", "auto", "auto"),
    ],
)
def test_tiers_are_told_by_the_contract(contract: Contract, auto: str, chat: str, embeddings: str) -> None:
    rights = told(of=key(tiers=frozenset({Tier.FLEX, Tier.DEFAULT})), contract=contract).service_tiers
    assert (rights.allowed, rights.auto, rights.over_limit) == (("auto", "default", "flex"), auto, False)
    assert (rights.absent["chat"], rights.absent["embeddings"]) == (chat, embeddings)


def test_tiers_are_told_as_the_key_has_them() -> None:
    own = key(
        tiers=frozenset({Tier.PRIORITY}), allow_no_limit=True, auto="project", default_tier="flex", over_limit=Guards(rpm=1)
    )
    rights = told(of=own).service_tiers
    assert (rights.allowed, rights.auto, rights.over_limit) == (("auto", "priority", "no-limit"), "project", True)
    assert set(rights.absent.values()) == {"flex"}


def test_who_the_key_is() -> None:
    found = told()
    assert (found.object, found.id, found.org, found.project, found.models) == ("key", "k1", "acme", "search", MODELS)
    assert found.expires_at == 1_800_000_000
    assert told(of=key()).expires_at is None
