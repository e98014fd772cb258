"""What lives as long as one reading of the configuration: all that requests go by, made whole before the first of them does.

The room next door, `gateway.app`, has what lives as long as the worker. A worker that is told of a new reading makes its next
generation beside the one that serves, and changes over in one assignment; requests keep the snapshot that they began with.
"""

import asyncio

import msgspec
from msgspec.structs import replace

from gateway.config import Config, Edition, compile_catalogue
from gateway.config.secrecy import secrets_of
from gateway.config.tenants import Definitions
from gateway.gauges import places
from gateway.job import Snapshot
from gateway.policy.catalogue import Catalogue
from gateway.policy.experience import Experience
from gateway.policy.figures import Figures
from gateway.snapshots import Known, Transports, snapshot_of
from gateway.telemetry.labels import Labels
from gateway.upstream.transport import Transport
from gateway.watch import Sweep
from gateway.web.api import routes
from gateway.web.inference import Caps

CLEAR_EVERY_S = 0.2
"""How often it is looked whether connections that no deployment has any more may be closed."""


class Generation(msgspec.Struct, frozen=True):
    """One reading of the configuration, ready to serve: its snapshot, and what its names mean to keys, metrics and the floor."""

    snapshot: Snapshot
    definitions: Definitions
    labels: Labels
    caps: Caps

    @property
    def number(self) -> int:
        """Return which one it is of those that followed each other."""
        return self.snapshot.generation


class Generations:
    """Makes generations, one after the other. What was learned goes from each to the next."""

    def __init__(self, pepper: bytes, figures: Figures) -> None:
        self._pepper = pepper
        self._figures = figures
        self.experience = Experience()
        self.transports = Transports()

    def next(self, edition: Edition) -> Generation:
        """Return the generation of a reading; connections of deployments that stay as they were stay open.

        Takes milliseconds, and no loop. Raises OSError for a `ca_file` that cannot be used.
        """
        config = edition.config
        catalogue = compile_catalogue(config, self._pepper)
        known = Known(self.experience, self._figures)
        snapshot = snapshot_of(catalogue, known, self.transports.of(catalogue), config.leases.ttl_s, self._pepper)
        return Generation(
            replace(snapshot, generation=edition.number),
            Definitions(config),
            labels_of(catalogue, config.telemetry.org_labels),
            caps_of(config),
        )

    def left(self, sweep: Sweep) -> "Left":
        """Return what the generation before the latest one has left behind."""
        return Left(self.transports, self.transports.leave(), sweep)


class Left:
    """Connections to deployments that are gone, or not what they were: closed once the last request is over that may use them."""

    def __init__(self, transports: Transports, left: tuple[Transport, ...], sweep: Sweep) -> None:
        self._transports = transports
        self._left = left
        self._sweep = sweep
        self._requests = sweep.standing()

    async def cleared(self) -> None:
        """Return once all is closed."""
        while not await self.close_unused():  # noqa: ASYNC110 - connections do not tell when they rest
            await asyncio.sleep(CLEAR_EVERY_S)

    async def close_unused(self) -> bool:
        """Close what nobody can use any more. Return whether that was all."""
        if self._sweep.outlast(self._requests):
            return False
        idle = [transport for transport in self._left if is_idle(transport)]
        self._left = tuple(transport for transport in self._left if transport not in idle)
        for transport in idle:
            await self._transports.close(transport)
        return not self._left


def is_idle(transport: Transport) -> bool:
    """Return whether connections carry nothing; an answer may be read on that is nobody's request any more."""
    now = transport.occupancy()
    return now.busy == 0 and now.waiting == 0


def labels_of(catalogue: Catalogue, most_orgs: int) -> Labels:
    """Return the label values that this catalogue can lead to; the first `most_orgs` of its orgs have one of their own."""
    models, operations = catalogue.models.values(), {route.path: route.operation for route in routes(catalogue.prefixes)}
    moves = ((model.name, catalogue.names[each].name) for model in models for each in model.fallbacks)
    return Labels.of(operations, places(catalogue).values(), moves, (*catalogue.orgs,)[:most_orgs])


def caps_of(config: Config) -> Caps:
    """Return what one worker takes on, and what it tells nobody."""
    bounds = config.limits
    hidden = tuple(secrets_of(config)) if config.telemetry.log_bodies else None
    return Caps(bounds.inflight, bounds.buffered_bytes, bounds.body_bytes, bounds.header_bytes, hidden)
