"""Definitions of the database beside a file: they mean what the file would mean by the same words, and no more."""

from typing import Any

import msgspec
import pytest

from gateway.config.compile import compile_catalogue
from gateway.config.tenants import Definitions
from gateway.errors import InvalidValue
from gateway.policy.catalogue import Key, Tier
from gateway.policy.credentials import digest
from gateway.policy.tenancy import Found, KeyRecord, Tenants
from tests.unit.config.reading import config

FILE = """
plans: {pro: {limits: {rpm: 600, per_model: {small: {rpm: 60}}}, tiers: [priority, default], over_limit: {rpm: 10}}}
orgs: {acme: {plan: pro, limits: {tpm: 1000}, budget: {usd: 5}, projects: {search: {tier: priority}}}}
"""
DEFINITIONS = Definitions(config(FILE))
PEPPER, SECRET = b"pepper-of-this-test", "0123456789abcdef"


def found(definition: Any = None, tenants: Tenants | None = None, **fields: Any) -> Found:
    text = definition if isinstance(definition, str) else msgspec.json.encode(definition or {}).decode()
    record = KeyRecord(
        **{"id": "k", "name": "ci", "org": "acme", "plan": None, "created_unix_ms": 0, "updated_unix_ms": 0, **fields},
        definition=text,
    )
    return Found(key=record, tenants=tenants or Tenants())


def of_file(fields: str, text: str = FILE) -> Key:
    whole = f"{text}\nkeys: [{{name: ci, org: acme, secret: {SECRET}{fields}}}]"
    return compile_catalogue(config(whole), PEPPER).keys[digest(PEPPER, SECRET)]


SAME = [
    ("", {}),
    (", limits: {rpm: 5, per_model: {small: {tpm: 3}}}", {"limits": {"rpm": 5, "per_model": {"small": {"tpm": 3}}}}),
    (", tiers: [flex], allow_no_limit: true", {"tiers": ["flex"], "allow_no_limit": True}),
    (", ips: [10.0.0.0/8], models: [s*], max_n: 2", {"ips": ["10.0.0.0/8"], "models": ["s*"], "max_n": 2}),
    (", projects: [search], default_project: search", {"projects": ["search"], "default_project": "search"}),
    (", budget: {usd: 0.5, period: day}, keepalive: 10s", {"budget": {"usd": 0.5, "period": "day"}, "keepalive": "10s"}),
]  # fmt: skip


@pytest.mark.parametrize(("written", "definition"), SAME)
def test_a_definition_means_what_the_file_would(written: str, definition: dict[str, Any]) -> None:
    minted = DEFINITIONS.key(found(definition))
    assert minted == msgspec.structs.replace(of_file(written), id="k")
    DEFINITIONS.check(Tenants(), found(definition))


def test_a_key_may_stand_under_what_the_database_has() -> None:
    tenants = Tenants(
        plans={"small": '{"limits": {"rpm": 7}, "tiers": ["flex"]}'},
        orgs={"beta": '{"plan": "small", "limits": {"rpm": 9}, "budget": {"usd": 3}}'},
        projects={"beta": {"lab": '{"tier": "flex", "budget": {"usd": 1}}'}},
    )
    key = DEFINITIONS.key(found({"default_project": "lab"}, tenants, org="beta"))
    assert (key.plan, key.limits.rpm, key.tiers) == ("small", 7, frozenset({Tier.FLEX}))
    assert (key.project, key.project_tiers["lab"], key.project_budgets["lab"].nano_usd) == ("lab", Tier.FLEX, 10**9)
    assert key.shares is not None
    assert (key.shares.name, key.shares.limits.rpm, key.shares.budget and key.shares.budget.nano_usd) == ("beta", 9, 3 * 10**9)
    DEFINITIONS.check(tenants, found({"default_project": "lab"}, tenants, org="beta"))


def test_the_database_may_add_projects_to_an_org_of_the_file() -> None:
    tenants = Tenants(projects={"acme": {"lab": '{"tier": "flex"}'}})
    key = DEFINITIONS.key(found(tenants=tenants))
    assert key.project_tiers == {"search": Tier.PRIORITY, "lab": Tier.FLEX}
    assert (key.shares, key.plan) == (None, "pro"), "the org is the file's"


@pytest.mark.parametrize(
    ("tenants", "clashes"),
    [
        (Tenants(plans={"pro": "{}", "new": "{}"}), ("plans.pro",)),
        (Tenants(orgs={"acme": "{}", "beta": "{}"}), ("orgs.acme",)),
        (Tenants(projects={"acme": {"search": "{}", "lab": "{}"}, "beta": {"search": "{}"}}), ("orgs.acme.projects.search",)),
        (Tenants(), ()),
    ],
)
def test_a_name_of_the_files_is_not_to_be_had(tenants: Tenants, clashes: tuple[str, ...]) -> None:
    assert DEFINITIONS.clashes(tenants) == clashes


