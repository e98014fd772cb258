"""The operator's desk as a command or the operations port has it: a connection of its own to the store that the workers use."""

import contextlib
from collections.abc import AsyncIterator

from gateway.admission.client import Admission, cell_prefix
from gateway.admission.connection import Connection
from gateway.admission.desk import Desk
from gateway.admission.discovery import locator
from gateway.config import Config, compile_catalogue
from gateway.policy.admission import Upstream
from gateway.policy.catalogue import Tier
from gateway.policy.charging import upstreams_of as upstreams_with
from gateway.processes.latest import Current, Latest
from gateway.tasks import Owned

CALL_S = 2.0
"""How long one call may take: no request waits for it."""


@contextlib.asynccontextmanager
async def open_desk(config: Config, redis_url: str) -> AsyncIterator[Desk]:
    """Open the desk of a configuration."""
    async with open_admission(config, redis_url) as admission:
        yield desk_of(admission, lambda: config)


def desk_of(admission: Admission, current: Current) -> Desk:
    """Return the desk at a store, of what is `current` of the configurations that follow each other there."""
    return Desk(admission, Latest(current, upstreams_of))


def upstreams_of(config: Config) -> tuple[Upstream, ...]:
    """Return the upstreams of a configuration: its deployments with each of their credentials."""
    # Keys play no part here, so that no pepper has to be made for them.
    catalogue = compile_catalogue(config, pepper=b"")
    terms = catalogue.tiers[Tier.DEFAULT]
    deployments = (each for model in catalogue.models.values() for each in model.deployments)
    return tuple(upstream for each in deployments for upstream in upstreams_with(each, terms))


@contextlib.asynccontextmanager
async def open_admission(config: Config, redis_url: str) -> AsyncIterator[Admission]:
    """Open the store of a configuration. One that is away is tried again for as long as it is open."""
    connection = Connection(locator(redis_url, ca_file=config.redis.ca_file), Owned(), timeout_s=CALL_S)
    await connection.open()
    try:
        yield Admission(connection, prefix=cell_prefix(config.redis.prefix))
    finally:
        await connection.close()
