"""LiteLLM's virtual keys as ours: the same secrets, known by their SHA-256, which is what is stored, with no more rights."""

import re
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from decimal import ROUND_CEILING, Decimal
from hashlib import sha256
from typing import Any

from gateway.importing.accounts import NotImportableError
from gateway.importing.allowed import SPECIAL, Models, allowed, both, meant
from gateway.importing.features import lacking
from gateway.importing.findings import Findings
from gateway.importing.routes import ENDPOINTS, endpoints
from gateway.importing.scopes import (
    END_USERS,
    FORMER_KEYS,
    GROUP_BUDGETS,
    KEYS,
    MODELS,
    TEAMS,
    USERS,
    Scope,
    Scopes,
    Tables,
    places,
)
from gateway.importing.terms import Row, Terms, terms
from gateway.importing.translation import Names
from gateway.policy.periods import PERIODS, bounds_ms
from gateway.stores.brought import Balance, Brought, BroughtKey

_ALPHABET = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
_DIGEST = re.compile(r"[0-9a-f]{64}", re.ASCII)
_NANO = 1_000_000_000
_ORG = "default"
_DASHBOARD = "litellm-dashboard"
_EVERYBODY = "litellm-proxy-budget"
"""Whose row has what the whole proxy has spent."""
_NO_CALLS = ("management", "read_only")

TIERS = "the tier default alone: others have a price of their own here; see plans.*.tiers"
ADDED = "what was spent there in the running time counts here, in the running period"
ENDS = "never began anew there: the key expires with this month, until it has a budget of a month, a week or a day"

_SAME = {
    "token": "",
    "key_alias": "name",
    "expires": "expires",
    "blocked": "blocked",
    "max_parallel_requests": "limits.concurrency",
    "created_at": "created",
    "last_active": "last used",
}
_IDLE: Mapping[str, str] = {
    "allowed_cache_controls": "answers are not cached here",
    "permissions": "grants nothing that is here",
    "router_settings": "routing is the file's here",
    "budget_fallbacks": "a spent budget is an error here, and leads to no other model",
    "auto_rotate": "keys are rotated by hand here: tiergate keys rotate",
    "rotation_interval": "keys are rotated by hand here: tiergate keys rotate",
    "model_spend": "what was spent counts as a whole",
}


def bring(tables: Tables, names: Names, findings: Findings, now_unix_ms: int) -> Brought:
    """Return what the tables hold, each key with its reasons where it has to stay behind."""
    reading = _Reading(Scopes(tables, names, findings), names, findings, now_unix_ms)
    reading.everybodys(tables)
    for row in sorted(tables.get(KEYS, ()), key=lambda row: str(row.get("token"))):
        where = (KEYS, _called(row))
        try:
            reading.key(row, where)
        except NotImportableError as reason:
            findings.left_out(where, f"not imported, and refused here: {reason}")
    return reading.brought


