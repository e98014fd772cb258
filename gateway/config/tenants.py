"""Plans, orgs, projects and keys that live in the database: one format with the file's, one decoder, one set of checks.

A definition is JSON, read as what the file says in the same place; a reference in it leads nowhere. For what it means, it is put
into the file beside what it stands under. A name of the file's own is not to be had: which of two would hold, nobody could tell.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import msgspec
import msgspec.inspect as mi

from gateway.config import budgets, naming, not_yet, sanity
from gateway.config.compile import compile_key, compile_org
from gateway.config.decode import Decoder
from gateway.config.document import DocumentError, read
from gateway.config.parse import Parsed
from gateway.config.problems import Problem
from gateway.config.references import Sources
from gateway.config.rights import BUILT_IN, plan_name
from gateway.config.structs import Config
from gateway.config.structs.tenancy import Org
from gateway.errors import InvalidDefinition, InvalidValue
from gateway.faults import FieldError
from gateway.policy import catalogue
from gateway.policy.tenancy import Found, Tenants

_SECTIONS = mi.type_info(Config)

_COLUMNS = ("name", "org", "plan", "expires", "secret", "digest")
"""Fields of a file's key that the database has columns for, or no place at all."""


def _nowhere(path: str) -> bytes:
    raise FileNotFoundError(2, f"a definition in the database reads no file, nor {path}")


class Definitions:
    """What definitions of the database mean beside one configuration. `config` is one that `check` found sound."""

    def __init__(self, config: Config) -> None:
        self._config = config

    def clashes(self, tenants: Tenants) -> tuple[str, ...]:
        """Return a line for each name that both the file and the database give to something."""
        return (
            *(f"plans.{name}" for name in tenants.plans if name in self._config.plans),
            *(f"orgs.{name}" for name in tenants.orgs if name in self._config.orgs),
            *(
                f"orgs.{org}.projects.{name}"
                for org, projects in tenants.projects.items()
                for name in projects
                if org in self._config.orgs and name in self._config.orgs[org].projects
            ),
        )

    def key(self, found: Found) -> catalogue.Key:
        """Return what a key means. Raises ValueError for one that is damaged: it must not mean more than it was meant to."""
        try:
            parsed = self._beside(found.tenants, [_of_key(found)])
        except (msgspec.DecodeError, DocumentError) as error:
            raise ValueError(f"the definition of the key {found.key.id} is no JSON object: {error}") from error
        if parsed.problems:
            lines = "; ".join(_lines(parsed.problems))
            raise ValueError(f"the key {found.key.id} cannot be read: {lines}")
        config, [key] = parsed.config, parsed.config.keys
        if (plan := plan_name(config, key)) not in (BUILT_IN, *config.plans):
            raise ValueError(f"the plan '{plan}' of the key {found.key.id} is nowhere")
        if key.org not in (BUILT_IN, *config.orgs):
            raise ValueError(f"the org '{key.org}' of the key {found.key.id} is nowhere")
        shares = compile_org(key.org, config.orgs[key.org]) if key.org in found.tenants.orgs else None
        return msgspec.structs.replace(compile_key(config, key), id=found.key.id, shares=shares)

    def check(self, tenants: Tenants, key: Found | None = None) -> None:
        """Say all that is wrong with definitions, at once. Raises InvalidValue."""
        for org in tenants.projects.keys() - tenants.orgs.keys() - self._config.orgs.keys() - {BUILT_IN}:
            raise InvalidValue(f"unknown org '{org}'", param="org")
        try:
            if key is not None and (misplaced := _object(key.key.definition).keys() & set(_COLUMNS)):
                raise InvalidValue(f"{', '.join(sorted(misplaced))}: has no place in a definition", param="definition")
            of_keys = [_of_key(key)] if key is not None else [*_users(tenants)]
            parsed = self._beside(tenants, of_keys)
        except (msgspec.DecodeError, DocumentError) as error:
            raise InvalidValue(f"a definition must be a JSON object: {error}", param="definition") from None
        problems = [*parsed.problems]
        for room in (naming, sanity, budgets, not_yet):
            problems.extend(room.check(parsed))
        if problems:
            raise InvalidDefinition(tuple(dict.fromkeys(map(_field, sorted(problems)))))

    def _beside(self, tenants: Tenants, of_keys: Sequence[Mapping[str, Any]]) -> Parsed:
        """Return the file with these definitions in it. Raises msgspec.DecodeError, and DocumentError for what none can hold."""
        orgs: dict[str, dict[str, Any]] = {name: _object(text) for name, text in tenants.orgs.items()}
        for org, projects in tenants.projects.items():
            entry = orgs.setdefault(org, {})
            entry["projects"] = {**entry.get("projects", {}), **{name: _object(text) for name, text in projects.items()}}
        plans = {name: _object(text) for name, text in tenants.plans.items()}
        document = msgspec.json.encode({"plans": plans, "orgs": orgs, "keys": of_keys})
        decoder = Decoder(Sources({}, _nowhere))
        own = decoder.read(read(document), _SECTIONS, ())
        config = msgspec.structs.replace(
            self._config,
            plans=self._config.plans | own.plans,
            orgs=self._config.orgs | {name: self._joined(name, org) for name, org in own.orgs.items()},
            keys=own.keys,
        )
        return Parsed(config=config, settings=decoder.settings, entries=_entries(config), problems=tuple(decoder.problems))

    def _joined(self, name: str, org: Org) -> Org:
        """Return an org of the file with the projects that the database adds to it, or one of the database."""
        ours = self._config.orgs.get(name)
        return org if ours is None else msgspec.structs.replace(ours, projects=ours.projects | org.projects)


def _object(text: str) -> dict[str, Any]:
    return msgspec.json.decode(text, type=dict[str, Any])


def _of_key(found: Found) -> dict[str, Any]:
    """Return a key as the file would have it, but for what it is known by. Raises msgspec.DecodeError."""
    record = found.key
    fields = {name: value for name, value in _object(record.definition).items() if name not in _COLUMNS}
    return {**fields, "name": record.name, "org": record.org, **({} if record.plan is None else {"plan": record.plan})}


def _users(tenants: Tenants) -> Iterable[dict[str, Any]]:
    """Yield a key of each plan and of each org that is spoken of: what no key could use is not to be kept either."""
    orgs = dict.fromkeys([*tenants.orgs, *tenants.projects])
    yield from ({"name": "any", "plan": name} for name in tenants.plans)
    yield from ({"name": "any", "org": name} for name in orgs)


def _entries(config: Config) -> dict[tuple[str | int, ...], frozenset[str]]:
    sections: dict[str, Iterable[str]] = {
        "models": config.models,
        "providers": config.providers,
        "plans": config.plans,
        "orgs": config.orgs,
    }
    found: dict[tuple[str | int, ...], frozenset[str]] = {(name,): frozenset(entries) for name, entries in sections.items()}
    return found | {("orgs", name, "projects"): frozenset(org.projects) for name, org in config.orgs.items()}


def _field(problem: Problem) -> FieldError:
    """Return a problem as that of a field of what was sent: of the definition, but for what a key is known by."""
    place, _, path = problem.where.partition(".")
    if place == "keys[0]" and path.partition(".")[0] in _COLUMNS:
        loc: tuple[str, ...] = ("body", path)
    else:
        loc = ("body", "definition", problem.where if place != "keys[0]" else path)
    return FieldError(tuple(filter(None, loc)), ": ".join(filter(None, (problem.where, problem.message))), "value_error")


def _lines(problems: Sequence[Problem]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(": ".join(filter(None, (each.where, each.message))) for each in sorted(problems)))
