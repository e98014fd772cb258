"""What was changed and by whom: one row with each change, in its own transaction, and none without one. No detail is secret."""

from collections.abc import Mapping
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


async def write(connection: AsyncConnection, act: Act, at_unix_ms: int) -> None:
    """Write a change down beside it."""
    detail = msgspec.json.encode(act.detail).decode()
    row = {"at_unix_ms": at_unix_ms, "actor": act.actor, "action": act.action, "subject": act.subject, "detail": detail}
    await connection.execute(insert(AUDIT).values(**row))


def newest(limit: int, before: int | None = None, subject: str | None = None) -> Select[Any]:
    """Return the question for the newest changes: of those before the row `before`, of one subject where that is given."""
    statement = select(AUDIT).order_by(AUDIT.c.id.desc()).limit(limit)
    if before is not None:
        statement = statement.where(AUDIT.c.id < before)
    return statement if subject is None else statement.where(AUDIT.c.subject == subject)
