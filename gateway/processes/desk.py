"""The operator's desk as a command or the operations port has it: a connection of its own to the store that the workers use."""

import contextlib
from collections.abc import AsyncIterator, Callable

from gateway.admission.client import Admission, cell_prefix
from gateway.admission.connection import Connection
from gateway.admission.desk import Desk
from gateway.admission.discovery import locator
from gateway.config import Config, compile_catalogue
from gateway.policy.admission import Upstream
from gateway.policy.catalogue import Tier
from gateway.policy.charging import upstream_of
from gateway.tasks import Owned

CALL_S = 2.0
"""How long one call may take: no request waits for it."""


@contextlib.asynccontextmanager
async def open_desk(config: Config, redis_url: str, current: Callable[[], Config] | None = None) -> AsyncIterator[Desk]:
    """Open the desk of a configuration, or of what is `current` of those that follow it at one store.

    A store that is away is tried again for as long as the desk is open.
    """
    async with open_admission(config, redis_url) as admission:
        yield Desk(admission, Upstreams(current or (lambda: config)))


class Upstreams:
    """The upstreams of the configuration that is in force, worked out once for each."""

    def __init__(self, current: Callable[[], Config]) -> None:
        self._current = current
        self._config: Config | None = None
        self._known: tuple[Upstream, ...] = ()

    def __call__(self) -> tuple[Upstream, ...]:
        """Return them."""
        config = self._current()
        if config is not self._config:
            # Keys play no part here, so that no pepper has to be made for them.
            catalogue = compile_catalogue(config, pepper=b"")
            terms = catalogue.tiers[Tier.DEFAULT]
            self._known = tuple(upstream_of(each, terms) for model in catalogue.models.values() for each in model.deployments)
            self._config = config
        return self._known


@contextlib.asynccontextmanager
async def open_admission(config: Config, redis_url: str) -> AsyncIterator[Admission]:
    """Open the store where the gateways of a configuration keep their limits and budgets."""
    connection = Connection(locator(redis_url, ca_file=config.redis.ca_file), Owned(), timeout_s=CALL_S)
    await connection.open()
    try:
        yield Admission(connection, prefix=cell_prefix(config.redis.prefix))
    finally:
        await connection.close()
