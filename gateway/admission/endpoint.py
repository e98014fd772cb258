"""Where the admission store is and how it is entered, read from a URL; and redis-py's client for all that is not the hot path."""

import ssl
from typing import Any
from urllib.parse import SplitResult, parse_qs, unquote, urlsplit

import hiredis
import msgspec
from msgspec.structs import replace
from redis.asyncio import Redis
from redis.asyncio.retry import Retry
from redis.backoff import NoBackoff

from gateway.policy.catalogue import Secret

DEFAULT_PORT = 6379


class Endpoint(msgspec.Struct, frozen=True, kw_only=True):
    """One store: a unix socket's `path`, or `host` and `port`; and who enters."""

    host: str = ""
    port: int = DEFAULT_PORT
    path: str = ""
    database: int = 0
    username: str = ""
    password: Secret = Secret("")
    tls: ssl.SSLContext | None = None


def parse_endpoint(url: str, *, ca_file: str | None = None) -> Endpoint:
    """Return the store that a `redis://`, `rediss://` or `unix://` URL names.

    Raises ValueError for any other URL; its text never repeats the URL, which may hold a password.
    """
    parts = urlsplit(url)
    if parts.scheme not in ("redis", "rediss", "unix"):
        raise ValueError(f"the scheme {parts.scheme!r} is not one of redis, rediss, unix")
    entry = Endpoint(
        database=_database(parts), username=unquote(parts.username or ""), password=Secret(unquote(parts.password or ""))
    )
    if parts.scheme == "unix":
        if not parts.path:
            raise ValueError("a unix URL needs the path of a socket")
        return replace(entry, path=unquote(parts.path))
    tls = ssl.create_default_context(cafile=ca_file) if parts.scheme == "rediss" else None
    return replace(entry, host=parts.hostname or "localhost", port=parts.port or DEFAULT_PORT, tls=tls)


def _database(parts: SplitResult) -> int:
    named = parse_qs(parts.query).get("db", [""])[-1] or ("" if parts.scheme == "unix" else parts.path.strip("/"))
    if named and not named.isdecimal():
        raise ValueError("the database of a store is a number")
    return int(named or 0)


def open_client(url: str, *, timeout_s: float, ca_file: str | None = None) -> Redis:
    """Return redis-py's client for one store: it repeats nothing, since a command that timed out may have run."""
    client = Redis.from_url(url, retry=Retry(NoBackoff(), 0), socket_timeout=timeout_s, socket_connect_timeout=timeout_s)
    pool = client.connection_pool
    if ca_file and url.startswith("rediss:"):
        pool.connection_kwargs["ssl_ca_certs"] = ca_file
    pool.connection_class = type("PackingConnection", (Packing, pool.connection_class), {})
    return client


class Packing:
    """A mixin of redis-py's asyncio connections, which pack commands in Python: each of the ledger's has a thousand ids."""

    def pack_command(self, *args: Any) -> list[bytes]:
        """Return a command as RESP; its name may be of two words."""
        name, *arguments = args
        return [hiredis.pack_command((*name.split(), *arguments))]
