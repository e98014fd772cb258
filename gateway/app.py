"""Composition root: a configuration becomes a running gateway; the only room that constructs things.

A gateway is one worker's: it serves the API and the supervisor's questions, keeps its leases alive and stands for election as the
ledger's consumer. What is here lives as long as the worker; what lives as long as one reading of the configuration is made in
`gateway.generation`. Clocks, ids and chance enter here, as values that everything below is handed.
"""

import asyncio
import contextlib
import sys
import time
from importlib.metadata import version
from pathlib import Path
from typing import Any

import msgspec
import structlog
import uuid_utils

from gateway.admission.changes import Change, heed
from gateway.admission.client import Admission, cell_prefix, ledger_key, traces_key
from gateway.admission.connection import Connection
from gateway.admission.discovery import locator
from gateway.admission.failover import Failover
from gateway.admission.heartbeat import Leases
from gateway.admission.local import Local
from gateway.admission.redis_client import open_client
from gateway.admission.replay import Replay
from gateway.admission.reports import Reports
from gateway.admission.scripts import PARTS
from gateway.admission.spool import SUFFIX, Spool
from gateway.admission.turns import Turns
from gateway.alerts import Alerts
from gateway.books import Bookkeeper
from gateway.budgets import Budgeted
from gateway.config import Config, Edition, decode_edition
from gateway.config.certificates import Certificate
from gateway.gauges import Kept, readings
from gateway.generation import Generation, Generations
from gateway.job import Store
from gateway.keys import Clock, Keys, Sources
from gateway.pipeline import Corridor
from gateway.policy.catalogue import Catalogue, Key
from gateway.policy.figures import Figures
from gateway.policy.retries import RetryBudget
from gateway.policy.shares import Waived
from gateway.policy.tenancy import Found
from gateway.stores.database import Reader, Writer
from gateway.stores.election import Election
from gateway.stores.keys import KeyShelf
from gateway.stores.ledger import LEASE_S, Ledger, Terms
from gateway.stores.spending import Spending
from gateway.stores.stream import Stream
from gateway.stores.traces import Traces
from gateway.tasks import Owned
from gateway.telemetry.cells import Cells
from gateway.telemetry.exposition import Build, Exposition
from gateway.telemetry.health import LedgerHealth
from gateway.telemetry.logs import access_log, configure
from gateway.telemetry.observer import Observer
from gateway.telemetry.spans import spans_to
from gateway.watch import Cut, Sweep
from gateway.web.api import Api, build_api
from gateway.web.behind import behind
from gateway.web.control import build_control
from gateway.web.inference import Clocks, Floor
from gateway.web.models import Catalogues

SETTLE_S = 10.0
"""How long settlements and the ledger's flush may take when a worker leaves; the next one picks up what is left."""

CELL = "c0"

RELEASE = version("tiergate")

log = structlog.get_logger(__name__)


class Place(msgspec.Struct, frozen=True, kw_only=True):
    """Where a gateway runs: its worker's own name, the store, its state, what key digests are made with, and what it shows."""

    worker: str
    redis_url: str
    state_dir: Path
    pepper: bytes
    certificate: Certificate | None = None

    def __repr__(self) -> str:
        return f"Place({self.worker!r})"


