"""Orgs, plans and projects of the database, on SQLite and on Postgres."""

from collections.abc import AsyncIterator

import pytest

from gateway.errors import Conflict, InvalidValue, NotFound, Outdated
from gateway.policy.credentials import digest, plain_digest
from gateway.stores.database import Reader
from gateway.stores.keys import KeyShelf
from gateway.stores.minted import Draft
from gateway.stores.tenancy import ANY_KEY, declared
from gateway.stores.terms import Term
from tests.integration.stores.tenants import PEPPER, World, world_of

BETA = Term(kind="org", name="beta")
SMALL = Term(kind="plan", name="small")
LAB = Term(kind="project", name="lab", org="acme")


@pytest.fixture
async def world(url: str) -> AsyncIterator[World]:
    async with world_of(url) as found:
        yield found


async def test_what_is_put_is_what_keys_stand_under(world: World, url: str) -> None:
    await world.terms.put("admin:ann", SMALL, {"limits": {"rpm": 5}})
    await world.terms.put("admin:ann", BETA, {"plan": "small"})
    await world.terms.put("admin:ann", Term(kind="project", name="lab", org="beta"), {"tier": "flex"})
    await world.terms.put("admin:ann", LAB, {})
    made = await world.keys.create("admin:ann", Draft(name="ci", org="beta", definition={"default_project": "lab"}))
    assert made.secret is not None
    reader = Reader(url)
    shelf = KeyShelf(reader, url)
    found = await shelf.find((digest(PEPPER, made.secret), plain_digest(made.secret)))
    await shelf.close()
    await reader.close()
    assert found is not None
    assert (found.tenants.plans, found.tenants.orgs) == ({"small": '{"limits":{"rpm":5}}'}, {"beta": '{"plan":"small"}'})
    assert found.tenants.projects == {"beta": {"lab": '{"tier":"flex"}'}}
    assert world.crier.told[:4] == [((ANY_KEY,), False)] * 4
    assert [act for _, act, _ in await world.acts()] == ["plan.put", "org.put", "project.put", "project.put", "key.create"]
    everything = await declared(world.registry.tenancy.fetch)
    assert (set(everything.plans), set(everything.orgs)) == ({"small"}, {"beta"})
    assert {org: set(names) for org, names in everything.projects.items()} == {"beta": {"lab"}, "acme": {"lab"}}


async def test_who_changes_what_another_has_changed_since_is_told(world: World) -> None:
    await world.terms.put("admin:ann", SMALL, {}, 0)
    with pytest.raises(Outdated):
        await world.terms.put("admin:bob", SMALL, {"max_n": 1}, 0)
    seen = (await world.terms.one(SMALL)).updated_unix_ms
    await world.terms.put("admin:bob", SMALL, {"max_n": 2}, seen)
    for change in (world.terms.put("admin:ann", SMALL, {}, seen), world.terms.delete("admin:ann", SMALL, seen)):
        with pytest.raises(Outdated):
            await change
    assert (await world.terms.one(SMALL)).definition == {"max_n": 2}
    assert len(await world.acts()) == 2


@pytest.mark.parametrize(
    ("term", "definition", "said"),
    [
        (SMALL, {"limits": {"rpm": 0}}, "must be at least 1"),
        (BETA, {"plan": "gold"}, "unknown plan"),
        (BETA, {"projects": {"x": {"tier": "fast"}}}, "expected one of"),
        (Term(kind="project", name="lab", org="nobody"), {}, "unknown org"),
        (Term(kind="plan", name="a:b"), {}, "expected a name"),
    ],
)
async def test_what_cannot_work_is_not_put(term: Term, definition: dict[str, object], said: str, world: World) -> None:
    with pytest.raises(InvalidValue, match=said):
        await world.terms.put("admin:ann", term, definition)
    assert (await world.terms.many(term.kind), await world.acts(), world.crier.told) == ([], [], [])


@pytest.mark.parametrize(
    "term", [Term(kind="plan", name="pro"), Term(kind="org", name="acme"), Term(kind="project", name="search", org="acme")]
)
async def test_the_files_own_is_changed_in_the_file(term: Term, world: World) -> None:
    with pytest.raises(Conflict, match="declared in the configuration file"):
        await world.terms.put("admin:ann", term, {})
    with pytest.raises(NotFound):
        await world.terms.delete("admin:ann", term)


async def test_what_keys_stand_under_cannot_be_taken_away(world: World) -> None:
    await world.terms.put("admin:ann", SMALL, {})
    await world.terms.put("admin:ann", BETA, {"plan": "small"})
    await world.terms.put("admin:ann", LAB, {})
    of_beta = await world.keys.create("admin:ann", Draft(name="ci", org="beta"))
    of_lab = await world.keys.create("admin:ann", Draft(name="ci", org="acme", definition={"projects": ["lab"]}))
    for term, needed_by in ((SMALL, "org:beta"), (BETA, of_beta.key.id), (LAB, of_lab.key.id)):
        with pytest.raises(Conflict, match=needed_by):
            await world.terms.delete("admin:ann", term)
    for key in (of_beta, of_lab):
        await world.keys.revoke("admin:ann", key.key.id)
    for term in (LAB, BETA, SMALL):
        await world.terms.delete("admin:ann", term)
        with pytest.raises(NotFound):
            await world.terms.one(term)
    assert [act for _, act, _ in await world.acts()][-3:] == ["project.delete", "org.delete", "plan.delete"]


async def test_they_are_listed_in_the_order_of_their_names(world: World) -> None:
    for name in ("b", "a"):
        await world.terms.put("admin:ann", Term(kind="org", name=name), {})
        await world.terms.put("admin:ann", Term(kind="project", name="p", org=name), {})
    assert [each.name for each in await world.terms.many("org")] == ["a", "b"]
    assert [each.org for each in await world.terms.many("project")] == ["a", "b"]
    assert [each.org for each in await world.terms.many("project", org="b")] == ["b"]
