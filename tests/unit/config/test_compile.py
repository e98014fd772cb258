from fractions import Fraction

import pytest

from gateway.config.compile import compile_catalogue
from gateway.policy.accounts import credentials
from gateway.policy.catalogue import (
    Catalogue,
    Dynamic,
    Guards,
    Key,
    Limits,
    Tier,
    TierTerms,
    Timeouts,
)
from gateway.policy.credentials import digest, format_digest
from gateway.policy.fallback import Fallback
from gateway.policy.means import Capabilities
from gateway.policy.strategy import Strategy
from gateway.wire.request import Endpoint
from tests.unit.config.reading import config, read

PEPPER = b"pepper-of-this-test"
SECRET = "0123456789abcdef"


def catalogue(text: str) -> Catalogue:
    return compile_catalogue(config(text), PEPPER)


def key(text: str, fields: str = "") -> Key:
    compiled = catalogue(f"{text}\nkeys: [{{name: ci, secret: {SECRET}{fields}}}]")
    return compiled.keys[digest(PEPPER, SECRET)]


def test_the_smallest_file_has_the_documented_defaults() -> None:
    compiled = catalogue(f"keys: [{{name: ci, secret: {SECRET}}}]")
    assert compiled.keys == {digest(PEPPER, SECRET): Key(id="ci", name="ci", org="default", plan="default")}
    assert compiled.fallback == Fallback()
    assert compiled.tiers == {
        Tier.PRIORITY: TierTerms(price=1.5, queue_s=10.0),
        Tier.DEFAULT: TierTerms(queue_s=30.0),
        Tier.OVER_LIMIT: TierTerms(headroom=0.85),
        Tier.FLEX: TierTerms(price=0.8, headroom=0.7, queue_s=300.0),
        Tier.NO_LIMIT: TierTerms(queue_s=30.0),
    }
    model = compiled.models["small"]
    assert (model.tiers, model.timeouts, model.capabilities) == (frozenset(Tier), Timeouts(), Capabilities())
    assert not compiled.hide_providers


def test_names_and_aliases_lead_to_the_model_and_its_deployments() -> None:
    text = """
providers:
  p:
    base_url: https://a.example/v1/
    api_key: sk-upstream
    tiers: {over-limit: auto}
    endpoints: [chat, completions]
    headers: {x-team: search}
    quirks: {fail_fast: true, max_tokens_field: max_tokens, text_offset: vllm}
    unknown_fields: drop
models:
  a: {aliases: [vendor/A], deployments: [{provider: p, model: up-a, max_concurrency: 9, weight: 2, order: 2, limits: {rpm: 5}}]}
"""
    compiled = compile_catalogue(read(text).config, PEPPER)
    assert compiled.names == {"a": compiled.models["a"], "vendor/A": compiled.models["a"]}
    (deployment,) = compiled.models["a"].deployments
    assert (deployment.id, deployment.max_concurrency, deployment.weight, deployment.order) == ("a/p/up-a", 9, 2.0, 2)
    assert deployment.limits == Limits(rpm=5)
    provider = deployment.provider
    assert (provider.base_url, provider.api_key.reveal()) == ("https://a.example/v1", "sk-upstream")
    assert (provider.tiers, provider.headers) == ({Tier.OVER_LIMIT: "auto"}, {"x-team": "search"})
    assert provider.endpoints == {Endpoint.CHAT, Endpoint.COMPLETIONS}
    assert not provider.quirks.offset_past_prompt
    assert (provider.quirks.fail_fast, provider.quirks.max_tokens_field, provider.forward_unknown_fields) == (
        True,
        "max_tokens",
        False,
    )


@pytest.mark.parametrize(
    ("written", "keys", "names"),
    [
        ("api_key: sk-1", ["sk-1"], ("p",)),
        ("api_keys: [sk-1]", ["sk-1"], ("p",)),
        ("api_keys: [sk-1, sk-2, sk-3]", ["sk-1", "sk-2", "sk-3"], ("p", "p#2", "p#3")),
        ("ca_file: null", [""], ("p",)),
    ],
)
def test_credentials_have_names_that_say_nothing_of_them(written: str, keys: list[str], names: tuple[str, ...]) -> None:
    text = f"providers: {{p: {{base_url: https://a, {written}}}}}\nmodels: {{a: {{deployments: [{{provider: p, model: m}}]}}}}"
    provider = compile_catalogue(read(text).config, PEPPER).models["a"].deployments[0].provider
    assert [key.reveal() for key in (provider.api_key, *provider.further_keys)] == keys
    assert credentials(provider) == names


