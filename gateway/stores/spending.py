"""What was spent under a budget, by the ledger: for an admission store that knows nothing of it. Unix milliseconds.

What a request took falls into the period in which it ended, as it does in the admission store.
"""

from collections.abc import Mapping

import msgspec
from sqlalchemy import Select, func, select
from sqlalchemy.exc import SQLAlchemyError

from gateway.stores.database import MissingLedgerError, Reader
from gateway.stores.events import Rank
from gateway.stores.schema import EVENTS
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

    async def spent(self, payer: Mapping[str, str], since_unix_ms: int) -> Spent:
        """Return what the requests have come to that ended since then; `payer` maps columns to what they must hold.

        Raises LedgerUnavailableError.
        """
        try:
            [row] = await self._reader.fetch(_spent(payer, since_unix_ms))
        except (SQLAlchemyError, OSError, MissingLedgerError, SchemaVersionError) as error:
            raise LedgerUnavailableError(str(error)) from error
        return Spent(int(row["nano_usd"] or 0), int(row["tokens"] or 0))


def _spent(payer: Mapping[str, str], since_unix_ms: int) -> Select[tuple[int | None, int | None]]:
    ended_unix_ms = EVENTS.c.started_unix_ms + func.coalesce(EVENTS.c.duration_ms, 0)
    tokens = EVENTS.c.input_tokens + EVENTS.c.output_tokens
    return select(func.sum(EVENTS.c.cost_nano_usd).label("nano_usd"), func.sum(tokens).label("tokens")).where(
        EVENTS.c.started_unix_ms >= since_unix_ms - LONGEST_LIFE_MS,
        ended_unix_ms >= since_unix_ms,
        EVENTS.c.rank > Rank.OPEN.value,
        *(EVENTS.c[column] == value for column, value in payer.items()),
    )
