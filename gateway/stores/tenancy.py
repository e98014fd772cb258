"""The ground that every change of tenants stands on: one transaction with its audit row, then word of it to the workers.

What a change would mean is checked beside all that is there before it is made. Reads see what is committed. Unix milliseconds.
"""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Any, Protocol, TypeVar

import msgspec
from sqlalchemy import Executable, Select, Table, select
from sqlalchemy.exc import IntegrityError
from sqlalchemy.ext.asyncio import AsyncConnection

from gateway.errors import Conflict, Outdated
from gateway.policy.tenancy import Found, Tenants
from gateway.stores.audit import Act, Sought, newest, write
from gateway.stores.database import Reader
from gateway.stores.keys import Fetch, of_row
from gateway.stores.tenancy_schema import ORGS, PLANS, PROJECTS
from gateway.stores.versions import admit, upgrade
from gateway.tasks import Owned

Made = TypeVar("Made")


ANY_KEY = ""
"""In the place of a key's id, for workers: the change may be any key's business."""


class Rules(Protocol):
    """What the configuration has to say to definitions."""

    def clashes(self, tenants: Tenants) -> tuple[str, ...]:
        """Return a line for each name that is the file's own."""
        ...

    def check(self, tenants: Tenants, key: Found | None = None) -> None:
        """Raise InvalidValue with all that is wrong with definitions, and with those of a key."""
        ...


class Crier(Protocol):
    """Who tells the workers of changes."""

    async def tell(self, key_ids: Sequence[str], *, cuts: bool = False) -> bool:
        """Tell it, and return whether the store took it."""
        ...


class Means(msgspec.Struct, frozen=True):
    """What changes are made with: the pepper of digests, chance, and the time (Unix ms)."""

    pepper: bytes
    chance: Callable[[int], bytes]
    unix_ms: Callable[[], int]

    def __repr__(self) -> str:
        return "Means(***)"


class AuditRow(msgspec.Struct, frozen=True, kw_only=True):
    """One change that was made."""

    id: int
    at_unix_ms: int
    actor: str
    action: str
    subject: str
    detail: dict[str, Any]


class Tenancy:
    """The database of `reader`, whose owner closes it, as those see it who change it: by one connection more."""

    def __init__(self, reader: Reader, rules: Rules, crier: Crier, means: Means) -> None:
        self.rules = rules
        self.crier = crier
        self.means = means
        self._database = reader.database
        self._engine = reader.database.open_to_write()
        self._reader = reader
        self._work = Owned()

    async def open(self) -> None:
        """See that the tables are there; a SQLite file is made. Raises SchemaVersionError, and what the database has to say."""
        if self._database.is_sqlite:
            await upgrade(self._database)
        else:
            await admit(self._database)

    async def close(self) -> None:
        """Finish what is being changed and close the connection."""
        await self._work.wait()
        await self._engine.dispose()

    async def fetch(self, statement: Select[Any]) -> list[dict[str, Any]]:
        """Return all rows of one question."""
        return await self._reader.fetch(statement)

    async def audit(self, sought: Sought | None = None) -> list[AuditRow]:
        """Return changes, the newest first."""
        rows = await self.fetch(newest(sought or Sought()))
        return [of_row(AuditRow, {**row, "detail": msgspec.json.decode(row["detail"])}) for row in rows]

    @asynccontextmanager
    async def change(self) -> AsyncIterator["Transaction"]:
        """Make changes together or not at all. Raises Conflict for a name that somebody else took meanwhile."""
        try:
            async with self._engine.begin() as connection:
                yield Transaction(connection, self.means.unix_ms())
        except IntegrityError as error:
            raise Conflict("A name is taken already") from error

    async def beside(self, act: Act, work: Callable[[], Awaitable[Made]]) -> Made:
        """Have something changed elsewhere, with its row here: where either cannot be, neither is, unless the last step fails."""
        return await self.finish(self._beside(act, work))

    async def _beside(self, act: Act, work: Callable[[], Awaitable[Made]]) -> Made:
        async with self.change() as change:
            await change.note(act)
            return await work()

    async def finish(self, work: Coroutine[Any, Any, Made]) -> Made:
        """Await a change; a caller that leaves does not end it half-way: it would leave its locks behind."""
        return await asyncio.shield(self._work.spawn(work, name="tenancy"))


async def declared(fetch: Fetch) -> Tenants:
    """Return the name of every plan, org and project of the database, without what they are."""
    plans, orgs = [{row["name"]: "" for row in await fetch(select(table.c.name))} for table in (PLANS, ORGS)]
    projects: dict[str, dict[str, str]] = {}
    for row in await fetch(select(PROJECTS.c.org, PROJECTS.c.name)):
        projects.setdefault(row["org"], {})[row["name"]] = ""
    return Tenants(plans=plans, orgs=orgs, projects=projects)


class Transaction:
    """Changes that are made together, at one moment."""

    def __init__(self, connection: AsyncConnection, now_unix_ms: int) -> None:
        self._connection = connection
        self.now_unix_ms = now_unix_ms

    async def fetch(self, statement: Select[Any]) -> Sequence[Mapping[str, Any]]:
        """Return all rows of one question."""
        return [dict(row) for row in (await self._connection.execute(statement)).mappings()]

    async def lock(self, table: Table, *where: Any) -> Mapping[str, Any] | None:
        """Return a row that nobody else changes before the end, None where there is none."""
        rows = await self.fetch(select(table).where(*where).with_for_update())
        return rows[0] if rows else None

    async def execute(self, statement: Executable) -> None:
        """Make a change."""
        await self._connection.execute(statement)

    async def note(self, act: Act) -> None:
        """Write down what is changed."""
        await write(self._connection, act, self.now_unix_ms)


def check_unchanged(row: Mapping[str, Any] | None, expected_updated_unix_ms: int | None) -> None:
    """Raise Outdated where a row is not as its changer saw it; 0 is to have seen none."""
    found = 0 if row is None else row["updated_unix_ms"]
    if expected_updated_unix_ms not in (None, found):
        raise Outdated("It has been changed since: look at it again")


def later(now_unix_ms: int, updated_unix_ms: int) -> int:
    """Return when a change was made: always after the one before it, or two would look alike."""
    return max(now_unix_ms, updated_unix_ms + 1)
