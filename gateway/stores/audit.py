"""What was changed and by whom: one row with each change, in its own transaction, and none without one. No detail is secret."""

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec
from sqlalchemy import Select, insert, select
from sqlalchemy.ext.asyncio import AsyncConnection

from gateway.stores.tenancy_schema import AUDIT


class Act(msgspec.Struct, frozen=True):
    """One change: who made it, what it was (`key.revoke`), of what (`key:3nV5kq0Zx1`), and its particulars."""

    actor: str
    action: str
    subject: str
    detail: Mapping[str, Any] = {}


def ordered(actor: str, word: str, deployments: Sequence[str]) -> Act:
    """Return an operator's word on deployments."""
    return Act(actor, f"upstreams.{word}", "upstreams", {"deployments": deployments})


async def write(connection: AsyncConnection, act: Act, at_unix_ms: int) -> None:
    """Write a change down beside it."""
    detail = msgspec.json.encode(act.detail).decode()
    row = {"at_unix_ms": at_unix_ms, "actor": act.actor, "action": act.action, "subject": act.subject, "detail": detail}
    await connection.execute(insert(AUDIT).values(**row))


class Sought(msgspec.Struct, frozen=True, kw_only=True):
    """Which changes are asked for: before the row `before`, and of one subject, actor or action where that is given."""

    limit: int = 100
    before: int | None = None
    subject: str | None = None
    actor: str | None = None
    action: str | None = None


def newest(sought: Sought) -> Select[Any]:
    """Return the question for the newest changes."""
    statement = select(AUDIT).order_by(AUDIT.c.id.desc()).limit(sought.limit)
    if sought.before is not None:
        statement = statement.where(AUDIT.c.id < sought.before)
    for column in (AUDIT.c.subject, AUDIT.c.actor, AUDIT.c.action):
        if (wanted := getattr(sought, column.name)) is not None:
            statement = statement.where(column == wanted)
    return statement
