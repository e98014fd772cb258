"""What may be wrong around a configuration that is sound: on this machine, at its stores, at its providers.

Nothing is changed, no credential is sent to a provider and no request that costs anything. Seconds.
"""

import asyncio
import os
import resource
import ssl
import stat
import time
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from enum import StrEnum
from pathlib import Path
from typing import Any

import httpx
import msgspec
from redis.exceptions import RedisError
from sqlalchemy.exc import SQLAlchemyError

from gateway.admission.client import cell_prefix
from gateway.admission.discovery import locator
from gateway.admission.redis_client import open_client
from gateway.admission.turns import WORKER_TTL_S
from gateway.config import Config, Files
from gateway.config.certificates import listeners, read, tried
from gateway.config.structs.supply import Provider
from gateway.embedded.child import Unavailable
from gateway.embedded.valkey import url_of_running
from gateway.processes.identity import Identity, gateways_of
from gateway.stores import versions
from gateway.stores.engine import Database

CALL_S = 3.0
"""How long each counterpart may take: one that needs longer fails its requests too."""

MOST_SKEW_S = 2.0
"""By how much a store's clock may be off: periods of budgets and expiries of keys go by both."""

MOST_SKEW_OF_DATE_S = 5.0
"""By how much a Date header may be: it has whole seconds, and was on its way."""

LATELY_S = 3.0
"""Whoever has not ticked for so long is suspended, or gone: a gateway that was started anew is not two."""

DAY_S = 86_400.0
FEWEST_DAYS = 7
"""Who renews certificates of three months has done it long before; what follows the last day is an outage."""

DESCRIPTORS = 256
"""What a worker has open besides connections, generously."""


class State(StrEnum):
    """How bad it is."""

    OK = "ok"
    NOTE = "note"
    PROBLEM = "problem"


class Finding(msgspec.Struct, frozen=True):
    """One thing that was looked at."""

    what: str
    state: State
    told: str


async def examine(config: Config, environ: Mapping[str, str], files: Files) -> tuple[Finding, ...]:
    """Look at everything; what takes a while is looked at at once."""
    distant = await asyncio.gather(
        redis(config), database(config), *(provider(name, each) for name, each in config.providers.items())
    )
    return (
        *replicas(config, environ),
        *permissions(config, files),
        *certificates(config, files),
        descriptors(config),
        *(f for found in distant for f in found),
    )


def replicas(config: Config, environ: Mapping[str, str]) -> Iterator[Finding]:
    """Yield whether several gateways of this configuration would share what they have to."""
    sqlite = is_sqlite(config)
    apart = [name for name, alone in (("redis.url: embedded", config.redis.embedded), ("database.url: SQLite", sqlite)) if alone]
    told = f"{' and '.join(apart)}: for one gateway alone; several would each count limits and keep keys by themselves"
    if not apart:
        yield Finding("replicas", State.OK, "limits, keys and the ledger are shared")
    elif apart[0].startswith("database"):
        yield Finding(
            "replicas", State.NOTE, "database.url: SQLite: for gateways of one host alone, which database.single_host says"
        )
    elif len(apart) == 1:
        yield Finding("replicas", State.PROBLEM, f"{told}, while the other store is shared")
    elif environ.get("KUBERNETES_SERVICE_HOST"):
        yield Finding("replicas", State.PROBLEM, f"{told}; this is Kubernetes, which runs two during every rollout")
    else:
        yield Finding("replicas", State.NOTE, told)


def is_sqlite(config: Config) -> bool:
    """Return whether the database is a file."""
    return config.database.url.reveal().startswith("sqlite")


def permissions(config: Config, files: Files) -> Iterator[Finding]:
    """Yield who else may read or write what only the gateway should."""
    loose = []
    state_dir = Path(config.state_dir)
    pepper = [str(state_dir / "pepper")] if config.keys_pepper is None else []
    public = {tls.cert for _, tls in listeners(config)} - {tls.key for _, tls in listeners(config)}
    for name in [*files.seen, *pepper]:
        mode = mode_of(Path(name))
        if mode is not None and mode & (stat.S_IWOTH | (0 if name in public else stat.S_IROTH)):
            loose.append(f"{name} may be {'written' if mode & stat.S_IWOTH else 'read'} by everybody")
    if state_dir.exists() and not os.access(state_dir, os.R_OK | os.W_OK | os.X_OK):
        loose.append(f"state_dir {state_dir} may not be written by this user")
    for line in loose:
        writable = "written" in line
        yield Finding("files", State.PROBLEM if writable else State.NOTE, line)
    if not loose:
        yield Finding("files", State.OK, "nobody else may read or write them")


def certificates(config: Config, files: Files) -> Iterator[Finding]:
    """Yield how long what each listener shows is still good for."""
    for name, tls in listeners(config):
        ends = tried(read(tls, files))
        left_s = ends.timestamp() - time.time()
        told = f"{tls.cert} ends in {left_s / DAY_S:.1f} days, at {ends:%Y-%m-%dT%H:%M:%SZ}"
        yield Finding(f"{name} certificate", State.OK if left_s >= FEWEST_DAYS * DAY_S else State.NOTE, told)


def mode_of(path: Path) -> int | None:
    """Return a file's mode, None where there is none."""
    try:
        return path.stat().st_mode
    except OSError:
        return None


