"""The operations port's application, over the workers of this gateway, its ledger and its store.

The supervisor loads this when the workers are on their way: it takes as long to import as they do.
"""

import contextlib
from collections.abc import AsyncIterator
from typing import Protocol

from gateway.admission.client import traces_key
from gateway.admission.connection import AdmissionUnavailable
from gateway.admission.desk import Desk
from gateway.admission.discovery import locator
from gateway.admission.redis_client import open_client
from gateway.config import Config, compile_catalogue
from gateway.gauges import Places, places, upstreams, utc_now
from gateway.processes.desk import CALL_S, open_desk
from gateway.processes.server import Asgi
from gateway.stores.database import Reader
from gateway.stores.reports import Reports
from gateway.stores.traces import TraceReader
from gateway.telemetry.metrics import page
from gateway.telemetry.reloads import figures
from gateway.web.admin import Rooms
from gateway.web.ops import OpsView, build_ops


class View(OpsView, Protocol):
    """What this port sees of the gateway, what it goes by, and where the store is that the workers were told."""

    @property
    def config(self) -> Config:
        """Return the configuration that is in force."""
        ...

    @property
    def redis_url(self) -> str:
        """Return the store's URL."""
        ...


@contextlib.asynccontextmanager
async def operations(view: View, config: Config) -> AsyncIterator[Asgi]:
    """Open what the operations port reads from, for as long as it is served."""
    async with contextlib.AsyncExitStack() as stack:
        reader = Reader(config.database.url.reveal(), config.database.pool)
        stack.push_async_callback(reader.close)
        desk = await stack.enter_async_context(open_desk(config, view.redis_url, lambda: view.config))
        redis = open_client(locator(view.redis_url, ca_file=config.redis.ca_file), timeout_s=CALL_S)
        stack.push_async_callback(redis.aclose)
        traces = TraceReader(redis, traces_key(config.redis.prefix))
        once = Once(view, desk)
        yield build_ops(view, Rooms(Reports(reader), desk, traces), config.ops.admin_token, once.render)


class Once:
    """The metrics of the whole gateway that no worker tells, so that they stand on the page once."""

    def __init__(self, view: View, desk: Desk) -> None:
        self._view = view
        self._desk = desk
        self._places: Places = {}
        self._generation = 0

    async def render(self) -> bytes:
        """Return the page. A store that does not answer says nothing of itself, and nothing is made up for it."""
        try:
            standings = await self._desk.standings()
        except AdmissionUnavailable:
            standings = ()
        return page((*upstreams(self._known(), standings, utc_now()), *figures(self._view.standing)))

    def _known(self) -> Places:
        if self._generation != self._view.standing.generation:
            self._generation = self._view.standing.generation
            self._places = places(compile_catalogue(self._view.config, pepper=b""))
        return self._places
