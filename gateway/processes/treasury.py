"""All budgets as the operations port tells them: of orgs with their projects, of the file's keys, of the database's.

Of a budget that the store knows nothing of, the ledger says what was spent, and the store is left as it is.
"""

from collections.abc import AsyncIterator, Mapping, Sequence
from typing import Protocol

import msgspec

from gateway.admission.connection import AdmissionUnavailable
from gateway.config import Config
from gateway.config.compile import compile_key, compile_org
from gateway.config.tenants import Definitions
from gateway.errors import LimiterUnavailable
from gateway.policy.answers import Level, Levels, Unseeded
from gateway.policy.catalogue import Key
from gateway.policy.charges import Charge, Unit
from gateway.policy.charging import tenant_of
from gateway.policy.limits import budget_of, payer_of
from gateway.policy.periods import bounds_ms
from gateway.policy.tenancy import Found, KeyRecord, Tenants
from gateway.policy.treasury import BudgetState, Purse, of_key, of_org, state_of
from gateway.processes.registry import Registry
from gateway.stores.keys import tenants_of
from gateway.stores.minted import DAMAGED, KeyView, Wanted
from gateway.stores.spending import LedgerUnavailableError, Spending
from gateway.web.admin_views import BudgetPage, BudgetsWanted

MOST_OWNERS = 200
"""Of one page: what a key or an org means takes a millisecond or two to find out."""

RETRY_AFTER_MS = 1_000
LATE = ("revoked", DAMAGED)
"""States of keys that nobody can spend by any more."""

Owner = tuple[str, Sequence[Purse]]
"""Whose budgets they are, as a page's `after` names it, and what they are."""


class Store(Protocol):
    """The admission store, as far as it is looked into."""

    async def levels(self, charges: Sequence[Charge]) -> Levels | Unseeded:
        """Return buckets as they are. Raises AdmissionUnavailable."""
        ...


class Treasury:
    """The budgets of one configuration, its database and its store."""

    def __init__(self, config: Config, registry: Registry, store: Store, spending: Spending) -> None:
        self._config = config
        self._orgs = {name: compile_org(name, org) for name, org in config.orgs.items()}
        self._definitions = Definitions(config)
        self._registry = registry
        self._store = store
        self._spending = spending

    async def page(self, wanted: BudgetsWanted) -> BudgetPage:
        """Return the budgets of some owners. Raises LimiterUnavailable, and what the database has to say."""
        purses: list[Purse] = []
        last, looked_at = None, 0
        async for owner, owned in self._owners(wanted):
            if looked_at == MOST_OWNERS or len(purses) >= wanted.limit:
                return BudgetPage(await self._states(purses), last)
            purses += owned
            last, looked_at = owner, looked_at + 1
        return BudgetPage(await self._states(purses), None)

    async def _owners(self, wanted: BudgetsWanted) -> AsyncIterator[Owner]:
        kind, _, name = (wanted.after or "").partition(":")
        if kind in ("", "org"):
            async for owner in self._org_owners(wanted.org, name):
                yield owner
        if kind != "key":
            for key in sorted(self._config.keys, key=lambda key: key.name):
                if wanted.org in (None, key.org) and (kind != "file" or key.name > name):
                    yield f"file:{key.name}", self._own(compile_key(self._config, key))
        async for owner in self._minted_owners(wanted.org, name if kind == "key" else None):
            yield owner

    async def _org_owners(self, org: str | None, after: str) -> AsyncIterator[Owner]:
        ours = {view.name for view in await self._registry.terms.many("org")}
        for name in sorted(ours | self._config.orgs.keys()):
            if org in (None, name) and name > after:
                tenants = await tenants_of(self._registry.tenancy.fetch, name, None)
                probe = KeyRecord(id="", name="any", org=name, plan=None, definition="{}", created_unix_ms=0, updated_unix_ms=0)
                key = self._meaning(probe, tenants)
                yield f"org:{name}", [] if key is None else [*of_org(tenant_of(key, self._orgs))]

    async def _minted_owners(self, org: str | None, after: str | None) -> AsyncIterator[Owner]:
        known: dict[tuple[str, str | None], Tenants] = {}
        while views := await self._registry.keys.many(Wanted(org=org, after=after, limit=MOST_OWNERS)):
            for view in (view for view in views if view.state not in LATE):
                place = view.org, view.plan
                if place not in known:
                    known[place] = await tenants_of(self._registry.tenancy.fetch, *place)
                key = self._meaning(record_of(view), known[place])
                yield f"key:{view.id}", [] if key is None else self._own(key)
            after = views[-1].id

    def _own(self, key: Key) -> Sequence[Purse]:
        return [*of_key(tenant_of(key, self._orgs))]

    def _meaning(self, record: KeyRecord, tenants: Tenants) -> Key | None:
        """Return what a key means, None for one that is let in nowhere."""
        try:
            return self._definitions.key(Found(key=record, tenants=tenants))
        except ValueError:
            return None

    async def _states(self, purses: Sequence[Purse]) -> list[BudgetState]:
        if not purses:
            return []
        try:
            now_ms, levels = await self._levels([purse.charge for purse in purses])
        except (AdmissionUnavailable, LedgerUnavailableError) as away:
            text = "What is left of budgets cannot be told at the moment"
            raise LimiterUnavailable(text, retry_after_ms=RETRY_AFTER_MS) from away
        return [state_of(purse, levels[purse.charge.scope], now_ms) for purse in purses]

    async def _levels(self, charges: Sequence[Charge]) -> tuple[int, Mapping[str, Level]]:
        """Return what is spent and held of budgets, by their names, and when."""
        found: dict[str, Level] = {}
        while isinstance(seen := await self._store.levels(charges), Unseeded):
            for charge in seen.charges:
                began_ms, _ = bounds_ms(seen.now_ms, charge.period_ms)
                spent = await self._spending.spent(budget_of(charge), payer_of(charge), began_ms)
                found[charge.scope] = Level(charge, spent.nano_usd if charge.unit is Unit.NANO_USD else spent.tokens, 0, 0)
            charges = [charge for charge in charges if charge.scope not in found]
        return seen.now_ms, found | {level.charge.scope: level for level in seen.levels}


def record_of(view: KeyView) -> KeyRecord:
    """Return a key as the database has it, as far as it means anything."""
    definition = msgspec.json.encode(view.definition).decode()
    return KeyRecord(
        id=view.id,
        name=view.name,
        org=view.org,
        plan=view.plan,
        definition=definition,
        created_unix_ms=view.created_unix_ms or 0,
        updated_unix_ms=view.updated_unix_ms or 0,
    )
