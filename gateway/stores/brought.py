"""Keys and what they stand under, brought along from elsewhere, into the tables: again and again without harm.

What is the same stays as it is. What was changed here since, by anything but this, is kept. Nothing that was blocked or revoked
here comes back, no end moves away where it is the period's, and no spend gets less. Unix milliseconds, nano-USD.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec
from sqlalchemy import Table, func, insert, select, update
from sqlalchemy.ext.asyncio import AsyncConnection

from gateway.stores.engine import Database
from gateway.stores.tenancy_schema import AUDIT, KEYS, OPENING_BALANCES, ORGS, PROJECTS, SECRETS

SHA256 = "sha256"
ACTION = "import.litellm"
SOURCE = "litellm"

Definition = Mapping[str, Any]
Where = Mapping[str, Any]


class BroughtKey(msgspec.Struct, frozen=True, kw_only=True):
    """A key: the SHA-256 of its secret, what it may, and until when. `is_ending` ones get no later end than they had.

    `former` are the SHA-256 of secrets that it had before, and until when they are good.
    """

    id: str
    digest: bytes
    display: str
    name: str
    org: str
    definition: Definition
    created_unix_ms: int
    expires_unix_ms: int | None
    last_used_unix_ms: int | None
    blocked: bool
    is_ending: bool
    former: Mapping[bytes, int] = {}

    def __repr__(self) -> str:
        return f"BroughtKey({self.id})"


class Balance(msgspec.Struct, frozen=True):
    """What was spent of a budget before, in a period of ours. `scope` is the budget's name: `kb:month:<key id>` and alike."""

    scope: str
    period_start_unix_ms: int
    nano_usd: int


class Brought(msgspec.Struct, frozen=True):
    """All that comes along: definitions as the file would have them, a project's by its org's name and its own."""

    orgs: dict[str, dict[str, Any]] = {}
    projects: dict[tuple[str, str], dict[str, Any]] = {}
    keys: list[BroughtKey] = []
    balances: dict[tuple[str, int], Balance] = {}


class Counts(msgspec.Struct):
    """How many rows were added, changed, the same, and kept though they differ, because they were changed here."""

    added: int = 0
    changed: int = 0
    same: int = 0
    kept: int = 0


async def bring(database: Database, brought: Brought, now_unix_ms: int, actor: str) -> Counts:
    """Have the tables hold all of it, in one transaction, with a row in the audit where anything was written."""
    engine = database.open_to_write()
    try:
        async with engine.begin() as connection:
            writing = _Writing(connection, now_unix_ms, await _last(connection))
            for name, definition in sorted(brought.orgs.items()):
                await writing.define(ORGS, {"name": name}, definition)
            for (org, name), definition in sorted(brought.projects.items()):
                await writing.define(PROJECTS, {"org": org, "name": name}, definition)
            for key in sorted(brought.keys, key=lambda key: key.id):
                await writing.key(key)
            for balance in brought.balances.values():
                await writing.balance(balance)
            await writing.note(actor)
            return writing.counts
    finally:
        await engine.dispose()


async def _last(connection: AsyncConnection) -> int:
    """Return when this was done last: what changed after that was changed by somebody else."""
    return (await connection.execute(select(func.max(AUDIT.c.at_unix_ms)).where(AUDIT.c.action == ACTION))).scalar() or 0