class Gateway:
    """One worker's gateway, from `start` to `stop`."""

    ready = _reached_store = False
    _consuming: asyncio.Task[None] | None = None

    def __init__(self, config: Config, place: Place, number: int = 1) -> None:
        configure(config.telemetry.log, config.telemetry.level, sys.stdout.buffer)
        self._place, self.certificate = place, place.certificate
        self._tasks, self._health = Owned(), LedgerHealth(PARTS)
        self._generations, self._taking = Generations(place.pepper, Figures(time.monotonic)), asyncio.Lock()
        self._generation = generation = self._generations.next(Edition(number, config))
        catalogue = generation.snapshot.catalogue
        locate = locator(place.redis_url, cell=CELL, ca_file=config.redis.ca_file)
        self._connection = Connection(locate, self._tasks, timeout_s=config.redis.timeout_s)
        self._admission = admission = Admission(
            self._connection, prefix=cell_prefix(config.redis.prefix, CELL), breaker=catalogue.breaker, calls=self._health
        )
        self._failover = failover = failover_of(admission, config, catalogue, place)
        self._replay, self._leases = Replay(failover), Leases(failover, self._tasks, heartbeat_s=config.leases.heartbeat_s)
        self._redis = open_client(locate, timeout_s=2.0)
        self._turns = Turns(failover, self._redis, place.worker)
        self._writer = Writer(config.database.url.reveal())
        self._reader = Reader(config.database.url.reveal(), config.database.pool)
        self._ledger = self._consumer(config)
        self._cells = cells = Cells(generation.labels, exemplars=config.telemetry.exemplars)
        self._access = access_log(config.telemetry.log, config.telemetry.level, sys.stdout.buffer, call_soon)
        alerts, self._sweep = Alerts(admission, self._tasks, cells), Sweep(time.monotonic)
        self._traces = Traces(self._redis, traces_key(config.redis.prefix, CELL), unix_ms, self._health)
        spans = spans_to(config.telemetry.otlp_endpoint, self._health, release=RELEASE, worker=place.worker)
        self._observer = Observer(cells, self._access, self._traces, spans)
        gauges = readings(self._current, Kept(self._turns, self._leases, failover, alerts), config.telemetry.org_labels, unix_ms)
        self._exposition = Exposition(cells, self._health, Build(RELEASE, time.time()), gauges)
        self._keys, self._retries = self._keys_of(config), RetryBudget(catalogue.fallback.retry_budget)
        self._budgeted = Budgeted(failover, admission, Spending(self._reader), alerts, heartbeat_s=config.leases.heartbeat_s)
        self._corridor = Corridor(
            generation.snapshot,
            self._keys.authenticate,
            Store(self._budgeted, self._leases, self._turns, Reports(failover, self._tasks), self._retries),
            Bookkeeper(failover, self._observer, self._generations.experience, alerts, time.monotonic),
        )
        self._floor = Floor(self._corridor, self._sweep, Clocks(time.monotonic, unix_ms, request_id), generation.caps)
        self.api = behind(config.api.trusted_proxies, self._api())
        self.control = build_control(self.status, self._exposition.render, self._told)

    async def take(self, edition: Edition) -> None:
        """Serve by another reading of the configuration from now on, unless a later one is known.

        Raises OSError for a `ca_file` that cannot be used: all is then as it was.
        """
        async with self._taking:
            if edition.number <= self._generation.number:
                return
            self._change_over(await asyncio.to_thread(self._generations.next, edition))
            self.certificate = edition.certificate
            left = self._generations.left(self._sweep)
        self._tasks.detach(left.cleared(), name="connections left")

    def _change_over(self, generation: Generation) -> None:
        self._generation = generation
        self._corridor.snapshot = snapshot = generation.snapshot
        # What follows is this worker's alone, and the same for requests of all snapshots.
        self._failover.judge_by(snapshot.catalogue.breaker)
        self._retries.ratio = snapshot.catalogue.fallback.retry_budget
        self._keys.renew()
        self._cells.labels = self._cells.labels.joined(generation.labels)
        self._floor.go_by(generation.caps)

    async def start(self) -> None:
        """Connect what the first request needs. A store that is not there yet delays readiness, not the start."""
        await self._writer.migrate()
        await self._connection.open()
        self._leases.start()
        self._turns.start(self._tasks)
        self._traces.start(self._tasks)
        self._observer.start(self._tasks)
        self._replay.start(self._tasks)
        self._sweep.start()
        self._keys.start(heed(self._redis, self._admission.prefix, self._changed))
        self._consuming = self._tasks.spawn(self._ledger.run(), name="ledger")
        self.ready = True

    def status(self) -> dict[str, Any]:
        """Return what the supervisor asks: whether requests would be served, and what is missing.

        A store that was lost, or fails, makes a worker degraded, not unready: every replica would go at once, and none would be
        better. One that was never reached makes it unready only where nothing is served without it.
        """
        connected = self._connection.fault is None
        refusing, alone = self._admission.refusing, self._failover.alone
        store = "failing" if connected and refusing else "unavailable" if alone or not connected else "ok"
        self._reached_store = self._reached_store or store == "ok" or self._failover.serves_alone
        return {
            "worker": self._place.worker,
            "ready": self.ready and self._reached_store and not self._corridor.draining,
            "degraded": store != "ok",
            "redis": store,
            "inflight": len(self._sweep),
            "generation": self._generation.number,
        }

    async def drain(self, timeout_s: float) -> None:
        """Refuse new requests and who waits; let what is under way end, heard or not. Past the timeout, end it honestly."""
        self._corridor.draining = True
        self._turns.close()
        self._sweep.cut_waiting(Cut.DRAIN)
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(timeout_s):
                await self._sweep.empty.wait()
                await self._corridor.remainders.ended()
        self._sweep.cut_all(Cut.DRAIN)

    async def stop(self) -> None:
        """Settle, flush the ledger, and close everything, in the order in which one needs the other."""
        self._sweep.stop()
        await self._corridor.remainders.stop()
        await self._corridor.tasks.drain(SETTLE_S)
        await self._leases.stop()
        await self._budgeted.stop()
        await self._turns.stop()
        await self._traces.stop()
        await self._observer.stop()
        await self._replay.stop()
        await self._keys.stop()
        if self._consuming is not None:
            self._consuming.cancel()
            await asyncio.wait([self._consuming])
            await self._ledger.flush(SETTLE_S)
        await self._connection.close()
        await self._redis.aclose()
        await self._writer.close()
        await self._reader.close()
        await self._generations.transports.aclose()
        await self._tasks.drain(SETTLE_S)
        if self._access is not None:
            self._access.flush()

    def _api(self) -> Api:
        catalogues = Catalogues(self._current, self._keys.authenticate)
        return build_api(self._floor, catalogues, self._budgeted.levels, self._fault, release=RELEASE)

    def _consumer(self, config: Config) -> Ledger:
        stream = Stream(self._redis, ledger_key(config.redis.prefix, CELL))
        election = Election(self._redis, f"{stream.key}-leader", self._place.worker, LEASE_S)
        return Ledger(stream, self._writer, election, self._health, Terms(config.ledger.batch, config.ledger.retention_s))

    def _keys_of(self, config: Config) -> Keys:
        shelf, failover = KeyShelf(self._reader, config.database.url.reveal()), self._failover
        sources = Sources(shelf, self._meant, lambda: failover.epoch)
        return Keys(self._place.pepper, sources, Clock(time.monotonic, unix_ms), self._tasks)

    def _meant(self, found: Found) -> Key:
        return self._generation.definitions.key(found)

    async def _told(self, raw: bytes) -> None:
        await self.take(decode_edition(raw))

    def _current(self) -> Catalogue:
        return self._corridor.snapshot.catalogue

    def _changed(self, change: Change) -> None:
        """Go by a change of a key from now on."""
        self._keys.heed(change)
        if change.cuts:
            self._sweep.cut_key(change.key_id, Cut.REVOKED)

    def _fault(self, request_id: str) -> None:
        log.exception("request_failed", request_id=request_id)


