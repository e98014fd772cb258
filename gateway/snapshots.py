"""A catalogue with what it takes to act on it: the planner, each provider's dialect, each deployment's connections."""

import ssl
from pathlib import Path

import msgspec

from gateway.job import Snapshot
from gateway.policy.accounts import accounts
from gateway.policy.catalogue import Catalogue, Deployment, Provider, Timeouts
from gateway.policy.credentials import user_hash
from gateway.policy.experience import Experience
from gateway.policy.figures import Figures
from gateway.policy.routing import Planner
from gateway.policy.strategy import Strategy
from gateway.providers import DIALECTS
from gateway.upstream import connect
from gateway.upstream.origin import tls_context
from gateway.upstream.transport import Transport

SPARE_CONNECTIONS = 8
"""Beyond a deployment's ceiling: a slot in the store is free a moment before its connection is."""

UNBOUNDED_CONNECTIONS = 1_000
"""For a deployment without a ceiling: half of what one worker has in flight at most, unless it is told otherwise."""


class Line(msgspec.Struct, frozen=True):
    """All that connections to a deployment depend on; `trusted` is what its `ca_file` holds."""

    base_url: str
    transport: str
    proxy: str | None
    trusted: bytes | None
    timeouts: Timeouts
    most: int


class Transports:
    """Each deployment's own connections, kept from one snapshot to the next where nothing that they depend on has changed."""

    def __init__(self) -> None:
        self._open: dict[str, tuple[Line, Transport]] = {}
        self._left: list[Transport] = []
        self._leaving: list[Transport] = []
        self._contexts: dict[bytes | None, ssl.SSLContext] = {}
        """By what is trusted. Loading the roots takes tens of milliseconds: deployments that trust the same ones share them."""

    def __len__(self) -> int:
        """Return how many have been left behind and are still open."""
        return len(self._left) + len(self._leaving)

    def of(self, catalogue: Catalogue) -> dict[str, Transport]:
        """Return the connections of each deployment, as many as it may have requests; none is open before it is used.

        Raises OSError for a `ca_file` that cannot be used.
        """
        lines = {
            deployment.id: (line_of(deployment, model.timeouts), deployment.provider, model.timeouts)
            for model in catalogue.models.values()
            for deployment in model.deployments
        }
        before, self._open = self._open, {}
        for name, (line, provider, timeouts) in lines.items():
            known = before.get(name)
            is_same = known is not None and known[0] == line
            self._open[name] = known if known is not None and is_same else (line, self._connect(line, provider, timeouts))
        stayed = {id(transport) for _, transport in self._open.values()}
        self._left += [transport for _, transport in before.values() if id(transport) not in stayed]
        return {name: transport for name, (_, transport) in self._open.items()}

    def leave(self) -> tuple[Transport, ...]:
        """Return connections that no deployment has since the latest catalogue; whoever asked is to `close` them in time."""
        left, self._left = self._left, []
        self._leaving += left
        return tuple(left)

    async def close(self, transport: Transport) -> None:
        """Close connections that no deployment has any more."""
        self._leaving.remove(transport)
        await transport.aclose()

    async def aclose(self) -> None:
        """Close all that is open."""
        for transport in [*self._left, *self._leaving, *(transport for _, transport in self._open.values())]:
            await transport.aclose()

    def _connect(self, line: Line, provider: Provider, timeouts: Timeouts) -> Transport:
        if line.trusted not in self._contexts and provider.base_url.startswith("https:"):
            self._contexts[line.trusted] = tls_context(provider.ca_file)
        return connect(provider, timeouts, max_connections=line.most, tls=self._contexts.get(line.trusted))


def line_of(deployment: Deployment, timeouts: Timeouts) -> Line:
    """Return what the connections to a deployment depend on."""
    provider, ceiling = deployment.provider, deployment.max_concurrency
    most = UNBOUNDED_CONNECTIONS if ceiling is None else min(ceiling + SPARE_CONNECTIONS, UNBOUNDED_CONNECTIONS)
    trusted = None if provider.ca_file is None else Path(provider.ca_file).read_bytes()
    return Line(provider.base_url, provider.transport, provider.proxy, trusted, timeouts, most)


class Known(msgspec.Struct, frozen=True):
    """What a worker has learned, whatever the configuration."""

    experience: Experience
    figures: Figures


def snapshot_of(
    catalogue: Catalogue, known: Known, transports: dict[str, Transport], lease_ttl_s: float, pepper: bytes
) -> Snapshot:
    """Return the catalogue with what it takes to act on it."""
    by_weight = all(model.strategy is Strategy.WEIGHTED for model in catalogue.models.values())
    providers = {d.provider.name: d.provider for model in catalogue.models.values() for d in model.deployments}
    return Snapshot(
        catalogue=catalogue,
        planner=Planner(catalogue, known.experience),
        dialects={name: DIALECTS[each.dialect](each) for one in providers.values() for name, each in accounts(one).items()},
        transports=transports,
        lease_ttl_ms=round(lease_ttl_s * 1000),
        hash_user=lambda org, user: user_hash(pepper, org, user),
        figures=None if by_weight else known.figures,
    )
