"""Who shares what: LiteLLM's organizations, teams, members, projects and users, as our orgs and their projects.

Six kinds there, two here. Only what counts something is kept as a scope: the outermost of a key's is its org, the next a project
in it. So each has one place, whoever's key it is, and its limits hold once. A key under more than two of them cannot be carried.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from hashlib import sha256
from typing import Any

import msgspec

from gateway.importing.accounts import NotImportableError
from gateway.importing.allowed import Groups, Models, allowed, both
from gateway.importing.findings import Findings
from gateway.importing.terms import Row, Terms, mapping, terms
from gateway.importing.translation import Names

Tables = Mapping[str, Sequence[Row]]

KEYS = "LiteLLM_VerificationToken"
TEAMS = "LiteLLM_TeamTable"
BUDGETS = "LiteLLM_BudgetTable"
ORGANIZATIONS = "LiteLLM_OrganizationTable"
PROJECTS = "LiteLLM_ProjectTable"
USERS = "LiteLLM_UserTable"
MEMBERS = "LiteLLM_TeamMembership"
ORGANIZATION_MEMBERS = "LiteLLM_OrganizationMembership"
ACCESS_GROUPS = "LiteLLM_AccessGroupTable"
PERMISSIONS = "LiteLLM_ObjectPermissionTable"
TEAM_MODELS = "LiteLLM_ModelTable"

FORMER_KEYS = "LiteLLM_DeprecatedVerificationToken"
TAGS = "LiteLLM_TagTable"
GROUP_BUDGETS = "LiteLLM_ModelAccessGroupBudgetTable"
END_USERS = "LiteLLM_EndUserTable"
MODELS = "LiteLLM_ProxyModelTable"

_EVERY = ""
TABLES: Mapping[str, str] = {
    KEYS: _EVERY,
    TEAMS: _EVERY,
    BUDGETS: _EVERY,
    ORGANIZATIONS: _EVERY,
    PROJECTS: _EVERY,
    USERS: _EVERY,
    MEMBERS: _EVERY,
    ORGANIZATION_MEMBERS: _EVERY,
    ACCESS_GROUPS: _EVERY,
    PERMISSIONS: _EVERY,
    TEAM_MODELS: _EVERY,
    FORMER_KEYS: _EVERY,
    TAGS: "WHERE budget_id IS NOT NULL",
    GROUP_BUDGETS: "WHERE budget_id IS NOT NULL",
    END_USERS: "WHERE budget_id IS NOT NULL OR blocked LIMIT 1",
    MODELS: "LIMIT 1",
}
"""What is read, and which of its rows."""

_ODD = re.compile(r"[^A-Za-z0-9_.@+-]+")
_LONGEST = 48
_TAKEN = "default"


class Scope(msgspec.Struct, frozen=True, kw_only=True):
    """One of them: its kind and id, what it is called here, what it allows, and the models that it allows."""

    kind: str
    id: str
    name: str
    terms: Terms
    models: Models


class Scopes:
    """The tables, by what their rows are known by. Each row is read once."""

    def __init__(self, tables: Tables, names: Names, findings: Findings) -> None:
        self._names = names
        self._findings = findings
        self.groups = Groups(tables.get(ACCESS_GROUPS, ()))
        self._rows: dict[str, dict[str, Row]] = {
            ORGANIZATIONS: _by(tables.get(ORGANIZATIONS, ()), "organization_id"),
            TEAMS: _by(tables.get(TEAMS, ()), "team_id"),
            PROJECTS: _by(tables.get(PROJECTS, ()), "project_id"),
            USERS: _by(tables.get(USERS, ()), "user_id"),
            MEMBERS: _by(tables.get(MEMBERS, ()), "user_id", "team_id"),
            ORGANIZATION_MEMBERS: _by(tables.get(ORGANIZATION_MEMBERS, ()), "user_id", "organization_id"),
        }
        self.budgets = _by(tables.get(BUDGETS, ()), "budget_id")
        self._tags = {str(row["tag_name"]) for row in tables.get(TAGS, ())}
        self._permissions = _by(tables.get(PERMISSIONS, ()), "object_permission_id")
        self._team_models = _by(tables.get(TEAM_MODELS, ()), "id")
        self._read: dict[tuple[str, str], Scope] = {}
        self._called: dict[str, tuple[str, str]] = {}

    def of(self, key: Row) -> list[Scope]:
        """Return the scopes that a key is in, the outermost first.

        Raises `NotImportableError` where one of them cannot be carried.
        """
        team, user, project = (_text(key.get(name)) for name in ("team_id", "user_id", "project_id"))
        found: list[Scope] = []
        inside = self._row(TEAMS, team) if team else {}
        organization = _text(inside.get("organization_id")) or _text(key.get("organization_id"))
        if organization != (_text(key.get("organization_id")) or organization) or (project and self._team_of(project) != team):
            raise NotImportableError("what it belongs to does not belong together")
        if organization:
            found.append(self._scope(ORGANIZATIONS, organization, "organization_alias"))
            if user and (member := self._maybe(ORGANIZATION_MEMBERS, f"{user}/{organization}")) is not None:
                found.append(member)
        if team:
            found.append(self._scope(TEAMS, team, "team_alias"))
            found.extend(self._member(user, team, inside))
        elif user and user in self._rows[USERS]:
            found.append(self._scope(USERS, user, "user_alias"))
        if project:
            found.append(self._scope(PROJECTS, project, "project_alias"))
        return found

    def budget_of(self, row: Row) -> Row | None:
        """Return the budget that a row names. Raises `NotImportableError` where it is not there."""
        named = _text(row.get("budget_id"))
        if named is None:
            return None
        if named not in self.budgets:
            raise NotImportableError("the budget that it names is not there")
        return self.budgets[named]

    def check_bounds(self, row: Row) -> None:
        """Raise `NotImportableError` for bounds that stand elsewhere and are none here: permissions, and budgets of tags."""
        tags = mapping(row.get("metadata")).get("tags") or []
        if self._tags.intersection(map(str, tags if isinstance(tags, list) else [tags])):
            raise NotImportableError("it has a tag with a budget, and there are no tags here")
        named = _text(row.get("object_permission_id"))
        if named is None:
            return
        found = self._permissions.get(named)
        if found is None or found.get("blocked_tools") or found.get("models"):
            raise NotImportableError("it has an object permission that is not known here")

    def _team_of(self, project: str) -> str | None:
        return _text(self._row(PROJECTS, project).get("team_id"))

    def _member(self, user: str | None, team: str, team_row: Row) -> Iterable[Scope]:
        """Yield the bounds of a user in a team; a team may have some for every member."""
        everybodys = mapping(team_row.get("metadata")).get("team_member_budget_id")
        row = self._rows[MEMBERS].get(f"{user}/{team}")
        if user is None or (row is None and everybodys is None):
            return
        own = {"user_id": user, "team_id": team, **(row or {})}
        if own.get("budget_id") is None:
            own["budget_id"] = everybodys
        if own["budget_id"] is not None:
            yield self._made(MEMBERS, f"{user}/{team}", f"{team}-{user}", own)

    def _maybe(self, kind: str, key: str) -> Scope | None:
        row = self._rows[kind].get(key)
        return None if row is None or row.get("budget_id") is None else self._made(kind, key, key, row)

    def _scope(self, kind: str, key: str, alias: str) -> Scope:
        row = self._row(kind, key)
        return self._made(kind, key, str(row.get(alias) or key), row)

    def _row(self, kind: str, key: str) -> Row:
        found = self._rows[kind].get(key)
        if found is None:
            raise NotImportableError(f"what it belongs to is not in {kind}")
        return found

    def _made(self, kind: str, key: str, called: str, row: Row) -> Scope:
        known = self._read.get((kind, key))
        if known is None:
            self.check_bounds(row)
            found = terms(row, self.budget_of(row), (kind, called), self._findings)
            named = _text(row.get("model_id")) if kind == TEAMS else None
            found.without.update(map(str, mapping(self._team_models.get(named or "", {}).get("aliases"))))
            models = allowed(row, self._names, self.groups)
            own = (self.budget_of(row) or {}).get("allowed_models") or ()
            if own:
                models = both(models, allowed({"models": own}, self._names, self.groups))
            known = Scope(kind=kind, id=key, name=self._name((kind, key), called), terms=found, models=models)
            self._read[(kind, key)] = known
        return known

    def _name(self, scope: tuple[str, str], called: str) -> str:
        """Return what a scope is called here: as there, where that is a name here and nobody else's."""
        name = _ODD.sub("-", called).strip("-.@+")[:_LONGEST]
        if not name or name != called or name == _TAKEN or self._called.get(name, scope) != scope:
            name = f"{name or 'scope'}-{sha256('/'.join(scope).encode()).hexdigest()[:8]}"
        self._called[name] = scope
        return name


