"""The database of tenants as a command or the operations port has it: to read, and to change with word of it to every worker."""

import contextlib
import secrets
import time
from collections.abc import AsyncIterator, Sequence
from pathlib import Path

import msgspec

from gateway.admission.changes import Herald
from gateway.admission.client import cell_prefix
from gateway.admission.discovery import locator
from gateway.admission.redis_client import open_client
from gateway.config import Config
from gateway.config.tenants import Definitions
from gateway.policy.tenancy import Found, Tenants
from gateway.processes.desk import CALL_S
from gateway.processes.latest import Current, Latest
from gateway.processes.pepper import pepper_of
from gateway.stores.database import Reader
from gateway.stores.minted import MintedKeys
from gateway.stores.tenancy import Crier, Means, Tenancy
from gateway.stores.terms import Terms


class Registry(msgspec.Struct, frozen=True):
    """Keys, and the orgs, plans and projects that they stand under; `tenancy` has the audit of both.

    `reader` is what all of it is read by: whoever else reads the same database here may do so too.
    """

    reader: Reader
    tenancy: Tenancy
    keys: MintedKeys
    terms: Terms


class Said:
    """What the configuration that is in force has to say to definitions."""

    def __init__(self, current: Current) -> None:
        self._definitions = Latest(current, Definitions)

    def clashes(self, tenants: Tenants) -> tuple[str, ...]:
        """Return a line for each name that is the file's own."""
        return self._definitions().clashes(tenants)

    def check(self, tenants: Tenants, key: Found | None = None) -> None:
        """Raise InvalidValue with all that is wrong with definitions, and with those of a key."""
        self._definitions().check(tenants, key)


class Nobody:
    """In the place of workers where no gateway runs: there is nobody to tell."""

    async def tell(self, key_ids: Sequence[str], *, cuts: bool = False) -> bool:  # noqa: ARG002 - as any crier
        """Have told everybody."""
        return True


@contextlib.asynccontextmanager
async def open_registry(config: Config, redis_url: str | None, current: Current | None = None) -> AsyncIterator[Registry]:
    """Open the database of a configuration; `redis_url` is where its workers' store is, None where no gateway runs.

    `current` returns which of the configurations that follow it has a say in definitions, where it is not the last one.
    Nothing is connected to before it is asked; whether the tables are there, `tenancy.open` sees to.
    """
    async with contextlib.AsyncExitStack() as stack:
        crier: Crier = Nobody()
        if redis_url is not None:
            redis = open_client(locator(redis_url, ca_file=config.redis.ca_file), timeout_s=CALL_S)
            stack.push_async_callback(redis.aclose)
            crier = Herald(redis, cell_prefix(config.redis.prefix))
        means = Means(pepper_of(config, Path(config.state_dir)), secrets.token_bytes, unix_ms)
        reader = Reader(config.database.url.reveal(), config.database.pool)
        stack.push_async_callback(reader.close)
        tenancy = Tenancy(reader, Said(current or (lambda: config)), crier, means)
        stack.push_async_callback(tenancy.close)
        yield Registry(reader, tenancy, MintedKeys(tenancy), Terms(tenancy))


def unix_ms() -> int:
    """Return the wall clock in Unix milliseconds."""
    return time.time_ns() // 1_000_000
