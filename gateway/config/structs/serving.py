"""The sections on how the gateway runs: listeners, stores, bounds, timers, telemetry. Durations in seconds, sizes in bytes."""

from typing import Annotated, Literal

import msgspec
from msgspec import field

from gateway.config.scalars import Duration, HostName, Name, Network, Period, Size
from gateway.config.structs.base import Count, Section, Share
from gateway.policy.catalogue import Secret

Port = Annotated[int, msgspec.Meta(ge=0, le=65_535)]
"""A TCP port; 0 lets the system choose, which is for tests."""


class Tls(Section, frozen=True, kw_only=True):
    """A listener's certificate chain and its key, as paths of PEM files."""

    cert: str
    key: str


class Api(Section, frozen=True, kw_only=True):
    """The listener that clients talk to.

    `trusted_proxies` are the networks whose X-Forwarded-For is believed: the client is the last address in it that is in none of
    them. Without them the peer is the client.
    `hide_providers` keeps provider names out of `x-gateway-*` headers and error messages. `keep_alive` is how long an idle
    connection is kept, longer than the 60 s after which common load balancers close theirs: who closes first sends into no
    connection that the other has closed. `receipt` is how long a request may take from its first byte to its last.
    """

    host: str = "0.0.0.0"  # noqa: S104  # a container is reached from outside, or not at all
    port: Port = 8080
    tls: Tls | None = None
    trusted_proxies: tuple[Network, ...] = ()
    hide_providers: bool = False
    keep_alive_s: Period = field(name="keep_alive", default=75.0)
    receipt_s: Period = field(name="receipt", default=60.0)


class OpsToken(Section, frozen=True, kw_only=True):
    """A bearer of the admin API, by secret or by digest. The audit names it by `name`.

    A `viewer` reads, an `operator` works on keys too, an `admin` may do everything.
    """

    name: Name
    role: Literal["viewer", "operator", "admin"]
    secret: Secret | None = None
    digest: str | None = None


class Ops(Section, frozen=True, kw_only=True):
    """The listener for operations: probes, metrics, admin API, dashboard. Never the API's port.

    `admin_token` is an admin called `admin`. With neither it nor `tokens` the admin API answers on loopback alone. `hosts` are
    the names that it is reached by, besides localhost and addresses: a page whose own name leads here is none of its users.
    """

    host: str = "0.0.0.0"  # noqa: S104  # probes and scrapers come from outside
    port: Port = 8081
    admin_token: Secret | None = None
    tls: Tls | None = None
    trusted_proxies: tuple[Network, ...] = ()
    tokens: tuple[OpsToken, ...] = ()
    hosts: tuple[HostName, ...] = ()


class OnRedisFailure(Section, frozen=True, kw_only=True):
    """What holds while Redis cannot be reached.

    `rates` go by a local share, close, or do not hold; `budgets` close near zero or do not hold; the queue refuses.
    """

    rates: Literal["local", "closed", "open"] = "local"
    budgets: Literal["closed", "open"] = "closed"
    queue: Literal["refuse"] = "refuse"


class Redis(Section, frozen=True, kw_only=True):
    """Where limits, leases and the ledger's stream live. `embedded` starts a Valkey of our own on a unix socket.

    `timeout` bounds one call: a slower Redis is treated as lost, because every request waits for it. `cells` splits the
    keyspace; only 1 for now.
    """

    url: Secret = field(default_factory=lambda: Secret("embedded"))
    on_failure: OnRedisFailure = OnRedisFailure()
    prefix: Name = "tg"
    ca_file: str | None = None
    timeout_s: Period = field(name="timeout", default=0.1)
    cells: Count = 1

    @property
    def embedded(self) -> bool:
        """Return whether the gateway runs its own Valkey."""
        return self.url.reveal() == "embedded"


class Database(Section, frozen=True, kw_only=True):
    """Where keys, orgs and the ledger are kept: a SQLite file, or a Postgres.

    `single_host` asserts that every replica is on the host that has the file. `pool` bounds the connections
    that one process reads with from a Postgres.
    """

    url: Secret = field(default_factory=lambda: Secret("sqlite:///var/tiergate.db"))
    single_host: bool = False
    pool: Count = 10


class Leases(Section, frozen=True, kw_only=True):
    """How long a request's reservation outlives its worker, and how often the worker renews it."""

    ttl_s: Period = field(name="ttl", default=30.0)
    heartbeat_s: Period = field(name="heartbeat", default=10.0)


class Bounds(Section, frozen=True, kw_only=True):
    """What one worker takes in before it refuses.

    `body` of a request (413), `header_bytes` of its headers (431), `sse_event` of one upstream event, `inflight` requests and
    `buffered` bytes at once (503 `overloaded`).
    """

    body_bytes: Size = field(name="body", default=10 << 20)
    header_bytes: Size = 16 << 10
    sse_event_bytes: Size = field(name="sse_event", default=4 << 20)
    inflight: Count = 2000
    buffered_bytes: Size = field(name="buffered", default=256 << 20)


class Shutdown(Section, frozen=True, kw_only=True):
    """`delay` serves on after readiness fails, so that load balancers notice; `drain` bounds what is still running after it."""

    delay_s: Duration = field(name="delay", default=5.0)
    drain_s: Duration = field(name="drain", default=600.0)


class Telemetry(Section, frozen=True, kw_only=True):
    """Logs, metrics and traces. `org_labels` bounds the orgs that get a metric label; `propagate` names who gets traceparent."""

    log: Literal["json", "console"] = "json"
    log_bodies: bool = False
    level: Literal["debug", "info", "warning", "error"] = "info"
    otlp_endpoint: str = ""
    exemplars: bool = True
    org_labels: Annotated[int, msgspec.Meta(ge=0, le=200)] = 200
    propagate: tuple[Name, ...] = ()


class FallbackRules(Section, frozen=True, kw_only=True):
    """The walk over models: which ends of one model lead to the next, and how far.

    `retry_budget` is the share of a model's requests that may repeat work after a send, three a second at least; 1 is no bound.
    """

    on: tuple[Literal["capacity", "unavailable", "rate_limit", "context_length", "content_filter"], ...] = (
        "capacity",
        "unavailable",
    )
    max_models: Count = 4
    max_attempts: Count = 6
    retry_budget: Share = 0.1


class Breaker(Section, frozen=True, kw_only=True):
    """When a deployment is left alone: `failures` in a row, or `ratio` of a `window`; `open` doubles up to `max_open`."""

    failures: Count = 5
    ratio: Share = 0.5
    window_s: Period = field(name="window", default=30.0)
    open_s: Period = field(name="open", default=10.0)
    max_open_s: Period = field(name="max_open", default=300.0)
    cooldown_max_s: Period = field(name="cooldown_max", default=60.0)


class Ledger(Section, frozen=True, kw_only=True):
    """The record of what was used.

    `strict` waits for the disk. Requests have rows for the time of `retention`; their sums stay. `spool_max` bounds what a worker
    keeps on its disk for Redis. `batch` is how many events one transaction stores.
    """

    durability: Literal["standard", "strict"] = "standard"
    retention_s: Period = field(name="retention", default=400 * 86_400.0)
    spool_max_bytes: Size = field(name="spool_max", default=1 << 30)
    batch: Annotated[int, msgspec.Meta(ge=1, le=10_000)] = 500
