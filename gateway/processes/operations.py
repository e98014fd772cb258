"""The operations port's application, over the workers of this gateway, its ledger, its tenants and its store.

The supervisor loads this when the workers are on their way: it takes as long to import as they do.
"""

import contextlib
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Protocol

from msgspec.structs import asdict

from gateway.admission.client import traces_key
from gateway.admission.connection import AdmissionUnavailable
from gateway.admission.desk import Desk
from gateway.admission.discovery import locator
from gateway.admission.redis_client import open_client
from gateway.config import Config, compile_catalogue
from gateway.config.shown import whole
from gateway.gauges import Places, places, upstreams, utc_now
from gateway.policy.credentials import digest, parse_digest
from gateway.processes.declared import declared_by, keys_of
from gateway.processes.desk import CALL_S, desk_of, open_admission
from gateway.processes.latest import Latest
from gateway.processes.pepper import pepper_of
from gateway.processes.registry import open_registry, unix_ms
from gateway.processes.server import Asgi
from gateway.processes.treasury import Treasury
from gateway.stores.reports import Reports
from gateway.stores.spending import Spending
from gateway.stores.traces import TraceReader
from gateway.telemetry.metrics import page
from gateway.telemetry.reloads import figures
from gateway.web.admin import Rooms, Tenants
from gateway.web.admin_views import Configuration, Views
from gateway.web.behind import behind
from gateway.web.gate import Bearers, Gate, Role, Token
from gateway.web.ops import OpsView, build_ops

ADMIN = "admin"
"""What the audit calls whoever comes with `ops.admin_token`."""


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
    """Open what the operations port reads from and changes, for as long as it is served."""
    async with contextlib.AsyncExitStack() as stack:
        admission = await stack.enter_async_context(open_admission(config, view.redis_url))
        registry = await stack.enter_async_context(open_registry(config, view.redis_url, lambda: view.config))
        redis = open_client(locator(view.redis_url, ca_file=config.redis.ca_file), timeout_s=CALL_S)
        stack.push_async_callback(redis.aclose)
        spending, desk = Spending(registry.reader), desk_of(admission, lambda: view.config)
        treasury = Latest(lambda: view.config, lambda now: Treasury(now, registry, admission, spending))
        rooms = Rooms(
            reports=Reports(registry.reader),
            desk=desk,
            traces=TraceReader(redis, traces_key(config.redis.prefix)),
            audited=registry.tenancy.beside,
            tenants=Tenants(
                registry.keys,
                registry.terms,
                lambda: keys_of(view.config, unix_ms),
                Latest(lambda: view.config, declared_by),
            ),
            views=Views(
                budgets=lambda wanted: treasury().page(wanted),
                audit=registry.tenancy.audit,
                configuration=lambda: configuration_of(view),
            ),
        )
        gate = Gate(bearers_of(config, pepper_of(config, Path(config.state_dir))), config.ops.hosts)
        yield behind(config.ops.trusted_proxies, build_ops(view, rooms, gate, Once(view, desk).render))


def configuration_of(view: View) -> Configuration:
    """Return the configuration that is in force, as it is shown."""
    return Configuration(**asdict(view.standing), document=whole(view.config))


class Once:
    """The metrics of the whole gateway that no worker tells, so that they stand on the page once."""

    def __init__(self, view: View, desk: Desk) -> None:
        self._view = view
        self._desk = desk
        self._places = Latest[Places](lambda: view.config, lambda config: places(compile_catalogue(config, pepper=b"")))

    async def render(self) -> bytes:
        """Return the page. A store that does not answer says nothing of itself, and nothing is made up for it."""
        try:
            standings = await self._desk.standings()
        except AdmissionUnavailable:
            standings = ()
        return page((*upstreams(self._places(), standings, utc_now()), *figures(self._view.standing)))


def bearers_of(config: Config, pepper: bytes) -> Bearers:
    """Return all tokens of the admin API."""
    tokens = [
        Token(
            token.name,
            Role[token.role.upper()],
            parse_digest(token.digest or "") if token.secret is None else digest(pepper, token.secret.reveal()),
        )
        for token in config.ops.tokens
    ]
    if config.ops.admin_token:
        tokens.append(Token(ADMIN, Role.ADMIN, digest(pepper, config.ops.admin_token.reveal())))
    return Bearers(tokens, pepper)
