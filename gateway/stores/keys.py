"""The database as requests ask it: whose secret has one of two digests, and what that key stands under.

A secret of ours is kept as its HMAC, one that was brought along from elsewhere as the SHA-256 that it had there: one look-up asks
for both. Unix milliseconds.
"""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, TypeVar

import msgspec
from sqlalchemy import ColumnElement, Select, Table, and_, bindparam, or_, select, update
from sqlalchemy.exc import SQLAlchemyError

from gateway.errors import InvalidValue, NotFound
from gateway.policy.tenancy import Found, KeyRecord, Tenants
from gateway.stores.database import MissingLedgerError, Reader
from gateway.stores.engine import Database
from gateway.stores.tenancy_schema import KEYS, ORGS, PLANS, PROJECTS, SECRETS
from gateway.stores.versions import SchemaVersionError

Kind = TypeVar("Kind", bound=msgspec.Struct)

HMAC, SHA256 = "hmac-sha256", "sha256"

AWAY = (SQLAlchemyError, OSError, MissingLedgerError, SchemaVersionError)
"""How a database that cannot answer shows."""


def reason(error: Exception) -> str:
    """Return why a database cannot answer, in one line: of what its driver says no more than the name, for it may say secrets."""
    is_ours = isinstance(error, (MissingLedgerError, SchemaVersionError))
    return str(error) if is_ours else type(getattr(error, "orig", None) or error).__name__


class LookUpError(Exception):
    """The database cannot tell now whose a key is."""


class KeyShelf:
    """The tables of keys and of what they stand under, by `reader`, whose owner closes it."""

    def __init__(self, reader: Reader, url: str) -> None:
        self._reader = reader
        self._engine = Database(url).open_to_write()

    async def find(self, digests: Sequence[bytes]) -> Found | None:
        """Return whose secret has one of these digests, HMAC and SHA-256. Raises LookUpError."""
        try:
            found = await self._reader.fetch(_holder(digests))
            if not found:
                return None
            not_after_unix_ms = found[0].pop("not_after_unix_ms")
            record = of_row(KeyRecord, found[0])
            tenants = await tenants_of(self._reader.fetch, record.org, record.plan)
            return Found(key=record, tenants=tenants, not_after_unix_ms=not_after_unix_ms)
        except AWAY as error:
            raise LookUpError(type(error).__name__) from error

    async def note_use(self, used_unix_ms: Mapping[str, int]) -> None:
        """Write down when keys were used last, by their ids. Raises LookUpError."""
        rows = [{"its_id": key_id, "at": at} for key_id, at in sorted(used_unix_ms.items())]
        try:
            async with self._engine.begin() as connection:
                await connection.execute(_NOTE_USE, rows)
        except AWAY as error:
            raise LookUpError(type(error).__name__) from error

    async def close(self) -> None:
        """Close the connection that uses are noted by."""
        await self._engine.dispose()


Fetch = Callable[[Select[Any]], Awaitable[Sequence[Mapping[str, Any]]]]
"""Returns all rows of one question."""


async def known_as(fetch: Fetch, reference: str) -> Found:
    """Return the key that an operator means by its id or name. Raises NotFound, InvalidValue and msgspec.DecodeError."""
    record = of_row(KeyRecord, the_one(await fetch(referred(reference)), reference))
    return Found(key=record, tenants=await tenants_of(fetch, record.org, record.plan))


def referred(reference: str) -> Select[Any]:
    """Return the question for the keys that an id or a name may mean: a name is that of keys that are not revoked."""
    named = KEYS.c.name == reference, KEYS.c.revoked_unix_ms.is_(None)
    return select(KEYS).where(or_(KEYS.c.id == reference, named[0] & named[1]))


def the_one(rows: Sequence[Mapping[str, Any]], reference: str) -> Mapping[str, Any]:
    """Return the key that is meant. Raises NotFound and InvalidValue."""
    if not rows:
        raise NotFound(f"There is no key '{reference[:64]}' in the database")
    if len(rows) > 1:
        ids = ", ".join(sorted(row["id"] for row in rows))
        raise InvalidValue(f"'{reference[:64]}' names {len(rows)} keys: say which by its id: {ids}", param="key")
    return rows[0]


async def tenants_of(fetch: Fetch, org: str | None, plan: str | None) -> Tenants:
    """Return what the database has of an org, its projects, and a plan: the org's where none is named."""
    orgs = await _definitions(fetch, ORGS, ORGS.c.name == org)
    projects = await _definitions(fetch, PROJECTS, PROJECTS.c.org == org)
    plans = await _definitions(fetch, PLANS, PLANS.c.name == (plan or plan_of(orgs.get(org or ""))))
    return Tenants(plans=plans, orgs=orgs, projects={org: projects} if org is not None and projects else {})


async def _definitions(fetch: Fetch, table: Table, where: ColumnElement[bool]) -> dict[str, str]:
    return {row["name"]: row["definition"] for row in await fetch(select(table.c.name, table.c.definition).where(where))}


_NOTE_USE = (
    update(KEYS)
    .where(KEYS.c.id == bindparam("its_id"), or_(KEYS.c.last_used_unix_ms.is_(None), KEYS.c.last_used_unix_ms < bindparam("at")))
    .values(last_used_unix_ms=bindparam("at"))
)


def _holder(digests: Sequence[bytes]) -> Select[Any]:
    by_hmac, by_sha256 = digests
    either = or_(
        and_(SECRETS.c.digest == by_hmac, SECRETS.c.scheme == HMAC),
        and_(SECRETS.c.digest == by_sha256, SECRETS.c.scheme == SHA256),
    )
    return select(*KEYS.c, SECRETS.c.not_after_unix_ms).join_from(SECRETS, KEYS).where(either)


def of_row(kind: type[Kind], row: Mapping[str, Any]) -> Kind:
    """Return a row's columns as the fields of the same names."""
    return kind(**{name: row[name] for name in kind.__struct_fields__})


class _Plan(msgspec.Struct):
    plan: str | None = None


def plan_of(definition: str | None) -> str | None:
    """Return the plan that an org's keys have. Raises msgspec.DecodeError."""
    return None if definition is None else msgspec.json.decode(definition, type=_Plan).plan
