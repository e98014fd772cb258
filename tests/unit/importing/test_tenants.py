"""Rows of LiteLLM's tables as orgs, projects and keys: what has a bound that cannot be kept is nobody's."""

from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.importing import scopes as tables
from gateway.importing.budgets import budget
from gateway.importing.findings import Findings
from gateway.importing.tenants import bring
from gateway.importing.translation import Names
from gateway.stores.brought import Brought

NOW_UNIX_MS = 1_796_000_000_000
"""A Sunday in November 2026."""

NAMES = Names(
    models=("a", "b", "c"),
    aliases={"old-a": "a"},
    groups={"good": frozenset({"a", "b"})},
    priced=frozenset({"a", "b"}),
)
SPENDING = {"max_budget": 10.0, "budget_duration": "30d"}


EVERYBODYS = budget(Decimal(100), "7d")


def key(**columns: Any) -> dict[str, Any]:
    return {"token": "ab" * 32, "key_alias": "k", "models": [], **columns}


def brought(*keys: dict[str, Any], names: Names = NAMES, **rows: Any) -> tuple[Brought, Findings]:
    findings = Findings()
    found = bring(
        {tables.KEYS: keys, **{getattr(tables, name): held for name, held in rows.items()}}, names, findings, NOW_UNIX_MS
    )
    return found, findings


def refused(*keys: dict[str, Any], names: Names = NAMES, **rows: Any) -> str:
    found, findings = brought(*keys, names=names, **rows)
    assert found.keys == []
    return next(finding.note for finding in findings.all() if finding.where == f"{tables.KEYS}.k")


@pytest.mark.parametrize(
    ("models", "allowed"),
    [
        ([], None),
        (["*"], None),
        (["all-proxy-models"], None),
        (["all-team-models"], []),
        (["no-default-models"], []),
        (["a"], ["a"]),
        (["old-a"], ["a"]),
        (["good"], ["a", "b"]),
        (["good", "c"], ["a", "b", "c"]),
        (["nobody"], []),
        (["[ab]*"], []),
        (["b*"], ["b"]),
    ],
)
def test_a_list_of_models_means_what_it_meant(models: list[str], allowed: list[str] | None) -> None:
    [found] = brought(key(models=models))[0].keys
    assert found.definition.get("models") == allowed


@pytest.mark.parametrize(
    "columns",
    [
        {"rpm_limit": 0},
        {"tpm_limit": -5},
        {"max_parallel_requests": "x"},
        {"max_budget": "much"},
        {"metadata": "text"},
        {"metadata": {"guardrails": ["x"]}},
        {"metadata": {"enforced_params": ["user"]}},
        {"metadata": {"tags": ["costly"]}},
        {"policies": ["p"]},
        {"config": {"x": 1}},
        {"agent_id": "agent"},
        {"budget_id": "nowhere"},
        {"budget_limits": {"1d": 5}},
        {"budget_limits": [{"budget_duration": "1d"}]},
        {"object_permission_id": "nowhere"},
        {"team_id": "nowhere"},
        {"project_id": "nowhere"},
        {"allowed_routes": ["/v1/chat/completions"]},
        {"allowed_routes": ["management_routes"]},
        {"key_type": "read_only"},
        {"expires": "soon"},
        {"token": "sk-in-clear"},
        {"team_id": "litellm-dashboard"},
        {"model_rpm_limit": {"a": 0}},
    ],
    ids=lambda columns: f"{next(iter(columns))}",
)
def test_a_key_with_a_bound_that_is_not_known_is_refused(columns: dict[str, Any]) -> None:
    assert refused(key(**columns), TAGS=[{"tag_name": "costly", "budget_id": "b"}])


ORGANIZATION = {"organization_id": "o", "organization_alias": "org", "models": []}
TEAM = {"team_id": "t", "team_alias": "team", "models": [], "organization_id": "o"}
PROJECT = {"project_id": "p", "project_alias": "project", "team_id": "t", "models": []}
USER = {"user_id": "u", "user_alias": "user", "models": []}
MEMBER = {"user_id": "u", "team_id": "t", "budget_id": "b"}
BUDGET = {"budget_id": "b", **SPENDING}


