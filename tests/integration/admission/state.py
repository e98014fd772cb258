"""What the store holds, read back and said in the reference's terms."""

import asyncio
import struct
from collections.abc import Iterator
from typing import NamedTuple

import msgspec

from gateway.admission.client import cell_prefix
from gateway.admission.codec import BUDGET_PLACE, PLACES
from gateway.admission.connection import Argument, Connection, Reply, pack
from gateway.policy.charges import Charge, Dimension
from gateway.policy.claims import Claim
from gateway.policy.growth import BASE_MILLI
from gateway.policy.learning import BUCKETS
from gateway.policy.leases import Buckets
from gateway.policy.limits import Bucket

PREFIX = cell_prefix("tg", "c0")
BUDGETS = (Dimension.BUDGET, Dimension.BUDGET_TOKENS)


class State(NamedTuple):
    """Everything that a verdict may depend on."""

    buckets: dict[tuple[str, str], tuple[int, ...]]
    """Level and holds, as of now, and of a dynamic one its scale and its window.

    Empty buckets are left out, as a hash that expired would be.
    """
    leases: dict[str, int]
    settled: set[str]
    expired: set[str]
    reached: dict[str, int]
    """How many leases reach each scope."""
    fading: set[str]
    """Scopes that will expire although leases reach them: there must be none."""


async def ask(connection: Connection, *command: Argument) -> Reply:
    """Send any command on the line that the scripts use."""
    return await connection.call(pack(command))


async def lose(connection: Connection, prefix: str) -> None:
    """Have the store lose everything that begins so: another layout's keys may stand beside it."""
    if keys := await ask(connection, "KEYS", prefix + "*"):
        await ask(connection, "DEL", *keys)


async def stored(connection: Connection, charges: "Charges", now_ms: int, prefix: str = PREFIX) -> State:
    """Return the store's state."""
    scopes = sorted({scope for scope, _ in charges})
    lives = await asyncio.gather(*(ask(connection, "PTTL", prefix + scope) for scope in scopes))
    done_keys, leases, *texts = await asyncio.gather(
        ask(connection, "KEYS", prefix + "done:*"),
        ask(connection, "ZRANGE", prefix + "leases", 0, -1, "WITHSCORES"),
        *(ask(connection, "GET", prefix + scope) for scope in scopes),
    )
    done = dict(zip(done_keys, await ask(connection, "MGET", *done_keys) if done_keys else (), strict=True))
    buckets: dict[tuple[str, str], tuple[int, ...]] = {}
    reached: dict[str, int] = {}
    for scope, packed in zip(scopes, texts, strict=True):
        if packed is not None:
            count, _, *figures = (int(figure) for figure in struct.unpack(f"<{len(packed) // 8}d", packed))
            reached[scope] = count
            for dimension, at in (*PLACES.items(), *((dimension, BUDGET_PLACE) for dimension in BUDGETS)):
                if (scope, dimension) in charges:
                    # A window's figures stand behind those of all buckets.
                    bucket = Bucket(*figures[at - 9 : at - 6], *figures[at + 9 : at + 12])
                    note(buckets, charges[scope, dimension], bucket, now_ms)
    settled = {name(prefix, key, "done:") for key, value in done.items() if value.startswith(b"settled")}
    expired = {name(prefix, key, "done:") for key, value in done.items() if value.startswith(b"expired")}
    reached = {scope: leases for scope, leases in reached.items() if leases}
    fading = {scope for scope, life_ms in zip(scopes, lives, strict=True) if life_ms >= 0 and scope in reached}
    return State(buckets, {lease.decode(): int(expiry) for lease, expiry in pairs(leases)}, settled, expired, reached, fading)


Charges = dict[tuple[str, Dimension], Charge]


def expected(reference: Buckets, charges: Charges, now_ms: int, found: State) -> State:
    """Return the reference's state in the same terms.

    Tombstones expire by the server's own clock, not the driven one: where the reference has forgotten one, `found` may have it.
    """
    buckets: dict[tuple[str, str], tuple[int, ...]] = {}
    for place, bucket in reference.buckets.items():
        note(buckets, charges[place], msgspec.structs.replace(bucket), now_ms)
    reached: dict[str, int] = {}
    for lease in reference.leases.values():
        for scope in {scope for scope, _ in lease.claims}:
            reached[scope] = reached.get(scope, 0) + 1
    leases = {lease.id: lease.expires_ms for lease in reference.leases.values()}
    known = {lease_id: done.claims is None for lease_id, done in reference.done.items() if done.until_ms > now_ms}
    settled = {lease_id for lease_id, was_settled in known.items() if was_settled}
    forgotten = {lease_id for lease_id in found.settled | found.expired if lease_id not in known}
    return State(
        buckets,
        leases,
        settled | (found.settled & forgotten),
        (set(known) - settled) | (found.expired & forgotten),
        reached,
        set(),
    )


async def ledger(connection: Connection, prefix: str = PREFIX) -> list[tuple[str, str]]:
    """Return kind and id of the ledger's events, oldest first."""
    entries = [dict(pairs(flat)) for _, flat in await ask(connection, "XRANGE", f"{prefix}ledger", "-", "+")]
    return [(fields[b"kind"].decode(), fields[b"id"].decode()) for fields in entries]


def pairs(flat: list[bytes]) -> Iterator[tuple[bytes, bytes]]:
    return zip(flat[::2], flat[1::2], strict=True)


