"""The worker's side of the supervisor: GET /status, GET /metrics and POST /config on a private socket."""

from collections.abc import Awaitable, Callable
from typing import Any

from litestar import Litestar, Request, Response, get, post

from gateway.web.join import OPENMETRICS_TYPE

Take = Callable[[bytes], Awaitable[None]]
"""Takes another reading of the configuration, as the supervisor sends it. Returns once it is in force, or raises."""

MOST_BYTES = 256 << 20
"""Of one reading: it comes from this gateway's own supervisor."""


def build_control(status: Callable[[], dict[str, Any]], exposition: Callable[[], Awaitable[bytes]], take: Take) -> Litestar:
    """Return the application of the control socket."""

    @get("/status", sync_to_thread=False)
    def show_status() -> dict[str, Any]:
        return status()

    @get("/metrics")
    async def metrics() -> Response[bytes]:
        return Response(await exposition(), media_type=OPENMETRICS_TYPE)

    @post("/config", status_code=204)
    async def change(request: Request[Any, Any, Any]) -> None:
        await take(await request.body())

    return Litestar([show_status, metrics, change], request_max_body_size=MOST_BYTES, openapi_config=None, logging_config=None)