def test_an_inner_scope_is_a_project_in_the_outer_one() -> None:
    rows: dict[str, Any] = {
        "ORGANIZATIONS": [{**ORGANIZATION, "budget_id": "b"}],
        "BUDGETS": [BUDGET],
        "TEAMS": [{**TEAM, **SPENDING}],
    }
    found, _ = brought(key(team_id="t"), **rows)
    assert found.orgs == {"org": {"budget": {"usd": 10, "period": "month"}}}
    assert found.projects == {("org", "team"): {"budget": {"usd": 10, "period": "month"}}}
    assert (found.keys[0].org, found.keys[0].definition["default_project"]) == ("org", "team")


def test_one_scope_that_counts_is_the_org() -> None:
    found, _ = brought(key(team_id="t"), ORGANIZATIONS=[ORGANIZATION], TEAMS=[{**TEAM, "rpm_limit": 5}])
    assert (found.orgs, found.projects) == ({"team": {"limits": {"rpm": 5}}}, {})


def test_scopes_that_count_nothing_tell_whose_a_key_is() -> None:
    found, _ = brought(key(team_id="t"), ORGANIZATIONS=[ORGANIZATION], TEAMS=[TEAM])
    assert (found.orgs, found.keys[0].org) == ({"org": {}}, "org")


def test_three_scopes_that_count_are_too_many() -> None:
    rows: dict[str, Any] = {
        "ORGANIZATIONS": [{**ORGANIZATION, "budget_id": "b"}],
        "BUDGETS": [BUDGET],
        "TEAMS": [{**TEAM, **SPENDING}],
        "MEMBERS": [MEMBER],
    }
    assert "more than two" in refused(key(team_id="t", user_id="u"), **rows)


def test_scopes_that_reach_beyond_each_other_are_not_nested() -> None:
    team = {"team_id": "t", "models": []}
    rows: dict[str, Any] = {
        "BUDGETS": [BUDGET],
        "TEAMS": [team],
        "MEMBERS": [MEMBER],
        "PROJECTS": [{**PROJECT, "budget_id": "b"}],
    }
    assert "neither lies inside" in refused(key(team_id="t", user_id="u", project_id="p"), **rows)
    rows = {"BUDGETS": [BUDGET], "ORGANIZATIONS": [{**ORGANIZATION, "budget_id": "b"}], "USERS": [{**USER, **SPENDING}]}
    assert "neither lies inside" in refused(key(user_id="u", organization_id="o"), **rows)


def test_what_does_not_belong_together_is_refused() -> None:
    assert "together" in refused(key(team_id="t", organization_id="other"), ORGANIZATIONS=[ORGANIZATION], TEAMS=[TEAM])
    assert "together" in refused(key(project_id="p"), PROJECTS=[PROJECT], TEAMS=[TEAM], ORGANIZATIONS=[ORGANIZATION])


def test_a_team_may_have_a_budget_for_each_member() -> None:
    team = {"team_id": "t", "models": [], "metadata": {"team_member_budget_id": "b"}}
    found, _ = brought(key(team_id="t", user_id="u"), TEAMS=[team], BUDGETS=[BUDGET])
    assert found.orgs == {"t-u": {"budget": {"usd": 10, "period": "month"}}}


def test_a_budget_of_everybodys_leaves_room_for_one_scope_more() -> None:
    names = Names(models=("a", "c"), aliases={}, groups={}, priced=frozenset({"a"}), everybodys=EVERYBODYS)
    spent = [{"user_id": "litellm-proxy-budget", "spend": 7.5}]
    found, _ = brought(key(team_id="t"), names=names, TEAMS=[{"team_id": "t", "models": [], **SPENDING}], USERS=spent)
    assert found.orgs == {}
    assert [(each.scope, each.nano_usd) for each in found.balances.values()] == [("ob:week:default", 7_500_000_000)]
    assert found.projects == {("default", "t"): {"budget": {"usd": 10, "period": "month"}}}
    assert found.keys[0].definition["models"] == ["a"]
    rows: dict[str, Any] = {
        "ORGANIZATIONS": [{**ORGANIZATION, "budget_id": "b"}],
        "BUDGETS": [BUDGET],
        "TEAMS": [{**TEAM, **SPENDING}],
    }
    assert "the file's own among them" in refused(key(team_id="t"), names=names, **rows)


