"""What the store says was spent of each budget, beside what the ledger says. Times are Unix milliseconds."""

import asyncio
from collections.abc import Sequence

import msgspec
from redis.asyncio import Redis

from gateway.admission.client import Admission, cell_prefix, ledger_key
from gateway.admission.discovery import locator
from gateway.admission.redis_client import open_client
from gateway.config import Config
from gateway.policy.answers import Level, Unseeded
from gateway.policy.catalogue import Budget
from gateway.policy.charges import Charge, Unit
from gateway.policy.limits import PAYERS, TOKENS, budget_charges, budget_of, payer_of
from gateway.policy.periods import PERIODS, bounds_ms
from gateway.processes.desk import CALL_S, open_admission
from gateway.stores.database import Reader
from gateway.stores.spending import Spending

LOOKS = 3
"""How often both are looked at before a difference is believed: requests that end in between are in one of the two."""

WRITTEN_S = 5.0
"""How long what was settled may take into the ledger."""

ANY = 1
"""An amount, for a budget whose own is not asked for."""


class Account(msgspec.Struct, frozen=True, kw_only=True):
    """A budget in its present period, in nano-USD or tokens. `live` is the most that what is under way may still take."""

    budget: str
    unit: str
    ledger: int
    store: int
    live: int

    @property
    def difference(self) -> int:
        """Return what the ledger has more than the store."""
        return self.ledger - self.store

    @property
    def agrees(self) -> bool:
        """Return whether the difference is no more than what is under way: it may have ended since the store was looked at."""
        return 0 <= self.difference <= self.live


class Accounts(msgspec.Struct, frozen=True):
    """The budgets that the store knows, and how many events had not reached the ledger."""

    lines: Sequence[Account]
    waiting: int


async def reconciled(config: Config, redis_url: str) -> Accounts:
    """Return both figures of every budget. Raises AdmissionUnavailable, RedisError, LedgerUnavailableError."""
    reader = Reader(config.database.url.reveal())
    redis = open_client(locator(redis_url, ca_file=config.redis.ca_file), timeout_s=CALL_S)
    try:
        async with open_admission(config, redis_url) as admission:
            books = _Books(admission, redis, Spending(reader), config.redis.prefix)
            for _ in range(LOOKS - 1):
                found = await books.compared()
                if all(line.agrees for line in found.lines):
                    return found
            return await books.compared()
    finally:
        await redis.aclose()
        await reader.close()


class _Books:
    def __init__(self, admission: Admission, redis: Redis, spending: Spending, prefix: str) -> None:
        self._admission = admission
        self._redis = redis
        self._spending = spending
        self._prefix = prefix

    async def compared(self) -> Accounts:
        # The store first: what it has posted by then is in the ledger soon, while the reverse is true of nothing.
        levels = [await self._level(charge) for charge in await self._budgets()]
        waiting = await self._written()
        return Accounts([await self._account(*level) for level in levels if level is not None], waiting)

    async def _budgets(self) -> list[Charge]:
        prefix = cell_prefix(self._prefix)
        found = [
            key.decode().removeprefix(prefix)
            for whose in PAYERS
            async for key in self._redis.scan_iter(match=f"{prefix}{whose}:*", count=1_000)
        ]
        return [charge for scope in sorted(found) if (charge := _charge(scope)) is not None]

    async def _level(self, charge: Charge) -> tuple[Level, int] | None:
        seen = await self._admission.levels([charge])
        # What the store does not know of this period is told by the ledger when it is asked for.
        return None if isinstance(seen, Unseeded) else (seen.levels[0], seen.now_ms)

    async def _written(self) -> int:
        """Wait until the ledger has what is in the stream now, within reason. Return how much it has not."""
        waiting = 0
        for _ in range(int(WRITTEN_S * 10)):
            waiting = int(await self._redis.xlen(ledger_key(self._prefix)))
            if not waiting:
                break
            await asyncio.sleep(0.1)
        return waiting

    async def _account(self, level: Level, now_ms: int) -> Account:
        charge = level.charge
        began_ms, _ = bounds_ms(now_ms, charge.period_ms)
        spent = await self._spending.spent(budget_of(charge), payer_of(charge), began_ms)
        is_money = charge.unit is Unit.NANO_USD
        return Account(
            budget=budget_of(charge),
            unit="nano_usd" if is_money else "tokens",
            ledger=spent.nano_usd if is_money else spent.tokens,
            store=level.level,
            live=level.held,
        )


def _charge(scope: str) -> Charge | None:
    """Return the budget that a bucket's name is of; None for a name that this release does not give."""
    whose, _, rest = scope.removesuffix(TOKENS).partition(":")
    period, _, name = rest.partition(":")
    if period not in PERIODS or not name:
        return None
    budget = Budget(tokens=ANY, period=period) if scope.endswith(TOKENS) else Budget(nano_usd=ANY, period=period)
    [charge] = budget_charges(f"{whose}:{name}", budget)
    return charge
