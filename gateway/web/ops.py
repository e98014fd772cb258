"""The operations listener: alive, ready, metrics, the admin API and the dashboard. Runs beside the workers, not in one.

It asks each worker on its private socket and serves no client's request.
"""

import asyncio
from collections.abc import Awaitable, Callable
from importlib.metadata import version
from typing import Any, Protocol

import msgspec
from litestar import Litestar, Request, Response, get
from litestar.openapi import OpenAPIConfig
from litestar.openapi.datastructures import ResponseSpec
from litestar.openapi.plugins import JsonRenderPlugin
from litestar.openapi.spec import Components, SecurityScheme
from msgspec.structs import replace

from gateway.telemetry.reloads import Standing
from gateway.web.admin import Rooms, admin_router
from gateway.web.envelope import answer
from gateway.web.gate import Gate
from gateway.web.join import OPENMETRICS_TYPE, TEXT_TYPE, Join, wants_openmetrics
from gateway.web.live import Live
from gateway.web.pages import pages_router
from gateway.web.workers import PROBE_S, Workers

Whole = Callable[[], Awaitable[bytes]]
"""Returns the metrics that are told once for all workers."""


class OpsView(Protocol):
    """What this listener sees of the gateway."""

    @property
    def draining(self) -> bool:
        """Say whether the gateway is on its way out."""
        ...

    @property
    def standing(self) -> Standing:
        """Return how it stands with the configuration."""
        ...

    def control_sockets(self) -> list[str]:
        """Return where each worker answers, in the workers' order."""
        ...


class Status(msgspec.Struct, frozen=True):
    """What one worker says of itself: it serves, and whether it does so without something that it should have."""

    ready: bool = False
    degraded: bool = False
    redis: str | None = None
    generation: int | None = None


class WorkerState(msgspec.Struct, frozen=True):
    """One worker: `ready`, `degraded`, `not_ready`, or `unreachable`; its store: `ok`, `failing` or `unavailable`.

    `generation` is the reading of the configuration that it goes by.
    """

    worker: int
    state: str
    redis: str | None = None
    generation: int | None = None


class InForce(msgspec.Struct, frozen=True):
    """The reading of the configuration that is in force; the hash is the same where two mean the same."""

    generation: int
    hash: str


class Liveness(msgspec.Struct, frozen=True):
    """That an answer came is the answer."""

    status: str = "ok"


class Readiness(msgspec.Struct, frozen=True):
    """`ready` while some worker takes requests and the gateway is not leaving; `draining` and `not_ready` otherwise."""

    status: str
    workers: list[WorkerState]
    config: InForce | None = None


def build_ops(view: OpsView, rooms: Rooms, gate: Gate, whole: Whole) -> Litestar:
    """Return the application of the operations port; `whole` tells what no worker does."""
    workers, joined = Workers(view.control_sockets), Join()

    @get("/livez", summary="Is the event loop turning?", tags=["health"])
    async def livez() -> Liveness:
        """Answer."""
        return Liveness()

    @get(
        "/readyz",
        summary="Would a request be served?",
        tags=["health"],
        responses={503: ResponseSpec(Readiness, description="None would", generate_examples=False)},
    )
    async def readyz() -> Response[Readiness]:
        """Answer 200 when one would, else 503, and say how each worker is."""
        pages = await workers.ask("/status", timeout_s=PROBE_S)
        readiness = readiness_of([status_of(page) for page in pages], draining=view.draining)
        readiness = replace(readiness, config=InForce(view.standing.generation, view.standing.hash))
        return Response(readiness, status_code=200 if readiness.status == "ready" else 503)

    @get("/metrics", summary="Prometheus metrics of all workers", tags=["metrics"], media_type=TEXT_TYPE)
    async def metrics(request: Request[Any, Any, Any]) -> Response[bytes]:
        """Return every worker's metrics on one page, with exemplars for who asks for OpenMetrics."""
        openmetrics = wants_openmetrics(request.headers.get("accept", ""))
        pages, once = await asyncio.gather(workers.ask("/metrics"), whole())
        page = joined.join(pages, once, openmetrics=openmetrics)
        return Response(page, media_type=OPENMETRICS_TYPE if openmetrics else TEXT_TYPE)

    return Litestar(
        route_handlers=[
            livez,
            readyz,
            metrics,
            admin_router(rooms, gate, Live(workers, joined, whole)),
            pages_router(gate.check_host),
        ],
        exception_handlers={Exception: answer},
        openapi_config=OpenAPIConfig(
            title="Tiergate operations",
            version=version("tiergate"),
            path="/openapi",
            render_plugins=[JsonRenderPlugin()],
            components=Components(security_schemes={"bearer": SecurityScheme(type="http", scheme="bearer")}),
        ),
        logging_config=None,
    )


def status_of(answered: bytes | None) -> Status | None:
    """Return what a worker said of itself, None where it said nothing."""
    return None if answered is None else msgspec.json.decode(answered, type=Status)


def readiness_of(statuses: list[Status | None], *, draining: bool) -> Readiness:
    """Return whether requests are served."""
    states = [
        WorkerState(worker, state_of(each), each.redis if each else None, each.generation if each else None)
        for worker, each in enumerate(statuses)
    ]
    if draining:
        return Readiness("draining", states)
    serves = any(status is not None and status.ready for status in statuses)
    return Readiness("ready" if serves else "not_ready", states)


def state_of(status: Status | None) -> str:
    """Return one worker's state in a word."""
    if status is None:
        return "unreachable"
    if status.degraded:
        return "degraded"
    return "ready" if status.ready else "not_ready"