@pytest.mark.parametrize(
    ("usd", "nano_usd"),
    [("0.23", 230), ("0.001", 1), ("0", 0), ("15", 15_000), ("2.5", 2500), ("0.29", 290), ("0.0375", Fraction(75, 2))],
)
def test_a_price_is_exact(usd: str, nano_usd: int | Fraction) -> None:
    text = f"""
providers: {{p: {{base_url: https://a}}}}
models: {{a: {{deployments: [{{provider: p, model: m}}], price: {{input: {usd}, output: {usd}}}}}}}
"""
    price = compile_catalogue(read(text).config, PEPPER).models["a"].price
    assert price is not None
    assert (price.input, price.output, price.cached_input) == (nano_usd, nano_usd, None)


def test_a_model_without_a_price_costs_nothing_known() -> None:
    text = "providers: {p: {base_url: https://a}}\nmodels: {a: {deployments: [{provider: p, model: m}]}}"
    assert compile_catalogue(read(text).config, PEPPER).models["a"].price is None


def test_a_model_has_the_strategy_that_the_file_says() -> None:
    text = "providers: {p: {base_url: https://a}}\nmodels: {%s}"
    for word in Strategy:
        models = f"a: {{deployments: [{{provider: p, model: m}}], strategy: {word}}}"
        assert compile_catalogue(read(text % models).config, PEPPER).models["a"].strategy is word
    assert catalogue("").models["small"].strategy is Strategy.WEIGHTED


def test_a_model_offers_what_has_a_price_unless_it_says_less() -> None:
    text = "tiers: {default: {}, flex: {price: 0.5}}"
    compiled = catalogue(text)
    assert compiled.models["small"].tiers == {Tier.DEFAULT, Tier.FLEX}
    assert compiled.tiers[Tier.FLEX] == TierTerms(price=0.5, headroom=0.7, queue_s=300.0)


PLAN = """
plans:
  pro:
    limits: {rpm: 600, tpm: 4000, burst_ratio: 2.0, per_model: {small: {rpm: 30, tpm: 900}}, concurrency_per_model: 7}
    tiers: [priority, default, flex]
    default_tier: priority
    flex: {rpm: 60, concurrency: 8}
    over_limit: {rpm: 5}
    models: ["small*"]
    on_unsupported_tier: reject
    max_n: 2
orgs:
  acme: {plan: pro, limits: {tpm: 9000, per_model: {small: {rpm: 8}}}, projects: {search: {tier: priority}, support: {}}}
"""


@pytest.mark.parametrize(("own", "seconds"), [("", 10.0), (", keepalive: 500ms", 0.5), (", keepalive: off", None)])
def test_comments_are_the_plans_word_or_the_keys(own: str, seconds: float | None) -> None:
    assert key("plans: {pro: {keepalive: 10s}}", f", plan: pro{own}").keepalive_s == seconds


def test_a_key_has_its_plan_or_its_orgs() -> None:
    for found in (key(PLAN, ", plan: pro"), key(PLAN, ", org: acme")):
        assert found.plan == "pro"
        assert found.limits == Limits(rpm=600, tpm=4000, burst_ratio=2.0)
        assert found.per_model == {"small": Limits(rpm=30, tpm=900)}
        assert (found.concurrency_per_model, found.max_n, found.max_prompts) == (7, 2, 32)
        assert (set(found.tiers), found.default_tier) == ({Tier.PRIORITY, Tier.DEFAULT, Tier.FLEX}, "priority")
        assert (found.flex, found.over_limit) == (Guards(rpm=60, concurrency=8), Guards(rpm=5))
        assert (found.models, found.providers, found.reject_unsupported_tier) == (("small*",), ("*",), True)


def test_a_key_says_otherwise_field_by_field() -> None:
    own = ", plan: pro, limits: {rpm: 10, strict: true, per_model: {small: {rpm: 3}}}, flex: {rpm: 6}, over_limit: false"
    found = key(
        PLAN, own + ", tiers: [default], models: ['*'], default_tier: auto, on_unsupported_tier: downgrade, auto: project"
    )
    assert found.limits == Limits(rpm=10, tpm=4000, burst_ratio=2.0, strict=True)
    assert found.per_model == {"small": Limits(rpm=3, tpm=900)}
    assert (found.flex, found.over_limit, set(found.tiers)) == (Guards(rpm=6, concurrency=8), None, {Tier.DEFAULT})
    assert (found.models, found.default_tier, found.reject_unsupported_tier, found.auto) == (("*",), "auto", False, "project")