def descriptors(config: Config) -> Finding:
    """Return whether a worker may open as many connections as it may have requests: a client's and a provider's each."""
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    needed = 2 * config.limits.inflight + DESCRIPTORS
    told = f"limits.inflight {config.limits.inflight} takes some {needed} descriptors a worker; this user may have {soft}"
    return Finding("descriptors", State.OK if soft == resource.RLIM_INFINITY or soft >= needed else State.PROBLEM, told)


async def redis(config: Config) -> list[Finding]:
    """Return whether the store is there, how its clock goes, how many workers use it, and whether of gateways that may."""
    try:
        url = url_of_running(Path(config.state_dir)) if config.redis.embedded else config.redis.url.reveal()
    except Unavailable:
        return [Finding("redis", State.OK, "embedded: it starts with the gateway")]
    client = open_client(locator(url, ca_file=config.redis.ca_file), timeout_s=CALL_S)
    try:
        sent_s = time.time()
        seconds, micros = await client.time()
        took_s = time.time() - sent_s
        heard_ms = (seconds + WORKER_TTL_S - LATELY_S) * 1000 + micros / 1000
        workers: Any = await client.zrangebyscore(f"{cell_prefix(config.redis.prefix)}workers", heard_ms, "+inf")
    except (RedisError, OSError, TimeoutError) as error:
        if config.redis.embedded:
            return [Finding("redis", State.OK, "embedded: it starts with the gateway")]
        return [Finding("redis", State.PROBLEM, f"cannot be used: {type(error).__name__}: {error}")]
    finally:
        await client.aclose()
    answer = Finding("redis", State.OK, f"answers in {1000 * took_s:.0f} ms; {len(workers)} workers use it now")
    clock = skew("redis's clock", seconds + micros / 1_000_000 - sent_s - took_s / 2, MOST_SKEW_S)
    return [answer, clock, *together(config, gateways_of(worker.decode() for worker in workers))]


def together(config: Config, live: Sequence[Identity]) -> Iterator[Finding]:
    """Yield whether the gateways that use the store now may be as many, and where they are."""
    machines, named = {each.machine for each in live}, ", ".join(map(str, live))
    if config.redis.embedded and len(live) > 1:
        told = f"redis.url: embedded is for one gateway alone, and {len(live)} use this one's store now: {named}"
        yield Finding("gateways", State.PROBLEM, told)
    elif is_sqlite(config) and len(machines) > 1:
        told = f"database.url: SQLite is for gateways of one host alone, and those of {len(machines)} use the store now: {named}"
        yield Finding("gateways", State.PROBLEM, f"{told}; each host keeps keys and its part of the ledger in a file of its own")
    elif live:
        yield Finding("gateways", State.OK, f"{len(live)} use the store now: {named}")


def skew(what: str, off_s: float, most_s: float) -> Finding:
    """Return how a clock goes against this machine's."""
    told = f"{abs(off_s):.1f} s {'ahead of' if off_s > 0 else 'behind'} this machine's; more than {most_s:g} s is too much"
    return Finding(what, State.OK if abs(off_s) <= most_s else State.PROBLEM, told)


async def database(config: Config) -> list[Finding]:
    """Return whether the database is there, with the tables that this release needs."""
    found = Database(config.database.url.reveal())
    try:
        async with asyncio.timeout(CALL_S):
            version = await versions.current(found)
            await versions.admit(found)
    except versions.SchemaVersionError as error:
        return [Finding("database", State.PROBLEM, str(error))]
    except (SQLAlchemyError, OSError, TimeoutError) as error:
        return [Finding("database", State.PROBLEM, f"cannot be used: {type(error).__name__}")]
    told = f"has the tables of version {version}" if version else "is made at the first start"
    return [Finding("database", State.OK, told)]


async def provider(name: str, each: Provider) -> list[Finding]:
    """Return whether a provider answers at all, whatever it says to somebody without a credential, and how its clock goes."""
    what = f"provider {name}"
    verify: ssl.SSLContext | bool = ssl.create_default_context(cafile=each.ca_file)
    proxy = None if each.proxy is None else each.proxy.reveal()
    async with httpx.AsyncClient(verify=verify, proxy=proxy, timeout=CALL_S, trust_env=False) as client:
        sent_s = time.time()
        try:
            answer = await client.get(f"{each.base_url.rstrip('/')}/models")
        except httpx.HTTPError as error:
            return [Finding(what, State.PROBLEM, f"cannot be reached: {type(error).__name__}")]
        took_s = time.time() - sent_s
    found = [Finding(what, State.OK, f"answers {answer.status_code} in {1000 * took_s:.0f} ms")]
    date = date_of(answer.headers.get("date", ""))
    return found if date is None else [*found, skew(f"{what}'s clock", off(date, sent_s, sent_s + took_s), MOST_SKEW_OF_DATE_S)]


def date_of(written: str) -> datetime | None:
    """Return the moment of a Date header, None where it is none."""
    try:
        date = parsedate_to_datetime(written)
    except ValueError:
        return None
    return date if date.tzinfo else date.replace(tzinfo=UTC)


def off(date: datetime, sent_s: float, heard_s: float) -> float:
    """Return by how much a date is off that was written between two moments, in whole seconds rounded down."""
    said_s = date.timestamp()
    return said_s - heard_s if said_s > heard_s else min(0.0, said_s + 1 - sent_s)
