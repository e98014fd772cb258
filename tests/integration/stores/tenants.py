"""A database of tenants with rules of a small configuration, a crier that only remembers, and a clock that is set."""

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from itertools import count

from gateway.config.tenants import Definitions
from gateway.processes.registry import Registry
from gateway.stores.database import Reader
from gateway.stores.minted import MintedKeys
from gateway.stores.tenancy import Means, Tenancy
from gateway.stores.terms import Terms
from tests.unit.config.reading import config

FILE = """
plans: {pro: {limits: {rpm: 600}, tiers: [priority, default]}}
orgs: {acme: {plan: pro, projects: {search: {}}}}
"""
PEPPER = b"pepper-of-this-test"
START_UNIX_MS = 1_790_000_000_000


class Crier:
    """Remembers what was told; `hears` is what it says of the store."""

    def __init__(self) -> None:
        self.told: list[tuple[tuple[str, ...], bool]] = []
        self.hears = True

    async def tell(self, key_ids: Sequence[str], *, cuts: bool = False) -> bool:
        self.told.append((tuple(key_ids), cuts))
        return self.hears


class World:
    """A registry, and the hands that turn it."""

    def __init__(self, url: str) -> None:
        self.url = url
        self.crier = Crier()
        self.now_unix_ms = START_UNIX_MS
        chances = count(1)
        means = Means(PEPPER, lambda size: next(chances).to_bytes(size), lambda: self.now_unix_ms)
        reader = Reader(url)
        tenancy = Tenancy(reader, Definitions(config(FILE)), self.crier, means)
        self.registry = Registry(reader, tenancy, MintedKeys(tenancy), Terms(tenancy))

    @property
    def keys(self) -> MintedKeys:
        return self.registry.keys

    @property
    def terms(self) -> Terms:
        return self.registry.terms

    async def acts(self) -> list[tuple[str, str, str]]:
        """Return who did what to whom, the oldest first."""
        rows = await self.registry.tenancy.audit()
        return [(row.actor, row.action, row.subject) for row in reversed(rows)]


@asynccontextmanager
async def world_of(url: str) -> AsyncIterator[World]:
    world = World(url)
    await world.registry.tenancy.open()
    try:
        yield world
    finally:
        await world.registry.tenancy.close()
        await world.registry.reader.close()