def test_a_keys_limits_grow_as_its_plan_says_or_it_says_itself() -> None:
    plan = "plans: {pro: {limits: {rpm: 60, dynamic: {window: 10m, ceiling: 2.5}, per_model: {small: {rpm: 30}}}}}"
    found = key(plan, ", plan: pro")
    assert found.limits == Limits(rpm=60, dynamic=Dynamic(window_ms=600_000, ceiling_milli=2_500))
    assert found.per_model == {"small": Limits(rpm=30)}
    own = key(plan, ", plan: pro, limits: {dynamic: {}}").limits
    assert own == Limits(rpm=60, dynamic=Dynamic(window_ms=900_000, ceiling_milli=20_000))


def test_a_key_knows_its_orgs_projects() -> None:
    found = key(
        PLAN,
        ", org: acme, projects: [search], default_project: search, ips: [10.0.0.0/8], expires: 2020-01-01, allow_no_limit: true",
    )
    assert (found.project, found.projects) == ("search", frozenset({"search"}))
    assert found.project_tiers == {"search": Tier.PRIORITY, "support": Tier.DEFAULT}
    assert (found.ips, found.expires_at_s, found.allow_no_limit) == (("10.0.0.0/8",), 1_577_836_800.0, True)
    assert key(PLAN, ", org: acme").projects is None


def test_limits_of_an_org_are_its_own() -> None:
    org = catalogue(PLAN).orgs["acme"]
    assert (org.limits, org.per_model) == (Limits(tpm=9000), {"small": Limits(rpm=8)})


def test_a_key_by_digest_is_found_by_its_secret() -> None:
    known = format_digest(digest(PEPPER, SECRET))
    assert catalogue(f"keys: [{{name: ci, digest: '{known}'}}]").keys.keys() == {digest(PEPPER, SECRET)}


def test_the_walk_and_the_privacy_of_providers_are_taken_over() -> None:
    fallback = "fallback: {on: [capacity], max_models: 2, max_attempts: 3, retry_budget: 0.2}"
    compiled = catalogue(f"{fallback}\napi: {{hide_providers: true}}")
    assert compiled.fallback == Fallback(on=frozenset({"capacity"}), max_models=2, max_attempts=3, retry_budget=0.2)
    assert compiled.hide_providers


def test_who_hears_of_traces() -> None:
    assert not catalogue("").models["small"].deployments[0].provider.propagates
    assert catalogue("telemetry: {propagate: [local]}").models["small"].deployments[0].provider.propagates


SHADOWS = """
plans:
  tried: {limits: {rpm: 5, shadow: true, per_model: {small: {rpm: 2}}}}
  half: {limits: {rpm: 5, shadow: true, per_model: {small: {rpm: 2, shadow: false}}}}
orgs: {acme: {plan: tried, limits: {shadow: true, per_model: {small: {rpm: 8}}}, projects: {s: {limits: {tpm: 9, shadow: true}}}}}
"""


def test_limits_are_shadows_where_they_or_the_limits_around_them_say_so() -> None:
    found = key(SHADOWS, ", org: acme")
    assert (found.limits.shadow, found.per_model["small"].shadow, found.project_limits["s"].shadow) == (True, True, True)
    org = catalogue(SHADOWS).orgs["acme"]
    assert (org.limits.shadow, org.per_model["small"].shadow) == (True, True)
    assert not key(SHADOWS, ", plan: half").per_model["small"].shadow
    held = key(SHADOWS, ", org: acme, limits: {shadow: false}")
    assert (held.limits.rpm, held.limits.shadow, held.per_model["small"].shadow) == (5, False, False)


def test_limits_of_a_model_may_be_shadows_and_those_of_a_deployment_never() -> None:
    assert not catalogue("").models["small"].limits.shadow
    deployment = "{provider: local, model: l, limits: {rpm: 1}}"
    large = f"large: {{deployments: [{deployment}], limits: {{rpm: 1, shadow: true}}}}"
    parsed = read(f"providers: {{local: {{base_url: https://p.test/v1}}}}\nmodels: {{{large}}}")
    assert not parsed.problems
    found = compile_catalogue(parsed.config, PEPPER).models["large"]
    assert (found.limits.shadow, found.deployments[0].limits.shadow) == (True, False)
