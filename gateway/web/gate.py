"""Who may use the admin API: whose token it is, what that may do, and that no page of another name sends it.

With tokens, whoever has one may ask, from anywhere; without any, only this machine. In both cases the Host is an address,
localhost, or a name that the operator has given: a page whose own name was made to lead here has none of them.
"""

from collections.abc import Collection, Sequence
from enum import IntEnum
from hmac import compare_digest
from ipaddress import ip_address
from typing import Any
from urllib.parse import urlsplit

import msgspec
from litestar import Request
from litestar.connection import ASGIConnection
from litestar.datastructures import State
from litestar.handlers import BaseRouteHandler

from gateway.errors import HostNotAllowed, InvalidRequest, IpNotAllowed, RoleNotAllowed, Unauthenticated, UnsupportedMediaType
from gateway.policy.credentials import digest
from gateway.policy.forwarding import FORWARDED, address_of

LOCAL_NAME = "localhost"
LOOPBACK = "loopback"
"""What the audit calls whoever comes from this machine, where no token says more."""

READING = frozenset({"GET", "HEAD", "OPTIONS"})
JSON = "application/json"

Connection = ASGIConnection[Any, Any, Any, Any]


class Role(IntEnum):
    """What somebody may do: read, work on keys too, or everything. Each may do what those before it may."""

    VIEWER = 0
    OPERATOR = 1
    ADMIN = 2


class Token(msgspec.Struct, frozen=True):
    """A bearer of the admin API, by the digest of its secret."""

    name: str
    role: Role
    digest: bytes

    def __repr__(self) -> str:
        return f"Token({self.name!r}, {self.role!r})"


class Caller(msgspec.Struct, frozen=True):
    """Who asks: what the audit calls them, and what they may do."""

    name: str
    role: Role


Asked = Request[Caller, Any, State]
"""A request that has passed the gate."""


class Bearers:
    """All tokens that there are, and the pepper of their digests."""

    def __init__(self, tokens: Sequence[Token], pepper: bytes) -> None:
        self._tokens = tuple(tokens)
        self._pepper = pepper

    def __bool__(self) -> bool:
        """Return whether there are any."""
        return bool(self._tokens)

    def caller(self, authorization: str) -> Caller:
        """Return whose token the header carries. Raises Unauthenticated."""
        scheme, _, sent = authorization.partition(" ")
        # Latin-1 gives back the bytes that were sent, for what they are in UTF-8.
        shown = digest(self._pepper, sent.strip().encode("latin-1").decode(errors="replace"))
        found = None
        for token in self._tokens:  # all of them, so that the time tells nothing
            if compare_digest(shown, token.digest):
                found = token
        if found is None or scheme.lower() != "bearer":
            raise Unauthenticated("The admin API needs one of its own tokens as a bearer token")
        return Caller(found.name, found.role)


class Gate:
    """A guard of all routes. One that changes something is for admins unless it says `least=Role.…`."""

    def __init__(self, bearers: Bearers, hosts: Collection[str]) -> None:
        self._bearers = bearers
        self._hosts = frozenset(host.lower() for host in hosts) | {LOCAL_NAME}

    def __call__(self, connection: Connection, handler: BaseRouteHandler) -> None:
        """Let the request through, and say whose it is.

        Raises HostNotAllowed, IpNotAllowed, Unauthenticated, RoleNotAllowed, and UnsupportedMediaType: a form of another page's
        can send anything but JSON.
        """
        self.check_host(connection)
        headers = connection.headers
        caller = self._caller(connection)
        reads = connection.scope.get("method") in READING
        least = handler.opt.get("least", Role.VIEWER if reads else Role.ADMIN)
        if caller.role < least:
            raise RoleNotAllowed(f"This is for the role {least.name.lower()}; '{caller.name}' has {caller.role.name.lower()}")
        if not reads and headers.get("content-type", "").partition(";")[0].strip().lower() != JSON:
            raise UnsupportedMediaType("What changes something must be application/json")
        connection.scope["user"] = caller

    def check_host(self, connection: Connection, _: BaseRouteHandler | None = None) -> None:
        """Let through what was asked of this host by no page of another; a guard of what has no secret.

        Raises HostNotAllowed.
        """
        host, origin = connection.headers.get("host", "").lower(), connection.headers.get("origin")
        name = name_of(host)
        if name not in self._hosts and not is_address(name):
            raise HostNotAllowed("The admin API answers to addresses, to localhost and to the names of ops.hosts")
        if origin is not None and not self._is_own(origin.lower(), host, connection.scope["scheme"]):
            raise HostNotAllowed("Pages of another origin may not use the admin API")

    def _is_own(self, origin: str, host: str, scheme: str) -> bool:
        """Return whether a page is of this host; over TLS none is that came without it: anybody could have changed it."""
        of = urlsplit(origin)
        return bool(host) and of.netloc == host and (scheme != "https" or of.scheme == "https")

    def _caller(self, connection: Connection) -> Caller:
        if self._bearers:
            if len(sent := connection.headers.getall("authorization", [""])) > 1:
                raise InvalidRequest("The request has more than one Authorization header.")
            return self._bearers.caller(sent[0])
        came_through = any(name in FORWARDED for name, _ in connection.scope["headers"])
        if came_through or connection.client is None or not is_loopback(connection.client.host):
            raise IpNotAllowed("Without a token the admin API answers this machine alone, and no proxy on it")
        return Caller(LOOPBACK, Role.ADMIN)


def name_of(host: str) -> str:
    """Return what a Host header names, without its port; nothing where it is none."""
    try:
        return urlsplit(f"//{host}").hostname or ""
    except ValueError:
        return ""


def is_address(host: str) -> bool:
    """Return whether a host is an address and no name."""
    try:
        ip_address(host)
    except ValueError:
        return False
    return True


def is_loopback(host: str) -> bool:
    """Return whether an address is this machine's own; IPv4 inside IPv6 included."""
    address = address_of(host)
    return address is not None and address.is_loopback