class _Writing:
    """One run."""

    def __init__(self, connection: AsyncConnection, now_unix_ms: int, last_unix_ms: int) -> None:
        self._connection = connection
        self._now_unix_ms = now_unix_ms
        self._last_unix_ms = last_unix_ms
        self.counts = Counts()

    async def define(self, table: Table, name: Where, definition: Definition) -> None:
        """Have an org or a project so."""
        row = await self._row(table, name)
        await self._put(table, name, row, {"definition": msgspec.json.encode(definition).decode()})

    async def key(self, key: BroughtKey) -> None:
        """Have a key so, and its secret known."""
        row = await self._row(KEYS, {"id": key.id})
        values: dict[str, Any] = {
            "org": key.org,
            "definition": msgspec.json.encode(key.definition).decode(),
            "expires_unix_ms": key.expires_unix_ms,
        }
        if row is None:
            values |= {"created_unix_ms": key.created_unix_ms, "last_used_unix_ms": key.last_used_unix_ms, "source": SOURCE}
            values["name"] = f"{key.name}-{key.id}" if await self._is_taken(key) else key.name
        elif key.is_ending and row["expires_unix_ms"] is not None:
            values["expires_unix_ms"] = min(row["expires_unix_ms"], key.expires_unix_ms or row["expires_unix_ms"])
        await self._put(KEYS, {"id": key.id}, row, values)
        if key.blocked and (row is None or row["blocked_unix_ms"] is None):
            await self._connection.execute(_change(KEYS, {"id": key.id}).values(blocked_unix_ms=self._now_unix_ms))
        for digest, not_after_unix_ms in ((key.digest, None), *key.former.items()):
            if await self._row(SECRETS, {"digest": digest}) is None:
                secret = {"digest": digest, "scheme": SHA256, "key_id": key.id, "display": key.display}
                times = {"created_unix_ms": key.created_unix_ms, "not_after_unix_ms": not_after_unix_ms}
                await self._connection.execute(insert(SECRETS).values(**secret, **times))

    async def balance(self, balance: Balance) -> None:
        """Have at least so much counted as spent."""
        name = {"scope": balance.scope, "period_start_unix_ms": balance.period_start_unix_ms}
        row = await self._row(OPENING_BALANCES, name)
        if row is None:
            await self._connection.execute(insert(OPENING_BALANCES).values(**name, nano_usd=balance.nano_usd, tokens=0))
            self.counts.added += 1
        elif row["nano_usd"] < balance.nano_usd:
            await self._connection.execute(_change(OPENING_BALANCES, name).values(nano_usd=balance.nano_usd))
            self.counts.changed += 1
        else:
            self.counts.same += 1

    async def note(self, actor: str) -> None:
        """Write down that this was done, where anything was."""
        if not self.counts.added + self.counts.changed:
            return
        detail = msgspec.json.encode(msgspec.structs.asdict(self.counts)).decode()
        row = {"at_unix_ms": self._now_unix_ms, "actor": actor, "action": ACTION, "subject": SOURCE, "detail": detail}
        await self._connection.execute(insert(AUDIT).values(**row))

    async def _is_taken(self, key: BroughtKey) -> bool:
        """Return whether another key of the org, one that is not revoked, has the name."""
        named = select(KEYS.c.id).where(KEYS.c.org == key.org, KEYS.c.name == key.name, KEYS.c.revoked_unix_ms.is_(None))
        return (await self._connection.execute(named)).first() is not None

    async def _row(self, table: Table, name: Where) -> Mapping[str, Any] | None:
        found = await self._connection.execute(select(table).where(*_named(table, name)).with_for_update())
        row = found.mappings().first()
        return None if row is None else dict(row)

    async def _put(self, table: Table, name: Where, row: Mapping[str, Any] | None, values: Mapping[str, Any]) -> None:
        if row is None:
            first = {"created_unix_ms": self._now_unix_ms, **values, **name, "updated_unix_ms": self._now_unix_ms}
            await self._connection.execute(insert(table).values(**first))
            self.counts.added += 1
        elif all(row[column] == value for column, value in values.items()):
            self.counts.same += 1
        elif row["updated_unix_ms"] > self._last_unix_ms:
            self.counts.kept += 1
        else:
            await self._connection.execute(_change(table, name).values(**values, updated_unix_ms=self._now_unix_ms))
            self.counts.changed += 1


def _named(table: Table, name: Where) -> Sequence[Any]:
    return [table.c[column] == value for column, value in name.items()]


def _change(table: Table, name: Where) -> Any:
    return update(table).where(*_named(table, name))