BAD: list[tuple[Found, str]] = [
    (found({"limit": {}}), r"unknown field 'limit' \(did you mean 'limits'\?\)"),
    (found({"limits": {"rpm": 0}}), r"keys\[0\].limits.rpm: must be at least 1"),
    (found({"limits": {"rpm": "10"}}), "expected a whole number"),
    (found({"tiers": ["fast"]}), "expected one of default"),
    (found({"ips": ["10.0.0.1/8"]}), "expected an address or a network"),
    (found({"projects": ["lab"]}), "org 'acme' has no project 'lab'"),
    (found({"limits": {"per_model": {"big": {"rpm": 1}}}}), "unknown model 'big'"),
    (found({"over_limit": True}), "true sets no bounds"),
    (found({"budget": {"period": "day"}}), "says no amount"),
    (found({"secret": SECRET}), "secret: has no place in a definition"),
    (found({"digest": "x", "org": "beta"}), "digest, org: has no place"),
    (found({"keepalive": "${HOME}"}), "HOME"),
    (found({"keepalive": "${file:/etc/hostname}"}), "cannot be read"),
    (found("[1]"), "must be a JSON object"),
    (found("{"), "must be a JSON object"),
    (found(plan="gold"), "unknown plan 'gold'"),
    (found(org="beta"), "unknown org 'beta'"),
    (found(name="a:b"), "expected a name"),
]


@pytest.mark.parametrize(("wrong", "said"), BAD)
def test_what_cannot_work_is_refused_with_the_files_words(wrong: Found, said: str) -> None:
    with pytest.raises(InvalidValue, match=said) as raised:
        DEFINITIONS.check(wrong.tenants, wrong)
    assert SECRET not in raised.value.message


def test_all_that_is_wrong_is_said_at_once() -> None:
    with pytest.raises(InvalidValue) as raised:
        DEFINITIONS.check(Tenants(), found({"limits": {"rpm": 0}, "max_n": 0, "tires": []}))
    assert len(raised.value.message.splitlines()) == 3


@pytest.mark.parametrize(
    ("tenants", "said"),
    [
        (Tenants(plans={"new": '{"limits": {"rpd": 0}}'}), "plans.new.limits.rpd"),
        (Tenants(orgs={"beta": '{"plan": "gold"}'}), "unknown plan 'gold'"),
        (Tenants(projects={"acme": {"lab": '{"tier": "fast"}'}}), "orgs.acme.projects.lab.tier"),
        (Tenants(projects={"nobody": {"lab": "{}"}}), "unknown org 'nobody'"),
    ],
)
def test_orgs_plans_and_projects_are_checked_alike(tenants: Tenants, said: str) -> None:
    with pytest.raises(InvalidValue, match=said):
        DEFINITIONS.check(tenants)


@pytest.mark.parametrize(
    "tenants", [Tenants(plans={"new": '{"budget": {"usd": 1}}'}), Tenants(orgs={"beta": '{"budget": {"usd": 1}}'})]
)
def test_no_budget_reaches_a_model_without_a_price(tenants: Tenants) -> None:
    whole = config(FILE.replace("budget: {usd: 5}, ", ""))
    without_price = {"small": msgspec.structs.replace(whole.models["small"], price=None)}
    unpriced = Definitions(msgspec.structs.replace(whole, models=without_price))
    with pytest.raises(InvalidValue, match=r"models.small.price: is missing, and key 'any' may use this model under a budget"):
        unpriced.check(tenants)
    DEFINITIONS.check(tenants)


@pytest.mark.parametrize(
    ("damaged", "said"),
    [
        (found("{"), "no JSON object"),
        (found({"limits": {"rpm": "many"}}), "cannot be read"),
        (found({"tires": []}), "cannot be read"),
        (found(plan="gold"), "the plan 'gold' of the key k is nowhere"),
        (found(org="beta"), "the org 'beta' of the key k is nowhere"),
    ],
)
def test_a_damaged_key_means_nothing_rather_than_more(damaged: Found, said: str) -> None:
    with pytest.raises(ValueError, match=said):
        DEFINITIONS.key(damaged)


@pytest.mark.parametrize("sign", ["\x7f", "\x80", "\x9f", "\ufffe"])
def test_what_no_file_can_hold_is_refused_and_never_a_fault(sign: str) -> None:
    text = msgspec.json.encode({"models": [f"a{sign}b"]}).decode()
    with pytest.raises(InvalidValue):
        DEFINITIONS.check(Tenants(plans={"p": text}))
