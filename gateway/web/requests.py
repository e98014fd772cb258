"""The admin API's view of single requests: what became of one, served or refused, at whichever gateway."""

from typing import Any

from litestar import get
from litestar.handlers import HTTPRouteHandler
from litestar.params import FromPath
from msgspec.structs import asdict

from gateway.errors import LimiterUnavailable, RequestNotFound
from gateway.stores.traces import TraceReader, TracesAwayError

STORE_WAIT_MS = 1_000


def requests_route(traces: TraceReader) -> HTTPRouteHandler:
    """Return the route under /admin/requests."""

    @get("/requests/{request_id:str}", summary="What became of a request of the last hour?")
    async def trace(request_id: FromPath[str]) -> dict[str, Any]:
        """Return its trace: who asked, for what, what was tried, what was passed over and why, and how it ended."""
        try:
            found = await traces.find(request_id)
        except TracesAwayError as away:
            raise LimiterUnavailable("The store cannot be reached at the moment", retry_after_ms=STORE_WAIT_MS) from away
        if found is None:
            raise RequestNotFound("No request of this id has ended within the last hour, or it is not kept any more")
        return asdict(found)

    return trace
