"""What the dashboard draws, once a second: figures of all workers, added up, of the same pages that `/metrics` is made of.

Counters are totals that never fall; whoever draws them makes rates of two events, so one that was missed takes nothing away.
"""

import asyncio
import re
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping, Sequence
from typing import Any

import msgspec
from litestar import get
from litestar.response import ServerSentEvent

from gateway.telemetry import families
from gateway.telemetry.families import Family
from gateway.web.gate import Asked
from gateway.web.join import Join, Page, parse
from gateway.web.told import errors
from gateway.web.workers import PROBE_S, Workers

EVERY_S = 1.0
FRESH_S = 0.9
"""However many look, workers are asked about once a second."""

LABEL = re.compile(r'(\w+)="((?:[^"\\]|\\.)*)"')
ESCAPED = re.compile(r"\\(.)")


class Drawn(msgspec.Struct, frozen=True):
    """One line of figures: a family, the labels that are kept of it, and how the rest is added up."""

    family: Family
    by: tuple[str, ...] = ()
    fold: Callable[[float, float], float] = float.__add__


DRAWN: Mapping[str, Drawn] = {
    "requests": Drawn(families.REQUESTS, ("tier", "outcome")),
    "duration_s": Drawn(families.DURATION, ("le",)),
    "first_byte_s": Drawn(families.FIRST_BYTE, ("le",)),
    "inflight": Drawn(families.INFLIGHT, ("tier",)),
    "queued": Drawn(families.QUEUE_DEPTH, ("tier",)),
    "queue_wait_s": Drawn(families.QUEUE_WAIT, ("le",)),
    "grants": Drawn(families.GRANTS, ("tier",)),
    "downgrades": Drawn(families.DOWNGRADES, ("from_tier", "to_tier")),
    "rejections": Drawn(families.REJECTIONS, ("reason",)),
    "limit_refusals": Drawn(families.LIMIT_REFUSALS, ("scope", "dimension")),
    "attempts": Drawn(families.ATTEMPTS, ("provider", "model", "outcome")),
    "upstream_inflight": Drawn(families.UPSTREAM_INFLIGHT, ("provider", "model")),
    "upstream_available": Drawn(families.UPSTREAM_AVAILABLE, ("provider", "model")),
    "tokens": Drawn(families.TOKENS, ("kind",)),
    "cost_usd": Drawn(families.COST, ("tier",)),
    "own_cost_usd": Drawn(families.OWN_COST, ("provider",)),
    "ledger_events": Drawn(families.USAGE_LENGTH, fold=max),  # every worker tells of the one stream
    "ledger_age_s": Drawn(families.USAGE_AGE, fold=max),
    "spool_bytes": Drawn(families.SPOOL),
    "redis_up": Drawn(families.REDIS_UP, fold=min),
    "generation": Drawn(families.GENERATION, fold=max),
    "workers_behind": Drawn(families.WORKERS_BEHIND, fold=max),
    "reload_ok": Drawn(families.RELOAD_OK, fold=min),
}


class Figures(msgspec.Struct, frozen=True):
    """One event. `workers` says which answered; a row of `series` is the labels' values, then the figure.

    A counter that is 0 has no row, and neither has a figure that nobody tells at the moment.
    """

    unix_ms: int
    workers: list[bool]
    series: dict[str, list[tuple[str | float, ...]]]


class CallerView(msgspec.Struct, frozen=True):
    """Whose token it is, and what it may do: viewer, operator or admin."""

    name: str
    role: str


class Live:
    """The figures of now, shared by all who look."""

    def __init__(self, workers: Workers, joined: Join, whole: Callable[[], Awaitable[bytes]]) -> None:
        self._workers = workers
        self._joined = joined
        self._whole = whole
        self._one_at_a_time = asyncio.Lock()
        self._latest = b""
        self._asked_s = float("-inf")

    async def figures(self) -> bytes:
        """Return an event's data."""
        clock = asyncio.get_running_loop().time
        async with self._one_at_a_time:
            if clock() - self._asked_s >= FRESH_S:
                asked_s = clock()
                pages, whole = await asyncio.gather(self._workers.ask("/metrics", timeout_s=PROBE_S), self._whole())
                shown = [*self._joined.shown(pages), parse(whole.decode())]
                figures = Figures(time.time_ns() // 1_000_000, [page is not None for page in pages], series(shown))
                self._latest, self._asked_s = msgspec.json.encode(figures), asked_s
            return self._latest

    async def events(self) -> AsyncIterator[str]:
        """Yield the figures for as long as somebody reads them."""
        while True:
            yield (await self.figures()).decode()
            await asyncio.sleep(EVERY_S)


def series(pages: Sequence[Page]) -> dict[str, list[tuple[str | float, ...]]]:
    """Return all that is drawn of these pages."""
    return {name: [*rows(drawn, pages)] for name, drawn in DRAWN.items()}


def rows(drawn: Drawn, pages: Sequence[Page]) -> Iterator[tuple[str | float, ...]]:
    """Yield one line's rows."""
    kind, found = drawn.family.kind, dict[tuple[str, ...], float]()
    for page in pages:
        family = page.get(drawn.family.name.removesuffix("_total"))
        for text, value in family.values.items() if family else ():
            name, _, labels = text.partition("{")
            if kind == "gauge" or (value and not (kind == "histogram" and name[-7:] != "_bucket")):
                words = {label: ESCAPED.sub(unescaped, word) for label, word in LABEL.findall(labels)}
                key = tuple(words.get(label, "") for label in drawn.by)
                found[key] = drawn.fold(found[key], value) if key in found else value
    return ((*key, value) for key, value in found.items())


def unescaped(found: re.Match[str]) -> str:
    """Return the character that an escape in a label's value stands for."""
    return "\n" if found[1] == "n" else found[1]


def live_routes(live: Live) -> Sequence[Any]:
    """Return the routes of what only the dashboard asks for."""

    @get("/live", summary="What is going on, once a second, as server-sent events", responses=errors())
    async def stream() -> ServerSentEvent:
        """Return events without an end; the data of each is the figures of all workers, as JSON."""
        return ServerSentEvent(live.events())

    @get("/caller", summary="Who am I, and what may I do?", responses=errors(), sync_to_thread=False)
    def caller(request: Asked) -> CallerView:
        """Return the token's name and its role."""
        return CallerView(request.user.name, request.user.role.name.lower())

    return stream, caller