def test_a_budget_of_everybodys_for_ever_ends_every_key() -> None:
    names = Names(models=("a",), aliases={}, groups={}, priced=frozenset({"a"}), everybodys=budget(Decimal(100), None))
    [found] = brought(key(), names=names)[0].keys
    assert (found.expires_unix_ms, found.is_ending) == (1_796_083_200_000, True)


def test_names_that_are_none_here_or_twice_get_the_ids_hash_behind_them() -> None:
    teams: list[Any] = [
        {"team_id": each, "team_alias": alias, "models": []}
        for each, alias in (("1", "same"), ("2", "same"), ("3", "a b"), ("4", "default"))
    ]
    keys = [key(token=f"{n}" * 64, key_alias=f"k{n}", team_id=str(n)) for n in range(1, 5)]
    found, _ = brought(*keys, TEAMS=teams)
    assert [name.partition("-")[0] for name in found.orgs] == ["same", "same", "a", "default"]
    assert len({*found.orgs, "default"}) == 5


def test_keys_of_one_name_are_told_apart() -> None:
    found, _ = brought(key(), key(token="cd" * 32))
    assert [each.name for each in found.keys] == ["k", f"k-{found.keys[1].id}"]


def test_a_group_with_a_budget_is_nobodys() -> None:
    found, findings = brought(key(), GROUP_BUDGETS=[{"access_group_name": "good", "budget_id": "b"}])
    assert found.keys[0].definition["models"] == ["c"]
    assert any(finding.where == f"{tables.GROUP_BUDGETS}.good" for finding in findings.all())


def test_what_is_not_taken_along_is_told() -> None:
    _, findings = brought(key(), END_USERS=[{"user_id": "e", "blocked": True}], MODELS=[{"model_id": "m"}])
    told = {finding.where: finding.kind for finding in findings.all()}
    assert (told[tables.END_USERS], told[tables.MODELS]) == ("ignored", "ignored")


def test_addresses_that_the_proxy_is_open_to_hold_for_each_key() -> None:
    names = Names(models=("a",), aliases={}, groups={}, priced=frozenset(), ips=("10.0.0.0/8",))
    assert brought(key(), names=names)[0].keys[0].definition["ips"] == ["10.0.0.0/8"]


JSON_COLUMNS = ("metadata", "aliases", "config", "model_max_budget", "budget_limits", "model_rpm_limit", "router_settings")
JUNK = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(["a", "tags", "model_rpm_limit", "x"]), inner, max_size=3)
    ),
    max_leaves=6,
)


@given(
    columns=st.dictionaries(st.sampled_from(JSON_COLUMNS), JUNK, max_size=3),
    of_team=st.dictionaries(st.sampled_from(JSON_COLUMNS), JUNK, max_size=2),
)
def test_a_column_of_junk_frees_nobody(columns: dict[str, Any], of_team: dict[str, Any]) -> None:
    team = {"team_id": "t", "models": ["a"], **of_team}
    found, _ = brought(key(team_id="t", models=["a", "b"], **columns), TEAMS=[team])
    assert all(set(each.definition["models"]) <= {"a"} for each in found.keys)


LISTS = st.lists(st.sampled_from(["a", "b", "c", "good", "old-a", "*", "nobody", "all-team-models"]), max_size=3)


@given(of_key=LISTS, of_team=LISTS, of_organization=LISTS, dear=st.booleans())
def test_a_key_may_no_more_than_each_of_those_above_it(
    of_key: list[str], of_team: list[str], of_organization: list[str], dear: bool
) -> None:
    above: dict[str, Any] = {
        "ORGANIZATIONS": [{**ORGANIZATION, "models": of_organization}],
        "TEAMS": [{**TEAM, "models": of_team}],
    }
    money = SPENDING if dear else {}
    [found] = brought(key(models=of_key, team_id="t", **money), **above)[0].keys
    may = set(found.definition.get("models", NAMES.models))
    for listed in (of_key, of_team, of_organization):
        if "all-team-models" not in listed:
            [alone] = brought(key(models=listed))[0].keys
            assert may <= set(alone.definition.get("models", NAMES.models))
    assert not dear or may <= NAMES.priced