_INSIDE: Mapping[str, tuple[str, ...]] = {
    TEAMS: (ORGANIZATIONS,),
    PROJECTS: (ORGANIZATIONS, TEAMS),
    MEMBERS: (ORGANIZATIONS, TEAMS),
    ORGANIZATION_MEMBERS: (ORGANIZATIONS,),
}
"""What lies wholly inside what. A user's bounds reach over teams: inside one of them they would hold once for each."""


def places(scopes: Sequence[Scope]) -> tuple[Scope | None, Scope | None]:
    """Return which scope is a key's org and which its project.

    Raises `NotImportableError` where more count, or those that do reach beyond each other.
    """
    counting = [scope for scope in scopes if scope.terms.is_shared]
    if not counting:
        return (scopes[0] if scopes else None), None
    if len(counting) > 2:
        raise NotImportableError("more than two of what it belongs to have limits or budgets")
    if len(counting) == 1:
        return counting[0], None
    outer, inner = counting
    if outer.kind not in _INSIDE.get(inner.kind, ()):
        raise NotImportableError(f"{outer.name} and {inner.name} have limits or budgets, and neither lies inside the other")
    return outer, inner


def _by(rows: Iterable[Row], *columns: str) -> dict[str, Row]:
    return {"/".join(str(row.get(column)) for column in columns): row for row in rows}


def _text(value: Any) -> str | None:
    return None if value is None or value == "" else str(value)
