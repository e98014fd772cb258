"""What the gallery of bad files does not show: what is right, and what is only remarked on."""

from gateway.config.check import check
from tests.unit.config.reading import findings, lines, read


def test_the_built_in_org_and_plan_need_no_entry() -> None:
    assert findings("keys: [{name: a, secret: 0123456789abcdef, org: default, plan: default}]").errors == []


def test_a_key_may_name_any_project_of_its_org() -> None:
    text = "orgs: {acme: {projects: {a: {}, b: {}}}}\nkeys: [{name: k, org: acme, secret: 0123456789abcdef, default_project: b}]"
    assert findings(text).errors == []


def test_one_broken_entry_does_not_make_its_users_wrong() -> None:
    text = """
providers: {local: {base_url: [1]}}
models: {m: {deployments: [{provider: local, model: s}], fallbacks: [n]}, n: {deployments: 1}}
"""
    assert lines(check(read(text)).errors) == [
        "providers.local.base_url: expected text, got a list",
        "models.n.deployments: expected a list, got '1'",
    ]


def test_a_long_chain_of_fallbacks_and_a_shared_end_are_no_circle() -> None:
    model = "deployments: [{provider: p, model: m}]"
    text = f"""
providers: {{p: {{base_url: https://a.example}}}}
models:
  a: {{{model}, fallbacks: [b, c]}}
  b: {{{model}, fallbacks: [c]}}
  c: {{{model}}}
"""
    assert check(read(text)).errors == []


def test_a_model_that_falls_back_to_itself_is_a_circle() -> None:
    text = "providers: {p: {base_url: https://a}}\nmodels: {a: {deployments: [{provider: p, model: m}], fallbacks: [a]}}"
    assert lines(check(read(text)).errors) == ["models.a.fallbacks: fallbacks go in a circle: a -> a"]


def test_every_list_of_tiers_is_looked_at() -> None:
    text = """
tiers: {default: {}, priority: {}}
plans: {p: {tiers: [default, flex]}}
keys: [{name: k, secret: 0123456789abcdef, tiers: [no-limit]}]
"""
    assert [line.split(":")[0] for line in lines(findings(text).errors)] == ["plans.p.tiers[1]", "keys[0].tiers[0]"]
    text = "providers: {p: {base_url: https://a}}\nmodels: {a: {deployments: [{provider: p, model: m}], tiers: [flex]}}"
    assert lines(check(read(text)).errors) == ["models.a.tiers: must hold 'default': every downgrade ends at this tier"]


def test_default_itself_needs_a_price() -> None:
    assert lines(findings("tiers: {flex: {}}").errors) == ["tiers.default: has no price: every downgrade ends at this tier"]


def test_patterns_and_providers_of_no_use_are_remarked_on() -> None:
    text = """
plans: {p: {models: ["*", "sma*", smal], providers: [locl]}}
keys: [{name: k, secret: 0123456789abcdef, plan: p, models: [tiny]}]
"""
    assert lines(findings(text).warnings) == [
        "plans.p.models[2]: 'smal' fits no name (did you mean 'small'?)",
        "plans.p.providers[0]: 'locl' fits no name (did you mean 'local'?)",
        "keys[0].models[0]: 'tiny' fits no name",
    ]
    text = (
        "providers: {p: {base_url: https://a}, q: {base_url: https://b}}\nmodels: {a: {deployments: [{provider: p, model: m}]}}"
    )
    assert "providers.q: no model uses this provider" in lines(check(read(text)).warnings)


def test_a_trace_is_passed_on_to_known_providers() -> None:
    assert findings("telemetry: {propagate: [local]}").errors == []
    assert lines(findings("telemetry: {propagate: [locl]}").errors) == [
        "telemetry.propagate[0]: unknown provider 'locl' (did you mean 'local'?)"
    ]
