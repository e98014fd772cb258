"""What the store holds, read back and said in the reference's terms."""

import struct
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

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


LOOK = """
local found, ended = {}, {}
for _, key in ipairs(redis.call('KEYS', ARGV[1] .. '*')) do
  local kind, value = string.find(key, ARGV[1] .. 'done:', 1, true) == 1 and 'done' or redis.call('TYPE', key).ok, false
  if kind == 'done' then ended[#ended + 1] = key
  elseif kind == 'string' then value = redis.call('GET', key)
  elseif kind == 'zset' then value = redis.call('ZRANGE', key, 0, -1, 'WITHSCORES')
  elseif kind == 'hash' then value = redis.call('HGETALL', key) end
  if value then found[#found + 1] = {key, redis.call('PTTL', key), value} end
end
return {found, ended, #ended > 0 and redis.call('MGET', unpack(ended)) or {}}
"""


class Held(NamedTuple):
    """One key's value, and how long it still has: -1 for good."""

    life_ms: int
    value: Any


class Found(NamedTuple):
    """All that the store holds but its stream, by keys less the prefix."""

    keys: Mapping[str, Held]
    ended: list[tuple[str, bytes]]
    """What is kept of leases that ended, which are many."""

    def of_kind(self, kind: str) -> Iterator[tuple[str, Any]]:
        """Yield the values of all keys that begin so, by the rest of the key."""
        for key, held in self.keys.items():
            if key.startswith(kind):
                yield key.removeprefix(kind), held.value


async def look(connection: Connection, prefix: str = PREFIX) -> Found:
    """Read all that there is, in one go."""
    found, ended, how = await ask(connection, "EVAL", LOOK, "1", prefix + "leases", prefix)
    keys = {key[len(prefix) :].decode(): Held(life_ms, value) for key, life_ms, value in found}
    begins = len(f"{prefix}done:")
    return Found(keys, [(key[begins:].decode(), each) for key, each in zip(ended, how, strict=True)])


async def stored(connection: Connection, charges: "Charges", now_ms: int, prefix: str = PREFIX) -> State:
    """Return the store's state."""
    return state_of(await look(connection, prefix), charges, now_ms)


def state_of(found: Found, charges: "Charges", now_ms: int) -> State:
    """Return what was found of what verdicts depend on."""
    buckets: dict[tuple[str, str], tuple[int, ...]] = {}
    reached: dict[str, int] = {}
    fading: set[str] = set()
    places = [*PLACES.items(), *((dimension, BUDGET_PLACE) for dimension in BUDGETS)]
    for scope in {scope for scope, _ in charges} & found.keys.keys():
        life_ms, packed = found.keys[scope]
        count, _, *figures = (int(figure) for figure in struct.unpack(f"<{len(packed) // 8}d", packed))
        for dimension, at in places:
            if (scope, dimension) in charges:
                # A window's figures stand behind those of all buckets.
                bucket = Bucket(*figures[at - 9 : at - 6], *figures[at + 9 : at + 12])
                note(buckets, charges[scope, dimension], bucket, now_ms)
        if count:
            reached[scope] = count
            fading |= {scope} if life_ms >= 0 else set()
    leases = {
        lease.decode(): int(expiry) for lease, expiry in pairs(found.keys["leases"].value if "leases" in found.keys else [])
    }
    settled, expired = ({lease for lease, how in found.ended if how.startswith(word)} for word in (b"settled", b"expired"))
    return State(buckets, leases, settled, expired, reached, fading)


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


def queued(found: Found) -> tuple[Lanes, dict[str, tuple[int, ...]]]:
    """Return who waits where, and each pool's own figures: how many by precedence, tags given, streak, every, turned."""
    figures = {pool: tuple(int(each) for each in struct.unpack("<10d", text)[:-1]) for pool, text in found.of_kind("pool:")}
    lanes: Lanes = {}
    for lane, orgs in found.of_kind("lane:"):
        precedence, _, pool = lane.partition(":")
        for org, tag in pairs(orgs):
            line = found.keys.get(f"line:{precedence}:{len(pool)}:{pool}:{org.decode()}")
            waiters = [] if line is None else [waiter.decode() for waiter, _ in pairs(line.value)]
            lanes.setdefault(f"{pool}:{precedence}", {})[org.decode()] = (int(tag), waiters)
    return lanes, {pool: each for pool, each in figures.items() if any(each)}


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


def learned(found: Found) -> Figures:
    """Return what the store has learned."""
    return {
        model: {
            field.decode(): tuple(map(int, struct.unpack("<2d" if field == b"ratio" else f"<d{BUCKETS}B", text)))
            for field, text in pairs(fields)
        }
        for model, fields in found.of_kind("learned:")
    }


def expected_learned(reference: Buckets) -> Figures:
    """Return what the reference has learned, in the same terms."""
    found: Figures = {model: {"ratio": (ratio.day, ratio.ppm)} for model, ratio in reference.learning.ratios.items()}
    for (org, model), lengths in reference.learning.lengths.items():
        found[model][f"o:{org}"] = (lengths.day, *lengths.counts)
    return found


Upstreams = tuple[dict[str, tuple[tuple[int, ...], str]], dict[str, int]]
"""By deployment: its condition's figures, and who probes; by credential: until when it is left alone, below zero if refused."""


def upstreams(found: Found, now_ms: int) -> Upstreams:
    """Return how upstreams are doing; what is over may be there or not, since keys expire by the server's own clock."""
    conditions = {
        deployment: (tuple(int(each) for each in struct.unpack("<12d", text[:96])), text[96:].decode())
        for deployment, text in found.of_kind("up:")
    }
    cooled = {credential: int(until_ms) for credential, until_ms in found.of_kind("cool:")}
    return conditions, {credential: until_ms for credential, until_ms in cooled.items() if abs(until_ms) > now_ms}


def expected_upstreams(reference: Buckets, now_ms: int) -> Upstreams:
    """Return the reference's in the same terms."""
    conditions = {}
    for deployment, condition in reference.upstreams.conditions.items():
        *figures, probe, disabled = msgspec.structs.astuple(condition)
        conditions[deployment] = (*figures, int(disabled)), probe
    cooled = reference.upstreams.cooled_until_ms
    return conditions, {credential: until_ms for credential, until_ms in cooled.items() if abs(until_ms) > now_ms}