class _Reading:
    """What is read so far."""

    def __init__(self, scopes: Scopes, names: Names, findings: Findings, now_unix_ms: int) -> None:
        self._scopes = scopes
        self._names = names
        self._findings = findings
        self._now_unix_ms = now_unix_ms
        self._taken: set[tuple[str, str]] = set()
        self._without: frozenset[str] = frozenset()
        self._former: dict[str, list[Row]] = {}
        self.brought = Brought(orgs={}, projects={}, keys=[], balances={})

    def everybodys(self, tables: Tables) -> None:
        """Take in what is no key's own."""
        for row in tables.get(FORMER_KEYS, ()):
            self._former.setdefault(str(row["active_token_id"]), []).append(row)
        bounded = [str(row["access_group_name"]) for row in tables.get(GROUP_BUDGETS, ())]
        self._without = frozenset(model for name in bounded for model in meant(name, self._names))
        for name in bounded:
            self._findings.approximate((GROUP_BUDGETS, name), (), "groups have no budgets here: no key gets the models of one")
        if tables.get(END_USERS):
            self._findings.ignored((END_USERS,), "there are no end users here: neither their budgets nor their blocks hold")
        if tables.get(MODELS):
            self._findings.ignored((MODELS,), "models live in the file here, and these are encrypted: add them by hand")
        if tables.get(KEYS):
            self._findings.approximate((KEYS,), (), TIERS)
        if self._names.everybodys is not None:
            spent = [Decimal(str(row.get("spend") or 0)) for row in tables.get(USERS, ()) if row["user_id"] == _EVERYBODY]
            self._balance(f"ob:{{period}}:{_ORG}", Terms(money=self._names.everybodys, spent_usd=sum(spent, Decimal(0))))

    def key(self, row: Row, where: tuple[str, ...]) -> None:
        """Take a key and what it belongs to along. Raises `NotImportableError`."""
        digest = _digest(row)
        _check_routes(row)
        self._scopes.check_bounds(row)
        scopes = self._scopes.of(row)
        org, project = self._places(scopes)
        own = terms(row, self._scopes.budget_of(row), where, self._findings)
        everything = [own, *(scope.terms for scope in scopes)]
        models = self._models(row, scopes, everything, where)
        key_id = id_of(digest)
        budgets = [self._names.everybodys, *(each.money for each in everything)]
        ends = any(budget is not None and budget.ends for budget in budgets)
        expires = _unix_ms(row.get("expires"))
        if ends:
            month_ends = bounds_ms(self._now_unix_ms, PERIODS["month"])[1]
            expires = month_ends if expires is None else min(expires, month_ends)
            self._findings.approximate((*where, "max_budget"), (), ENDS)
        org_name = self._org(org)
        key = BroughtKey(
            id=key_id,
            digest=digest,
            display=str(row.get("key_name") or "sk-…"),
            name=self._free(org_name, row, key_id),
            org=org_name,
            definition=self._definition(own, models, project),
            created_unix_ms=_unix_ms(row.get("created_at")) or self._now_unix_ms,
            expires_unix_ms=expires,
            last_used_unix_ms=_unix_ms(row.get("last_active")),
            former={_digest(each): _unix_ms(each["revoke_at"]) or 0 for each in self._former.get(str(row["token"]), ())},
            blocked=any(each.blocked for each in everything),
            is_ending=ends,
        )
        self.brought.keys.append(key)
        self._project(org_name, project)
        self._balance(f"kb:{{period}}:{key_id}", own)
        self._tell(row, where)

    def _places(self, scopes: Sequence[Scope]) -> tuple[Scope | None, Scope | None]:
        """Return which scope is the org and which the project; a budget of all that there is takes the org's place."""
        org, project = places(scopes)
        if self._names.everybodys is not None:
            if project is not None:
                raise NotImportableError("more than two of what it belongs to have limits or budgets, the file's own among them")
            org, project = None, next((scope for scope in scopes if scope.terms.is_shared), None)
        if project is not None:
            _check_project(project)
        return org, project

    def _models(self, row: Row, scopes: Sequence[Scope], everything: Sequence[Terms], where: tuple[str, ...]) -> Models:
        """Return what may be asked for: what all lists allow, less what has no price under a budget or a bound of its own."""
        found = allowed(row, self._names, self._scopes.groups, in_team=any(scope.kind == TEAMS for scope in scopes))
        unknown = [name for name in row.get("models") or () if name not in SPECIAL and not meant(name, self._names)]
        note = f"names nothing that was imported: {len(unknown)} of them" if unknown else ""
        if row.get("models"):
            tell = self._findings.approximate if note else _exact(self._findings)
            tell((*where, "models"), (), note)
        for scope in scopes:
            found = both(found, scope.models)
        without = {model for each in everything for name in each.without for model in meant(name, self._names)} | self._without
        if any(each.money is not None for each in everything) or self._names.everybodys is not None:
            without |= set(self._names.models) - self._names.priced
        if without:
            found = (frozenset(self._names.models) if found is None else found) - without
        return found

    def _definition(self, own: Terms, models: Models, project: Scope | None) -> dict[str, Any]:
        limits = {**own.limits, **_per_model(own, self._names)}
        budget = own.budget()
        listed = None if models is None else [name for name in self._names.models if name in models]
        return {
            **({"limits": limits} if limits else {}),
            **({"budget": budget} if budget else {}),
            **({} if listed is None else {"models": listed}),
            **({"ips": list(self._names.ips)} if self._names.ips else {}),
            "projects": [] if project is None else [project.name],
            **({} if project is None else {"default_project": project.name}),
        }

    def _org(self, scope: Scope | None) -> str:
        if scope is None:
            return _ORG
        limits = {**scope.terms.limits, **_per_model(scope.terms, self._names)}
        budget = scope.terms.budget()
        self.brought.orgs[scope.name] = {**({"limits": limits} if limits else {}), **({"budget": budget} if budget else {})}
        self._balance(f"ob:{{period}}:{scope.name}", scope.terms)
        return scope.name

    def _project(self, org: str, scope: Scope | None) -> None:
        if scope is None:
            return
        limits, budget = scope.terms.limits, scope.terms.budget()
        definition = {**({"limits": limits} if limits else {}), **({"budget": budget} if budget else {})}
        self.brought.projects[org, scope.name] = definition
        self._balance(f"pb:{{period}}:{org}:{scope.name}", scope.terms)

    def _balance(self, scope: str, found: Terms) -> None:
        if found.money is None or not found.spent_usd:
            return
        start_unix_ms, _ = bounds_ms(self._now_unix_ms, PERIODS[found.money.period])
        name = scope.format(period=found.money.period)
        nano_usd = int((found.spent_usd * _NANO).to_integral_value(ROUND_CEILING))
        self.brought.balances[name, start_unix_ms] = Balance(name, start_unix_ms, nano_usd)

    def _free(self, org: str, row: Row, key_id: str) -> str:
        """Return what a key is called, with its id behind it where the org has one of that name."""
        name = re.sub(r"[^A-Za-z0-9_.@+-]+", "-", str(row.get("key_alias") or "")).strip("-.@+")[:48]
        if not name or (org, name) in self._taken:
            name = f"{name or 'litellm'}-{key_id}"
        self._taken.add((org, name))
        return name

    def _tell(self, row: Row, where: tuple[str, ...]) -> None:
        for theirs, ours in _SAME.items():
            if row.get(theirs) not in (None, False):
                self._findings.exact((*where, theirs), ("keys", ours) if ours else ())
        if row.get("spend"):
            self._findings.approximate((*where, "spend"), (), ADDED)
        for name, reason in _IDLE.items():
            if row.get(name):
                self._findings.ignored((*where, name), reason)


