"""Where the admission store is and how it is entered, read from a URL. Nothing here is resolved or connected to."""

import ssl
from collections.abc import Awaitable, Callable, Iterator
from enum import StrEnum
from urllib.parse import SplitResult, parse_qs, unquote, urlsplit

import msgspec
from msgspec.structs import replace

from gateway.policy.catalogue import Secret

DEFAULT_PORT = 6379
SENTINEL_PORT = 26379


class Endpoint(msgspec.Struct, frozen=True, kw_only=True):
    """One server: a unix socket's `path`, or `host` and `port`; and who enters."""

    host: str = ""
    port: int = DEFAULT_PORT
    path: str = ""
    database: int = 0
    username: str = ""
    password: Secret = Secret("")
    tls: ssl.SSLContext | None = None

    @property
    def place(self) -> str:
        """Return where it is, in words that hold no credential."""
        return self.path or f"{self.host}:{self.port}"


Locate = Callable[[], Awaitable[Endpoint]]
"""Returns the server to connect to now. Raises OSError; its text holds no credential."""


class Kind(StrEnum):
    """Who knows where the store is: its URL, sentinels, or the nodes of a cluster."""

    SINGLE = ""
    SENTINEL = "sentinel"
    CLUSTER = "cluster"


class Store(msgspec.Struct, frozen=True, kw_only=True):
    """What a URL names: `entry` is how the store is entered, `nodes` are those that know where it is, a single one itself."""

    kind: Kind
    tls: bool
    entry: Endpoint
    nodes: tuple[Endpoint, ...]
    primary: str = ""
    """What the sentinels call the store."""


def parse_store(url: str) -> Store:
    """Return the store that a URL names.

    Raises ValueError for one that names none; its text never repeats the URL, which may hold a password.
    """
    parts = _split(url)
    protocol, _, way = parts.scheme.partition("+")
    if parts.scheme != "unix" and (protocol not in ("redis", "rediss") or way not in tuple(Kind)):
        raise ValueError("the scheme is none of redis, rediss, unix, redis+sentinel, redis+cluster")
    kind, query, path = Kind(way), parse_qs(parts.query), parts.path.strip("/")
    primary, _, path = path.partition("/") if kind is Kind.SENTINEL else ("", "", path)
    entry = Endpoint(
        path=unquote(parts.path) if protocol == "unix" else "",
        database=_number(query.get("db", ["" if protocol == "unix" else path])[-1], "the database"),
        username=unquote(parts.username or ""),
        password=Secret(unquote(parts.password or "")),
    )
    if kind is Kind.SENTINEL:
        names, words = query.get("sentinel_username", [""]), query.get("sentinel_password", [""])
        asked = Endpoint(port=SENTINEL_PORT, username=names[-1], password=Secret(words[-1]))
    else:
        asked = entry
    nodes = (entry,) if protocol == "unix" else tuple(_nodes(parts, asked))
    store = Store(kind=kind, tls=protocol == "rediss", entry=entry, nodes=nodes, primary=unquote(primary))
    _check(store, parts.scheme)
    return store


def _split(url: str) -> SplitResult:
    try:
        return urlsplit(url)
    except ValueError:
        # Its text quotes what it did not understand.
        raise ValueError("it is no URL") from None


def _nodes(parts: SplitResult, asked: Endpoint) -> Iterator[Endpoint]:
    for address in parts.netloc.rpartition("@")[2].split(","):
        host, _, port = address.rpartition(":") if not address.endswith("]") and ":" in address else (address, "", "")
        number = _number(port, "a port", most=65_535) or asked.port
        yield replace(asked, host=host.strip("[]") or "localhost", port=number)


def _number(text: str, what: str, *, most: int = 2**31) -> int:
    number = int(text or 0) if text.isdecimal() or not text else -1
    if not 0 <= number <= most:
        raise ValueError(f"{what} of a store is a number up to {most}")
    return number


def _check(store: Store, scheme: str) -> None:
    if scheme == "unix" and not store.entry.path:
        raise ValueError("a unix URL needs the path of a socket")
    if store.kind is Kind.SENTINEL and not store.primary:
        raise ValueError("a sentinel URL names the primary that is watched: redis+sentinel://host:26379/name")
    if store.kind is Kind.SINGLE and len(store.nodes) > 1:
        raise ValueError("several hosts are sentinels or a cluster: redis+sentinel:// or redis+cluster://")
    if store.kind is Kind.CLUSTER and store.entry.database:
        raise ValueError("a cluster has one database, number 0")