def failover_of(admission: Admission, config: Config, catalogue: Catalogue, place: Place) -> Failover:
    """Return what stands before the store: with this worker's spool, and what decides while the store is away."""
    spool = Spool(place.state_dir / "spool" / f"{request_id()[0]}{SUFFIX}", config.ledger.spool_max_bytes)
    return Failover(admission, local_of(config, catalogue), spool, durable=config.ledger.durability == "strict")


def local_of(config: Config, catalogue: Catalogue) -> Local | None:
    """Return what decides while the store is away, None where nothing is served then."""
    terms = config.redis.on_failure
    if terms.rates == "closed":
        return None
    return Local(unix_ms, catalogue.breaker, Waived(rates=terms.rates == "open", budgets=terms.budgets == "open"))


def unix_ms() -> int:
    """Return the wall clock in Unix milliseconds."""
    return time.time_ns() // 1_000_000


def request_id() -> tuple[str, int]:
    """Return a fresh UUIDv7, which sorts by time, and the 62 random bits of its end."""
    fresh = uuid_utils.uuid7()
    return str(fresh), fresh.int & 0x3FFFFFFFFFFFFFFF


def call_soon(work: Any) -> object:
    """Run `work` at the end of this turn of the running loop."""
    return asyncio.get_running_loop().call_soon(work)
