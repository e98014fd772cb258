"""The operations port's application, over the workers of this gateway, its ledger, its tenants and its store.

The supervisor loads this when the workers are on their way: it takes as long to import as they do.
"""

import contextlib
from collections.abc import AsyncIterator
from functools import partial
from pathlib import Path
from typing import Protocol

from gateway.admission.client import traces_key
from gateway.admission.discovery import locator
from gateway.admission.redis_client import open_client
from gateway.config import Config
from gateway.config.shown import whole
from gateway.policy.credentials import digest, parse_digest
from gateway.processes.declared import declared_by, keys_of
from gateway.processes.desk import CALL_S, desk_of, open_admission
from gateway.processes.pepper import pepper_of
from gateway.processes.registry import open_registry, unix_ms
from gateway.processes.server import Asgi
from gateway.processes.supervisor import Source
from gateway.processes.treasury import Treasury
from gateway.stores.database import Reader
from gateway.stores.reports import Reports
from gateway.stores.spending import Spending
from gateway.stores.traces import TraceReader
from gateway.web.admin import Rooms, Tenants
from gateway.web.admin_views import Configuration, Views
from gateway.web.behind import behind
from gateway.web.gate import Bearers, Gate, Role, Token
from gateway.web.ops import OpsView, build_ops

ADMIN = "admin"
"""What the audit calls whoever comes with `ops.admin_token`."""


class View(OpsView, Protocol):
    """What this port sees of the gateway: where the store is that the workers were told, and what the configuration was."""

    @property
    def redis_url(self) -> str:
        """Return the store's URL."""
        ...

    @property
    def source(self) -> Source:
        """Return where the configuration came from."""
        ...


@contextlib.asynccontextmanager
async def operations(view: View, config: Config) -> AsyncIterator[Asgi]:
    """Open what the operations port reads from and changes, for as long as it is served."""
    async with contextlib.AsyncExitStack() as stack:
        reader = Reader(config.database.url.reveal(), config.database.pool)
        stack.push_async_callback(reader.close)
        admission = await stack.enter_async_context(open_admission(config, view.redis_url))
        registry = await stack.enter_async_context(open_registry(config, view.redis_url))
        redis = open_client(locator(view.redis_url, ca_file=config.redis.ca_file), timeout_s=CALL_S)
        stack.push_async_callback(redis.aclose)
        rooms = Rooms(
            reports=Reports(reader),
            desk=desk_of(config, admission),
            traces=TraceReader(redis, traces_key(config.redis.prefix)),
            audited=registry.tenancy.beside,
            tenants=Tenants(registry.keys, registry.terms, partial(keys_of, config, unix_ms), declared_by(config)),
            views=Views(
                budgets=Treasury(config, registry, admission, Spending(reader)).page,
                audit=registry.tenancy.audit,
                configuration=configuration_of(view.source, config),
            ),
        )
        gate = Gate(bearers_of(config, pepper_of(config, Path(config.state_dir))), config.ops.hosts)
        yield behind(config.ops.trusted_proxies, build_ops(view, rooms, gate))


def configuration_of(source: Source, config: Config) -> Configuration:
    """Return the configuration that is running, as it is shown."""
    return Configuration(
        path=str(source.path),
        sha256=source.sha256,
        read_unix_ms=source.read_unix_ms,
        findings=source.findings,
        document=whole(config),
    )


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