def note(buckets: dict[tuple[str, str], tuple[int, ...]], charge: Charge, bucket: Bucket, now_ms: int) -> None:
    bucket.fold(charge, now_ms)
    if bucket.debt or bucket.held or bucket.posted or bucket.scale_milli > BASE_MILLI:
        window = () if charge.dynamic is None else (bucket.scale_milli, bucket.began_ms, bucket.posted)
        buckets[charge.scope, charge.dimension.value] = (bucket.debt, bucket.held, *window)


def name(prefix: str, key: bytes, kind: str) -> str:
    return key.decode().removeprefix(prefix + kind)


def holds_are_conserved(reference: Buckets) -> bool:
    """Say whether each bucket holds what live leases hold in it, and no more."""
    claims: list[Claim] = [claim for lease in reference.leases.values() for claim in lease.claims.values()]
    sums: dict[tuple[str, Dimension], int] = {}
    for claim in claims:
        place = (claim.charge.scope, claim.charge.dimension)
        sums[place] = sums.get(place, 0) + claim.held
    return all(bucket.held == sums.get(place, 0) for place, bucket in reference.buckets.items())


Lanes = dict[str, dict[str, tuple[int, list[str]]]]
"""By pool and precedence, then by org: its tag and its waiters in their order."""


async def queued(connection: Connection, prefix: str = PREFIX) -> tuple[Lanes, dict[str, tuple[int, ...]]]:
    """Return who waits where, and each pool's own figures: how many by precedence, tags given, streak, every, turned."""
    figures: dict[str, tuple[int, ...]] = {}
    for key in await ask(connection, "KEYS", prefix + "pool:*"):
        *found, _ = (int(each) for each in struct.unpack("<10d", await ask(connection, "GET", key)))
        figures[name(prefix, key, "pool:")] = tuple(found)
    lanes: Lanes = {}
    for key in await ask(connection, "KEYS", prefix + "lane:*"):
        precedence, _, pool = name(prefix, key, "lane:").partition(":")
        for org, tag in pairs(await ask(connection, "ZRANGE", key, 0, -1, "WITHSCORES")):
            line = f"{prefix}line:{precedence}:{len(pool)}:{pool}:{org.decode()}"
            waiters = await ask(connection, "ZRANGE", line, 0, -1)
            lanes.setdefault(f"{pool}:{precedence}", {})[org.decode()] = (int(tag), [each.decode() for each in waiters])
    return lanes, {pool: found for pool, found in figures.items() if any(found)}


def expected_queues(reference: Buckets) -> tuple[Lanes, dict[str, tuple[int, ...]]]:
    """Return the reference's queues in the same terms."""
    lanes: Lanes = {}
    figures: dict[str, tuple[int, ...]] = {}
    for each, pool in reference.pools.items():
        for precedence, lane in pool.lanes.items():
            for org, waiters in lane.orgs.items():
                lanes.setdefault(f"{each}:{precedence.value}", {})[org] = (lane.tags[org], waiters)
        counts, tags = (len(lane) for lane in pool.lanes.values()), (lane.last for lane in pool.lanes.values())
        figures[each] = (*counts, *tags, pool.streak, pool.every_ms, pool.turned_ms)
    return lanes, {pool: found for pool, found in figures.items() if any(found)}


Figures = dict[str, dict[str, tuple[int, ...]]]
"""By model, then by field of its hash: all that was learned of it."""


async def learned(connection: Connection, prefix: str = PREFIX) -> Figures:
    """Return what the store has learned."""
    found: Figures = {}
    for key in await ask(connection, "KEYS", prefix + "learned:*"):
        fields = pairs(await ask(connection, "HGETALL", key))
        found[name(prefix, key, "learned:")] = {
            field.decode(): tuple(map(int, struct.unpack("<2d" if field == b"ratio" else f"<d{BUCKETS}B", text)))
            for field, text in fields
        }
    return found


def expected_learned(reference: Buckets) -> Figures:
    """Return what the reference has learned, in the same terms."""
    found: Figures = {model: {"ratio": (ratio.day, ratio.ppm)} for model, ratio in reference.learning.ratios.items()}
    for (org, model), lengths in reference.learning.lengths.items():
        found[model][f"o:{org}"] = (lengths.day, *lengths.counts)
    return found


Upstreams = tuple[dict[str, tuple[tuple[int, ...], str]], dict[str, int]]
"""By deployment: its condition's figures, and who probes; by credential: until when it is left alone."""


async def upstreams(connection: Connection, now_ms: int, prefix: str = PREFIX) -> Upstreams:
    """Return how upstreams are doing; what is over may be there or not, since keys expire by the server's own clock."""
    conditions: dict[str, tuple[tuple[int, ...], str]] = {}
    for key in await ask(connection, "KEYS", prefix + "up:*"):
        text = await ask(connection, "GET", key)
        conditions[name(prefix, key, "up:")] = tuple(int(each) for each in struct.unpack("<12d", text[:96])), text[96:].decode()
    cooled = {}
    for key in await ask(connection, "KEYS", prefix + "cool:*"):
        cooled[name(prefix, key, "cool:")] = int(await ask(connection, "GET", key) or 0)
    return conditions, {credential: until_ms for credential, until_ms in cooled.items() if until_ms > now_ms}


def expected_upstreams(reference: Buckets, now_ms: int) -> Upstreams:
    """Return the reference's in the same terms."""
    conditions = {}
    for deployment, condition in reference.upstreams.conditions.items():
        *figures, probe, disabled = msgspec.structs.astuple(condition)
        conditions[deployment] = (*figures, int(disabled)), probe
    cooled = reference.upstreams.cooled_until_ms
    return conditions, {credential: until_ms for credential, until_ms in cooled.items() if until_ms > now_ms}
