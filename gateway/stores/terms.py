"""Orgs, plans and projects of the database. A definition is what the file would say of the same thing, as JSON.

Names of the file's are not to be had, and what keys stand under cannot be taken away from them. Unix milliseconds.
"""

from collections.abc import Mapping, Sequence
from typing import Any, Literal

import msgspec
from sqlalchemy import Select, Table, delete, insert, select, update

from gateway.errors import Conflict, NotFound
from gateway.policy.tenancy import Tenants
from gateway.stores.audit import Act
from gateway.stores.keys import plan_of, tenants_of
from gateway.stores.tenancy import ANY_KEY, Tenancy, Transaction, check_unchanged, later
from gateway.stores.tenancy_schema import KEYS, ORGS, PLANS, PROJECTS

Kind = Literal["org", "plan", "project"]

TABLES: Mapping[Kind, Table] = {"org": ORGS, "plan": PLANS, "project": PROJECTS}


class Term(msgspec.Struct, frozen=True, kw_only=True):
    """Which org, plan or project is meant; a project has an org."""

    kind: Kind
    name: str
    org: str | None = None

    @property
    def subject(self) -> str:
        """Return it as the audit names it."""
        return f"{self.kind}:{self.name}" if self.org is None else f"{self.kind}:{self.org}/{self.name}"

    @property
    def where(self) -> tuple[Any, ...]:
        """Return what is true of its row."""
        table = TABLES[self.kind]
        return (table.c.name == self.name,) if self.kind != "project" else (table.c.name == self.name, table.c.org == self.org)

    @property
    def columns(self) -> dict[str, Any]:
        """Return what its row is known by."""
        return {"name": self.name} if self.kind != "project" else {"name": self.name, "org": self.org}

    def with_definition(self, text: str) -> Tenants:
        """Return it as the only one there is."""
        if self.kind == "project":
            return Tenants(projects={self.org or "": {self.name: text}})
        return Tenants(orgs={self.name: text}) if self.kind == "org" else Tenants(plans={self.name: text})


class TermView(msgspec.Struct, frozen=True, kw_only=True):
    """One of them as operators see it."""

    kind: Kind
    name: str
    org: str | None = None
    definition: dict[str, Any]
    created_unix_ms: int
    updated_unix_ms: int


class Terms:
    """The orgs, plans and projects of the database."""

    def __init__(self, tenancy: Tenancy) -> None:
        self._tenancy = tenancy

    async def put(
        self, actor: str, term: Term, definition: Mapping[str, Any], expected_updated_unix_ms: int | None = None
    ) -> bool:
        """Make it, or have it be so from now on. Return whether gateways could be told.

        Raises InvalidValue and Conflict, and Outdated where it is not as it was at `expected_updated_unix_ms`, 0 for not at all.
        """
        return await self._tenancy.finish(self._put(actor, term, definition, expected_updated_unix_ms))

    async def delete(self, actor: str, term: Term, expected_updated_unix_ms: int | None = None) -> bool:
        """Take it away; return whether gateways could be told. Raises NotFound, Outdated, and Conflict where keys need it."""
        return await self._tenancy.finish(self._delete(actor, term, expected_updated_unix_ms))

    async def _put(self, actor: str, term: Term, definition: Mapping[str, Any], expected_updated_unix_ms: int | None) -> bool:
        text, table = msgspec.json.encode(definition).decode(), TABLES[term.kind]
        async with self._tenancy.change() as change:
            if clashes := self._tenancy.rules.clashes(term.with_definition(text)):
                raise Conflict(f"{clashes[0]} is declared in the configuration file: change it there", param="name")
            row = await change.lock(table, *term.where)
            check_unchanged(row, expected_updated_unix_ms)
            now_unix_ms = change.now_unix_ms
            if row is None:
                values = {**term.columns, "definition": text, "created_unix_ms": now_unix_ms, "updated_unix_ms": now_unix_ms}
                await change.execute(insert(table).values(**values))
            else:
                values = {"definition": text, "updated_unix_ms": later(now_unix_ms, row["updated_unix_ms"])}
                await change.execute(update(table).where(*term.where).values(**values))
            org, plan = (None, term.name) if term.kind == "plan" else (term.org or term.name, None)
            self._tenancy.rules.check(await tenants_of(change.fetch, org, plan))
            await change.note(Act(actor, f"{term.kind}.put", term.subject, {"definition": definition}))
        return await self._tenancy.crier.tell([ANY_KEY])

    async def _delete(self, actor: str, term: Term, expected_updated_unix_ms: int | None) -> bool:
        table = TABLES[term.kind]
        async with self._tenancy.change() as change:
            row = await change.lock(table, *term.where)
            if row is None:
                raise NotFound(f"There is no {term.subject} in the database")
            check_unchanged(row, expected_updated_unix_ms)
            if needed := await self._needed_by(change, term):
                raise Conflict(f"{term.subject} is needed by {', '.join(needed[:5])}")
            await change.execute(delete(table).where(*term.where))
            await change.note(Act(actor, f"{term.kind}.delete", term.subject))
        return await self._tenancy.crier.tell([ANY_KEY])

    async def one(self, term: Term) -> TermView:
        """Return one. Raises NotFound."""
        rows = await self._tenancy.fetch(select(TABLES[term.kind]).where(*term.where))
        if not rows:
            raise NotFound(f"There is no {term.subject} in the database")
        return _view(term.kind, rows[0])

    async def many(self, kind: Kind, org: str | None = None) -> list[TermView]:
        """Return all of a kind in the order of their names; of projects those of an org where one is given."""
        table = TABLES[kind]
        statement: Select[Any] = select(table).order_by(*table.primary_key.columns)
        if kind == "project" and org is not None:
            statement = statement.where(PROJECTS.c.org == org)
        return [_view(kind, row) for row in await self._tenancy.fetch(statement)]

    async def _needed_by(self, change: Transaction, term: Term) -> Sequence[str]:
        """Return who could not do without it."""
        living = await change.fetch(select(KEYS).where(KEYS.c.revoked_unix_ms.is_(None)))
        if term.kind == "project":
            in_org = [row for row in living if row["org"] == term.org]
            return [f"key:{row['id']}" for row in in_org if term.name in _projects_of(row["definition"])]
        if term.kind == "org":
            projects = await change.fetch(select(PROJECTS.c.name).where(PROJECTS.c.org == term.name))
            by_project = [f"project:{term.name}/{row['name']}" for row in projects]
            return [*by_project, *(f"key:{row['id']}" for row in living if row["org"] == term.name)]
        orgs = await change.fetch(select(ORGS))
        by_org = [f"org:{row['name']}" for row in orgs if plan_of(row["definition"]) == term.name]
        return [*by_org, *(f"key:{row['id']}" for row in living if row["plan"] == term.name)]


class _Projects(msgspec.Struct):
    projects: tuple[str, ...] | None = None
    default_project: str | None = None


def _projects_of(definition: str) -> tuple[str, ...]:
    """Return the projects that a key names; one that cannot be read is let in nowhere, and needs none."""
    try:
        named = msgspec.json.decode(definition, type=_Projects)
    except msgspec.DecodeError:
        return ()
    return (*(named.projects or ()), *filter(None, [named.default_project]))


def _view(kind: Kind, row: Mapping[str, Any]) -> TermView:
    definition = msgspec.json.decode(row["definition"], type=dict[str, Any])
    return TermView(**{**row, "definition": definition}, kind=kind)
