"""Budgets in a file: what they come to for a key, and which models need a price for them."""

import pytest

from gateway.config.check import check
from gateway.config.compile import compile_catalogue
from gateway.policy.catalogue import Budget, Key, Limits
from tests.unit.config.reading import config, lines, read

KEY = "keys: [{name: k, org: acme, plan: p, secret: 0123456789abcdef%s}]\n"
UNPRICED = """
providers: {local: {base_url: https://api.example.com/v1}}
models:
  small: {deployments: [{provider: local, model: s}], price: {input: 1, output: 2}}
  bare: {deployments: [{provider: local, model: b}]}
"""


def key_of(text: str) -> Key:
    (key,) = compile_catalogue(config(text), b"pepper").keys.values()
    return key


def test_a_keys_budget_is_its_plans_unless_it_has_its_own() -> None:
    plans = "plans: {p: {budget: {usd: 5, period: day}}}\norgs: {acme: {}}\n"
    assert key_of(plans + KEY % "").budget == Budget(nano_usd=5_000_000_000, period="day")
    assert key_of(plans + KEY % ", budget: {usd: 0.000000001}").budget == Budget(nano_usd=1, period="month")
    assert key_of("plans: {p: {}}\norgs: {acme: {}}\n" + KEY % "").budget is None


def test_budgets_of_org_and_projects_reach_the_catalogue() -> None:
    text = "orgs: {acme: {budget: {usd: 500}, projects: {a: {budget: {usd: 2.5, period: week}}, b: {}}}}\nplans: {p: {}}\n"
    catalogue = compile_catalogue(config(text + KEY % ""), b"pepper")
    (key,) = catalogue.keys.values()
    assert catalogue.orgs["acme"].budget == Budget(nano_usd=500_000_000_000, period="month")
    assert key.project_budgets == {"a": Budget(nano_usd=2_500_000_000, period="week")}


def test_tokens_and_alerts_reach_the_catalogue() -> None:
    plans = "plans: {p: {budget: {tokens: 9, period: week, alert: 0.29}}}\norgs: {acme: {}}\n"
    assert key_of(plans + KEY % "").budget == Budget(tokens=9, period="week", alert_ppm=290_000)
    own = ", budget: {usd: 1, tokens: 7, alert: 1}"
    assert key_of(plans + KEY % own).budget == Budget(nano_usd=10**9, tokens=7, alert_ppm=1_000_000)


def test_limits_of_projects_reach_the_catalogue() -> None:
    text = "orgs: {acme: {projects: {a: {limits: {rpm: 5, concurrency: 2}}, b: {}}}}\nplans: {p: {}}\n"
    assert key_of(text + KEY % "").project_limits == {"a": Limits(rpm=5, concurrency=2), "b": Limits()}


@pytest.mark.parametrize(
    ("budgets", "key", "needed"),
    [
        ("plans: {p: {}}\norgs: {acme: {}}", "", False),
        ("plans: {p: {budget: {usd: 5}}}\norgs: {acme: {}}", "", True),
        ("plans: {p: {budget: {tokens: 5}}}\norgs: {acme: {budget: {tokens: 9}}}", "", False),
        ("plans: {p: {budget: {tokens: 5}}}\norgs: {acme: {budget: {usd: 9, tokens: 9}}}", "", True),
        ("plans: {p: {budget: {usd: 5}, models: [small]}}\norgs: {acme: {}}", "", False),
        ("plans: {p: {budget: {usd: 5}, models: ['b*']}}\norgs: {acme: {}}", "", True),
        ("plans: {p: {}}\norgs: {acme: {}}", ", budget: {usd: 5}", True),
        ("plans: {p: {}}\norgs: {acme: {budget: {usd: 5}}}", "", True),
        ("plans: {p: {}}\norgs: {acme: {projects: {a: {budget: {usd: 5}}}}}", "", True),
        ("plans: {p: {}}\norgs: {acme: {projects: {a: {budget: {usd: 5}}, b: {}}}}", ", projects: [b]", False),
        ("plans: {p: {}}\norgs: {acme: {}, other: {budget: {usd: 5}}}", "", False),
    ],
)
def test_a_model_needs_a_price_where_a_budget_can_reach_it(budgets: str, key: str, needed: bool) -> None:
    found = lines(check(read(f"{UNPRICED}{budgets}\n" + KEY % key)).errors)
    why = "is missing, and key 'k' may use this model under a budget: nobody would know what it spends"
    assert found == [f"models.bare.price: {why}"] * needed
