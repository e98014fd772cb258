from typing import Any

import pytest
from msgspec.structs import replace

from gateway.policy import wording
from gateway.policy.admission import Row
from gateway.policy.catalogue import Guards, Key, Limits, Model, Org, Tier
from gateway.policy.charges import Dimension
from gateway.policy.explanation import Charged, Hold
from gateway.policy.routing import Planner
from gateway.policy.tiers import Wish
from gateway.wire.request import InferenceRequest
from tests.catalogues import TERMS, catalogue, deployment, key, model, request

FULL = Limits(rpm=10, tpm=800, rpd=100, concurrency=4)
MODEL = model("m", deployment("m", max_concurrency=10, limits=Limits(rpm=10)), limits=Limits(tpm=800))
KEY = key(limits=FULL, per_model={"m": Limits(tpm_out=600, burst_ratio=0.5)}, flex=Guards(rpm=5), over_limit=Guards(rpm=6))
ORG = Org(name="acme", limits=FULL, per_model={"m": FULL})


def row(of: Model, by: Key, asked: InferenceRequest, tier: Tier) -> Row:
    wanted = Wish(Tier.DEFAULT, overflow=True) if tier is Tier.OVER_LIMIT else Wish(tier)
    plan = Planner(replace(catalogue(of), orgs={"acme": ORG} if by is KEY else {})).plan(by, asked, wanted, dice=0)
    return next(each.row for each in plan.candidates if each.row.tier is tier)


def charged(tier: Tier) -> list[Charged]:
    found = row(MODEL, KEY, request("m", max_tokens=20), tier)
    return [wording.charged(charge, found, TERMS[tier]) for charge in found.charges]


def test_each_scope_is_named_with_where_its_limit_is_written() -> None:
    found = {(each.bucket, each.scope, each.rule) for tier in Tier for each in charged(tier) if each.dimension != "concurrency"}
    assert found == {
        ("k:k1", "key", "limits of key or plan"),
        ("km:k1:m", "key x model", "per_model of key or plan"),
        ("o:acme", "org", "limits of the org"),
        ("om:acme:m", "org x model", "per_model of the org"),
        ("kf:k1", "key", "flex of key or plan"),
        ("kx:k1", "key", "over_limit of key or plan"),
        ("m:m", "model", "limits of the model"),
        ("d:m/p", "deployment", "limits of the deployment"),
    }


def figures(dimension: Dimension, scope: str) -> tuple[Any, ...]:
    found = next(each for each in charged(Tier.DEFAULT) if (each.dimension, each.bucket) == (dimension.name.lower(), scope))
    return found.limit, found.burst, found.rate, found.period_s, found.cost, found.unit, found.ends_walk


def test_the_figures_of_a_charge_are_told_with_their_units() -> None:
    assert figures(Dimension.RPM, "k:k1") == (10, 10, 10, 60, 1, "requests", True)
    assert figures(Dimension.RPD, "k:k1") == (100, 100, None, 86_400, 1, "requests", True)
    assert figures(Dimension.TPM_OUT, "km:k1:m") == (600, 300, 600, 60, 20, "output tokens", True)
    assert figures(Dimension.TPM, "m:m") == (800, 800, 800, 60, 30, "tokens", False)
    assert figures(Dimension.CONCURRENCY, "d:m/p") == (10, 10, None, None, 1, "slots", False)


def test_a_deployments_slots_tell_the_share_that_the_tier_may_fill() -> None:
    rules = {each.rule for each in charged(Tier.FLEX) if (each.scope, each.dimension) == ("deployment", "concurrency")}
    assert rules == {"slots x headroom 0.7"}


@pytest.mark.parametrize(
    ("tier", "rule"),
    [(Tier.DEFAULT, "default spends the rates of key and org"), (Tier.FLEX, "flex spends no rates of key and org")],
)
def test_a_tier_tells_what_it_spends(tier: Tier, rule: str) -> None:
    assert wording.spending(tier) == rule


def held(limits: Limits, cap: int | None, **fields: Any) -> Hold:
    asked, of = request("m", **fields), model("m", max_output_tokens=cap)
    return wording.hold(asked, of, row(of, key(limits=limits), asked, Tier.DEFAULT))


@pytest.mark.parametrize(
    ("limits", "cap", "fields", "source", "rule"),
    [
        (Limits(), 50, {"max_tokens": 7}, "max_tokens", "max_tokens 7"),
        (Limits(), 50, {"max_tokens": 7, "n": 2, "prompts": 3}, "max_tokens", "max_tokens 7 x n 2 x prompts 3"),
        (Limits(), 50, {"max_tokens": 70}, "max_output_tokens", "the model's max_output_tokens 50"),
        (Limits(), 50, {}, "max_output_tokens", "the model's max_output_tokens 50"),
        (Limits(), None, {}, "longest_hold", "8192, the most that is held"),
        (Limits(), None, {"max_tokens": 9000, "n": 2}, "longest_hold", "8192, the most that is held x n 2 x prompts 1"),
        (Limits(tpm=40_000), None, {}, "bucket_share", "1/8 of the smallest token bucket (40000) without max_tokens"),
        (Limits(tpm=800), None, {}, "fewest", "256, the least without max_tokens"),
        (Limits(tpm=800), None, {"max_tokens": 700}, "max_tokens", "max_tokens 700"),
    ],
)
def test_a_hold_tells_which_bound_it_comes_from(
    limits: Limits, cap: int | None, fields: dict[str, Any], source: str, rule: str
) -> None:
    found = held(limits, cap, **fields)
    assert (found.output_source, found.rule) == (source, f"input estimated from the prompt's bytes; output {rule}")
    assert found.total_tokens == found.input_tokens + found.output_tokens


def test_token_ids_are_counted() -> None:
    assert held(Limits(), 5, token_prompt=True).rule.startswith("input counted from token ids")
