"""The admin API: what is behind its gate, how its errors are told, and the usage ledger."""

import time
from collections.abc import Callable, Sequence
from typing import Annotated, Any, TypeVar

import msgspec
import structlog
from litestar import Request, Response, Router, get
from litestar.datastructures import ResponseHeader
from litestar.di import NamedDependency, Provide
from litestar.params import QueryParameter
from msgspec.structs import asdict

from gateway.admission.desk import Desk
from gateway.errors import AuthUnavailable, InvalidValue, LedgerUnavailable
from gateway.stores.database import MissingLedgerError
from gateway.stores.keys import AWAY
from gateway.stores.minted import KeyView, MintedKeys
from gateway.stores.reports import DIMENSIONS, REQUEST, LedgerAwayError, Question, Reports, Row, parse_by, parse_since
from gateway.stores.terms import Terms
from gateway.stores.traces import TraceReader
from gateway.web.admin_keys import AdminKeys, keys_router
from gateway.web.admin_terms import AdminTerms, Declared, terms_routers
from gateway.web.admin_views import Views, view_routes
from gateway.web.envelope import render
from gateway.web.fields import check_body, check_words
from gateway.web.gate import Gate
from gateway.web.live import Live, live_routes
from gateway.web.requests import requests_routes
from gateway.web.told import errors
from gateway.web.upstreams import Audited, upstreams_router

BY = f"request, or any of {', '.join(DIMENSIONS)}, comma-separated"
MOST_ROWS = 10_000
"""One answer's rows: they are held in memory."""

RETRY_AFTER_MS = 1_000

HEADERS = (ResponseHeader(name="cache-control", value="no-store"), ResponseHeader(name="x-content-type-options", value="nosniff"))

Parsed = TypeVar("Parsed")

log = structlog.get_logger(__name__)


class Only(msgspec.Struct, frozen=True):
    """Which requests alone are asked about."""

    request_id: str | None
    user_hash: str | None


def only(
    request_id: Annotated[str | None, QueryParameter(description="This request alone")] = None,
    user_hash: Annotated[str | None, QueryParameter(description="Requests of the user alone that has this hash")] = None,
) -> Only:
    """Return which requests a query names."""
    return Only(request_id, user_hash)


class Tenants(msgspec.Struct, frozen=True):
    """Who may use the gateway: keys, orgs, plans and projects of the database, and what the file declares of each."""

    keys: MintedKeys
    terms: Terms
    declared_keys: Callable[[], Sequence[KeyView]]
    declared: Callable[[], Declared]


class Rooms(msgspec.Struct, frozen=True):
    """What the admin API reads and changes."""

    reports: Reports
    desk: Desk
    traces: TraceReader
    audited: Audited
    tenants: Tenants
    views: Views


def admin_router(rooms: Rooms, gate: Gate, live: Live) -> Router:
    """Return the routes under /admin."""
    minted = rooms.tenants.keys
    keys = keys_router(AdminKeys(minted, rooms.tenants.declared_keys), minted)
    terms = terms_routers(AdminTerms(rooms.tenants.terms, rooms.tenants.declared))
    return Router(
        "/admin",
        route_handlers=[
            usage_route(rooms.reports),
            upstreams_router(rooms.desk, rooms.audited),
            *requests_routes(rooms.traces),
            keys,
            *terms,
            *view_routes(rooms.views),
            *live_routes(live),
        ],
        guards=[gate, check_words, check_body],
        exception_handlers=dict.fromkeys(AWAY, answer_away),
        response_headers=HEADERS,
        security=[{"bearer": []}],
        tags=["admin"],
    )


def usage_route(reports: Reports) -> Any:
    """Return the route under /admin/usage."""

    those = {"those": Provide(only, sync_to_thread=False)}

    @get("/usage", summary="Read the usage ledger", responses=errors(), dependencies=those)
    async def usage(
        those: NamedDependency[Only],
        *,
        by: Annotated[str, QueryParameter(description=BY)] = REQUEST,
        since: Annotated[str | None, QueryParameter(description="7d, 24h, 2026-11-01 or 2026-11-01T12:00:00Z")] = None,
        limit: Annotated[int, QueryParameter(ge=1, le=MOST_ROWS)] = 100,
        live: Annotated[bool, QueryParameter(description="Count requests too that have not ended")] = False,
    ) -> list[Row]:
        """Return requests, the newest first, or their sums."""
        question = Question(
            by=understood("by", parse_by, by),
            since_unix_ms=0 if since is None else understood("since", parse_ago, since),
            limit=limit,
            live=live,
            **asdict(those),
        )
        try:
            return await reports.rows(question)
        except MissingLedgerError:
            return []
        except LedgerAwayError as away:
            raise LedgerUnavailable("The ledger cannot be read at the moment", retry_after_ms=RETRY_AFTER_MS) from away

    return usage


def answer_away(request: Request[Any, Any, Any], error: Exception) -> Response[bytes]:
    """Return the answer while the database does none."""
    log.warning("database_unavailable", path=request.url.path, error=type(error).__name__)
    return render(AuthUnavailable("The database cannot be reached at the moment", retry_after_ms=RETRY_AFTER_MS))


def parse_ago(text: str) -> int:
    """Return an instant that may be told as how long ago it was."""
    return parse_since(text, time.time_ns() // 1_000_000)


def understood(name: str, parse: Callable[[str], Parsed], text: str) -> Parsed:
    """Return a parameter's meaning.

    Raises InvalidValue.
    """
    try:
        return parse(text)
    except ValueError as error:
        raise InvalidValue(str(error), param=name) from None
