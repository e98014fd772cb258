"""What was spent under a budget, by the database: for an admission store that knows nothing of it. Unix milliseconds.

That is what the ledger's requests took, each in the period in which it ended, as in the admission store; and what was spent
elsewhere before, which came along as the period's opening balance.
"""

from collections.abc import Mapping

import msgspec
from sqlalchemy import Select, func, select
from sqlalchemy.exc import SQLAlchemyError

from gateway.stores.database import MissingLedgerError, Reader
from gateway.stores.events import Rank
from gateway.stores.schema import EVENTS
from gateway.stores.tenancy_schema import OPENING_BALANCES
from gateway.stores.versions import SchemaVersionError

LONGEST_LIFE_MS = 86_400_000
"""No request lives as long: of those that began before, none ended in the period. The index is by the start."""


class LedgerUnavailableError(Exception):
    """The ledger cannot be read now."""


class Spent(msgspec.Struct, frozen=True):
    """What requests came to: money, and tokens in and out."""

    nano_usd: int
    tokens: int


class Spending:
    """Answers how much was spent."""

    def __init__(self, reader: Reader) -> None:
        self._reader = reader

    async def spent(self, budget: str, payer: Mapping[str, str], since_unix_ms: int) -> Spent:
        """Return what was spent of a budget in the period that began then; `payer` maps columns to what they must hold.

        Raises LedgerUnavailableError.
        """
        try:
            [row] = await self._reader.fetch(_spent(budget, payer, since_unix_ms))
        except (SQLAlchemyError, OSError, MissingLedgerError, SchemaVersionError) as error:
            raise LedgerUnavailableError(str(error)) from error
        return Spent(int(row["nano_usd"]), int(row["tokens"]))


def _spent(budget: str, payer: Mapping[str, str], since_unix_ms: int) -> Select[tuple[int, int]]:
    ended_unix_ms = EVENTS.c.started_unix_ms + func.coalesce(EVENTS.c.duration_ms, 0)
    tokens = EVENTS.c.input_tokens + EVENTS.c.output_tokens
    opening = select(OPENING_BALANCES).where(
        OPENING_BALANCES.c.scope == budget, OPENING_BALANCES.c.period_start_unix_ms == since_unix_ms
    )
    before = {name: opening.with_only_columns(OPENING_BALANCES.c[name]).scalar_subquery() for name in ("nano_usd", "tokens")}
    return select(
        (func.coalesce(func.sum(EVENTS.c.cost_nano_usd), 0) + func.coalesce(before["nano_usd"], 0)).label("nano_usd"),
        (func.coalesce(func.sum(tokens), 0) + func.coalesce(before["tokens"], 0)).label("tokens"),
    ).where(
        EVENTS.c.started_unix_ms >= since_unix_ms - LONGEST_LIFE_MS,
        ended_unix_ms >= since_unix_ms,
        EVENTS.c.rank > Rank.OPEN.value,
        *(EVENTS.c[column] == value for column, value in payer.items()),
    )
