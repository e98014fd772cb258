"""The worker's side of the supervisor's questions: GET /status and GET /metrics on a private socket."""

from collections.abc import Awaitable, Callable
from typing import Any

from litestar import Litestar, Response, get

from gateway.web.join import OPENMETRICS_TYPE


def build_control(status: Callable[[], dict[str, Any]], exposition: Callable[[], Awaitable[bytes]]) -> Litestar:
    """Return the application of the control socket."""

    @get("/status", sync_to_thread=False)
    def show_status() -> dict[str, Any]:
        return status()

    @get("/metrics")
    async def metrics() -> Response[bytes]:
        return Response(await exposition(), media_type=OPENMETRICS_TYPE)

    return Litestar([show_status, metrics], openapi_config=None, logging_config=None)