def id_of(digest: bytes) -> str:
    """Return the id of a key that was brought along: the same, whenever that is done."""
    number, found = int.from_bytes(sha256(b"litellm:" + digest).digest()), ""
    for _ in range(10):
        number, place = divmod(number, 62)
        found += _ALPHABET[place]
    return found


def _exact(findings: Findings) -> Any:
    return lambda where, into, _note: findings.exact(where, into)


def _digest(row: Row) -> bytes:
    token = str(row.get("token") or "")
    if _DIGEST.fullmatch(token) is None:
        raise NotImportableError("what is stored of its secret is no SHA-256")
    if row.get("team_id") == _DASHBOARD:
        raise NotImportableError("it is a session of its user interface")
    return bytes.fromhex(token)


def _called(row: Row) -> str:
    """Return what a key is called in what is said of it: never by its token."""
    digest = str(row.get("token") or "")
    return str(row.get("key_alias") or row.get("key_name") or sha256(digest.encode()).hexdigest()[:8])


def _check_routes(row: Row) -> None:
    """Raise for a key that may not call every endpoint that is here: ours have no such bounds."""
    if row.get("key_type") in _NO_CALLS:
        raise NotImportableError("it is for management alone")
    routes = row.get("allowed_routes") or ()
    if routes and endpoints(routes) != frozenset(ENDPOINTS.values()):
        raise NotImportableError("its allowed_routes are not all that a key may call here")


def _check_project(scope: Scope) -> None:
    """Raise for what a project of ours cannot say."""
    if scope.terms.limits and lacking("orgs.*.projects.*.limits"):
        raise NotImportableError(f"{scope.name} has limits, and is a project here: this release has no limits of projects")
    if scope.terms.per_model:
        raise NotImportableError(f"{scope.name} has limits for models by themselves, and is a project here")


def _per_model(found: Terms, names: Names) -> dict[str, Any]:
    limits: dict[str, dict[str, int]] = {}
    for name, bounds in found.per_model.items():
        for model in meant(name, names):
            known = limits.get(model, {})
            limits[model] = known | {bound: min(value, known.get(bound, value)) for bound, value in bounds.items()}
    return {"per_model": {model: limits[model] for model in names.models if model in limits}} if limits else {}


def _unix_ms(value: Any) -> int | None:
    """Return a moment as Unix milliseconds; the tables have them in UTC."""
    if value is None:
        return None
    try:
        moment = datetime.fromisoformat(str(value))
    except ValueError:
        raise NotImportableError("one of its times cannot be read") from None
    return int((moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp() * 1000)
