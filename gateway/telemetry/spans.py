"""Spans of requests on their way to a collector: records are kept as they end and go out in batches, beside the requests.

A request notes ids and moments and nothing more. Its spans are made in a thread of their own, which a collector that is slow or
away holds up alone; what finds no room meanwhile, or is not taken, is dropped and counted. Seconds.
"""

import asyncio
import contextlib
import importlib.util
import pkgutil
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Protocol

import structlog

from gateway.policy.record import Record
from gateway.policy.spans import Span, parent_of
from gateway.tasks import Owned
from gateway.wire.traceparent import Parent

PAUSE_S = 1.0
"""How long spans gather: whoever waits for a trace hardly notices, and a batch costs little more than one span."""

AT_ONCE = 256
"""How many requests one batch tells of, some 300 KB."""

MOST_PENDING = 4_096
"""How many requests wait for the collector in one worker."""

LEAVING_S = 3.0
"""How long the last batches may take when a worker leaves."""

log = structlog.get_logger(__name__)

MISSING = "telemetry.otlp_endpoint needs OpenTelemetry, which is not installed: pip install 'tiergate[otel]'"


class Health(Protocol):
    """Who is told what became of spans."""

    def spans_ended(self, count: int, *, exported: bool) -> None:
        """Count spans that a collector has taken, or that were dropped."""
        ...


class Exporter(Protocol):
    """Who knows the collector, and what it wants to hear of."""

    def span(self, parent: Parent | None) -> Span:
        """Return the span of a request that begins."""
        ...

    def export(self, records: Sequence[Record]) -> bool:
        """Hand over the spans of these requests, however long it takes; return whether they were taken."""
        ...

    def shutdown(self) -> None:
        """Give up what is under way."""
        ...


class Spans:
    """One worker's spans, between `start` and `stop`."""

    def __init__(self, exporter: Exporter, health: Health) -> None:
        self._exporter = exporter
        self._health = health
        self._pending: list[Record] = []
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="spans")
        self._leaving = asyncio.Event()
        self._loop: asyncio.Task[None] | None = None

    def begin(self, fields: Mapping[bytes, bytes]) -> Span:
        """Return the span of a request with these headers."""
        return self._exporter.span(parent_of(fields))

    def add(self, record: Record) -> None:
        """Keep a record that is complete until its spans are made."""
        if record.span is None or not record.span.sampled:
            return
        if len(self._pending) < MOST_PENDING:
            self._pending.append(record)
        else:
            self._health.spans_ended(record.span.count, exported=False)

    def start(self, owned: Owned) -> None:
        """Begin to export."""
        self._loop = owned.spawn(self._batches(), name="spans")

    async def stop(self) -> None:
        """Export what is left, for as long as that may take, and end."""
        self._leaving.set()
        if self._loop is not None:
            await asyncio.wait([self._loop], timeout=LEAVING_S)
            self._loop.cancel()
            await asyncio.wait([self._loop])
        self._health.spans_ended(count_of(self._pending), exported=False)
        self._pending.clear()
        self._exporter.shutdown()
        self._thread.shutdown(wait=False)

    async def _batches(self) -> None:
        while not self._leaving.is_set():
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(PAUSE_S):
                    await self._leaving.wait()
            while self._pending:
                await self._batch()

    async def _batch(self) -> None:
        batch = self._pending[:AT_ONCE]
        del self._pending[:AT_ONCE]
        taken = False
        try:
            taken = await asyncio.get_running_loop().run_in_executor(self._thread, self._exporter.export, batch)
        except Exception:
            # A fault of ours costs these spans, and none that follow.
            log.exception("spans_failed")
        finally:
            self._health.spans_ended(count_of(batch), exported=taken)


def count_of(records: Sequence[Record]) -> int:
    """Return how many spans there are of these requests."""
    return sum(record.span.count for record in records if record.span is not None)


def is_installed() -> bool:
    """Return whether what exports spans is there; nothing of it is loaded."""
    try:
        return importlib.util.find_spec("opentelemetry.exporter.otlp.proto.http") is not None
    except ModuleNotFoundError:
        return False


def spans_to(endpoint: str, health: Health, *, release: str, worker: str) -> Spans | None:
    """Return what exports this worker's spans to the collector at a base URL, None where there is none."""
    if not endpoint:
        return None
    # By its name, so that nobody without a collector needs OpenTelemetry, or has its exporter in memory.
    exporter: Any = pkgutil.resolve_name("gateway.telemetry.otlp:Otlp")
    return Spans(exporter(endpoint, release=release, worker=worker), health)
