"""What was spent under a budget, by the ledger: for an admission store that knows nothing of it. Unix milliseconds, nano-USD.

A request's cost falls into the period in which it ended, as it does in the admission store.
"""

from collections.abc import Mapping

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


class Spending:
    """Answers how much was spent."""

    def __init__(self, reader: Reader) -> None:
        self._reader = reader

    async def nano_usd(self, payer: Mapping[str, str], since_unix_ms: int) -> int:
        """Return what the requests have cost that ended since then; `payer` maps columns to what they must hold.

        Raises LedgerUnavailableError.
        """
        try:
            [row] = await self._reader.fetch(_spent(payer, since_unix_ms))
        except (SQLAlchemyError, OSError, MissingLedgerError, SchemaVersionError) as error:
            raise LedgerUnavailableError(str(error)) from error
        return int(row["spent"] or 0)


def _spent(payer: Mapping[str, str], since_unix_ms: int) -> Select[tuple[int | None]]:
    ended_unix_ms = EVENTS.c.started_unix_ms + func.coalesce(EVENTS.c.duration_ms, 0)
    return select(func.sum(EVENTS.c.cost_nano_usd).label("spent")).where(
        EVENTS.c.started_unix_ms >= since_unix_ms - LONGEST_LIFE_MS,
        ended_unix_ms >= since_unix_ms,
        EVENTS.c.rank > Rank.OPEN.value,
        *(EVENTS.c[column] == value for column, value in payer.items()),
    )
