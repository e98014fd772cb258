"""The admin API's view of single requests: what became of each, served or refused, at whichever gateway."""

from collections.abc import Sequence
from typing import Annotated, Any

import msgspec
from litestar import get
from litestar.params import FromPath, QueryParameter
from msgspec.structs import asdict

from gateway.errors import LimiterUnavailable, RequestNotFound
from gateway.stores.traces import TraceReader, TracesAwayError
from gateway.web.told import errors

STORE_WAIT_MS = 1_000
MOST_TRACES = 1_000
"""Of one page."""


class TracePage(msgspec.Struct, frozen=True):
    """Requests, the newest first; `next` is the `before` of the page behind it, null on the last one."""

    data: list[dict[str, Any]]
    next: str | None


def requests_routes(traces: TraceReader) -> Sequence[Any]:
    """Return the routes under /admin/requests."""

    @get("/requests", summary="What became of the requests of the last hour?", responses=errors())
    async def recent(
        *,
        before: Annotated[str | None, QueryParameter(description="Of those older than the request of this id")] = None,
        limit: Annotated[int, QueryParameter(ge=1, le=MOST_TRACES)] = 100,
    ) -> TracePage:
        """Return the traces of the newest requests that have ended, refused ones included."""
        try:
            found = await traces.newest(limit + 1, before)
        except TracesAwayError as lost:
            raise away() from lost
        shown = found[:limit]
        return TracePage([asdict(each) for each in shown], shown[-1].request_id if len(found) > limit else None)

    @get("/requests/{request_id:str}", summary="What became of a request of the last hour?", responses=errors(404))
    async def trace(request_id: FromPath[str]) -> dict[str, Any]:
        """Return its trace: who asked, for what, what was tried, what was passed over and why, and how it ended."""
        try:
            found = await traces.find(request_id)
        except TracesAwayError as lost:
            raise away() from lost
        if found is None:
            raise RequestNotFound("No request of this id has ended within the last hour, or it is not kept any more")
        return asdict(found)

    return recent, trace


def away() -> LimiterUnavailable:
    """Return the answer while the store is away."""
    return LimiterUnavailable("The store cannot be reached at the moment", retry_after_ms=STORE_WAIT_MS)
