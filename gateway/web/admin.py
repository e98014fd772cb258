"""The admin API: who may ask, the usage ledger, single requests, and the operator's desk.

With a token, whoever has it may ask, from anywhere; without one, only this machine, and only by a name of this machine: a page in
a browser that has its own host name point here has neither the token nor such a name.
"""

import time
from collections.abc import Callable
from hmac import compare_digest
from ipaddress import ip_address
from typing import Annotated, Any, TypeVar
from urllib.parse import urlsplit

import msgspec
from litestar import Router, get
from litestar.connection import ASGIConnection
from litestar.handlers import BaseRouteHandler
from litestar.params import QueryParameter

from gateway.admission.desk import Desk
from gateway.errors import HostNotAllowed, InvalidValue, IpNotAllowed, LedgerUnavailable, Unauthenticated, UnsupportedMediaType
from gateway.policy.catalogue import Secret
from gateway.stores.database import MissingLedgerError
from gateway.stores.reports import DIMENSIONS, REQUEST, LedgerAwayError, Question, Reports, Row, parse_by, parse_since
from gateway.stores.traces import TraceReader
from gateway.web.requests import requests_route
from gateway.web.upstreams import upstreams_router

LOCAL_NAMES = frozenset({"localhost", "127.0.0.1", "::1"})
READING = frozenset({"GET", "HEAD", "OPTIONS"})
JSON = "application/json"
BY = f"request, or any of {', '.join(DIMENSIONS)}, comma-separated"
LEDGER_WAIT_MS = 1_000
MOST_ROWS = 10_000
"""One answer's rows: they are held in memory."""

Parsed = TypeVar("Parsed")
Connection = ASGIConnection[Any, Any, Any, Any]


class Rooms(msgspec.Struct, frozen=True):
    """What the admin API reads and changes."""

    reports: Reports
    desk: Desk
    traces: TraceReader


class Gate:
    """Who may use the admin API."""

    def __init__(self, token: Secret | None) -> None:
        self._token = token or None

    def __call__(self, connection: Connection, _: BaseRouteHandler) -> None:
        """Let the request through.

        Raises Unauthenticated without the token where one is set, IpNotAllowed, HostNotAllowed and UnsupportedMediaType: a form
        of another page's can send anything but JSON.
        """
        headers = connection.headers
        if connection.scope.get("method") not in READING and headers.get("content-type", "").partition(";")[0].strip() != JSON:
            raise UnsupportedMediaType("What changes something must be application/json")
        host, origin = headers.get("host", ""), headers.get("origin")
        if origin is not None and urlsplit(origin).netloc != host:
            raise HostNotAllowed("Pages of another origin may not use the admin API")
        if self._token is not None:
            check_bearer(headers.get("authorization", ""), self._token)
            return
        if connection.client is None or not is_loopback(connection.client.host):
            raise IpNotAllowed("Without ops.admin_token the admin API answers on this machine only")
        if urlsplit(f"//{host}").hostname not in LOCAL_NAMES:
            raise HostNotAllowed("Without ops.admin_token the admin API answers to localhost, 127.0.0.1 and [::1] only")


def check_bearer(authorization: str, token: Secret) -> None:
    """Raise Unauthenticated unless the header carries the token."""
    scheme, _, sent = authorization.partition(" ")
    # As bytes: compare_digest takes no text beyond ASCII. Latin-1 gives back the bytes that were sent.
    if scheme.lower() != "bearer" or not compare_digest(sent.strip().encode("latin-1"), token.reveal().encode()):
        raise Unauthenticated("The admin API needs ops.admin_token as a bearer token")


def is_loopback(host: str) -> bool:
    """Say whether an address is this machine's own; IPv4 inside IPv6 included."""
    try:
        address = ip_address(host)
    except ValueError:
        return False
    return (getattr(address, "ipv4_mapped", None) or address).is_loopback


def admin_router(rooms: Rooms, token: Secret | None) -> Router:
    """Return the routes under /admin."""

    @get("/usage", summary="Read the usage ledger")
    async def usage(
        *,
        by: Annotated[str, QueryParameter(description=BY)] = REQUEST,
        since: Annotated[str | None, QueryParameter(description="7d, 24h, 2026-11-01 or 2026-11-01T12:00:00Z")] = None,
        limit: Annotated[int, QueryParameter(ge=1, le=MOST_ROWS)] = 100,
        request_id: Annotated[str | None, QueryParameter(description="This request alone")] = None,
        live: Annotated[bool, QueryParameter(description="Count requests too that have not ended")] = False,
    ) -> list[Row]:
        """Return requests, the newest first, or their sums."""
        question = Question(
            by=understood("by", parse_by, by),
            since_unix_ms=0 if since is None else understood("since", parse_ago, since),
            limit=limit,
            request_id=request_id,
            live=live,
        )
        try:
            return await rooms.reports.rows(question)
        except MissingLedgerError:
            return []
        except LedgerAwayError as away:
            raise LedgerUnavailable("The ledger cannot be read at the moment", retry_after_ms=LEDGER_WAIT_MS) from away

    return Router(
        "/admin",
        route_handlers=[usage, upstreams_router(rooms.desk), requests_route(rooms.traces)],
        guards=[Gate(token)],
        tags=["admin"],
    )


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
