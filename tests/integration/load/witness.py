"""What a Valkey did, as a witness saw it: every run of an admission script, in the store's order, with its arguments and writes.

MONITOR shows each command that came in and then, for a script, each command that it ran. So the witness needs no word of the
gateways: it reads the requests out of the arguments, and the time out of what the scripts wrote.
"""

import asyncio
import re
import struct
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager

import msgspec
from redis.asyncio import Redis

from gateway.admission.client import cell_prefix
from gateway.admission.codec import BUDGET_PLACE, PLACES
from gateway.admission.scripts import Script
from gateway.policy.admission import Precedence, Row, Upstream, Wait
from gateway.policy.catalogue import Tier
from gateway.policy.charges import Charge, Dimension, Estimate, Kind, Reach, Unit
from gateway.policy.limits import TOKENS, Bucket

PREFIX = cell_prefix("tg", "c0").encode()
SCRIPTS = {name: Script(name) for name in ("acquire", "switch", "settle", "progress", "confirm", "tick", "seed")}
BY_TEXT = {word: name for name, script in SCRIPTS.items() for word in (script.digest.encode(), script.text.encode())}

LINE = re.compile(rb"^\d+\.\d+ \[\d+ (?P<who>[^\]]*)\] (?P<words>.*)$", re.DOTALL)
WORD = re.compile(rb'"((?:[^"\\]|\\.)*)"', re.DOTALL)
ESCAPE = re.compile(rb"\\(x[0-9a-f]{2}|.)", re.DOTALL)
ESCAPED = {
    **{b"\\%c" % each: b"%c" % each for each in range(256)},
    **{b"\\x%02x" % each: b"%c" % each for each in range(256)},
    b"\\n": b"\n",
    b"\\r": b"\r",
    b"\\t": b"\t",
    b"\\a": b"\a",
    b"\\b": b"\b",
}

Words = list[bytes]


class Run(msgspec.Struct, frozen=True):
    """One run of one script: its keys and arguments, and the commands that it ran."""

    script: str
    keys: Words
    arguments: Words
    commands: list[Words]

    @property
    def lease_id(self) -> str:
        return self.keys[2].removeprefix(PREFIX + b"lease:").decode()

    @property
    def looked_ms(self) -> int:
        """Return the script's own time, as it looked for leases that had lapsed by then."""
        [looked] = [command for command in self.commands if command[:2] == [b"ZRANGEBYSCORE", PREFIX + b"leases"]]
        return int(looked[3])

    def renewed(self) -> dict[str, int]:
        """Return the leases that it wrote, each with its new expiry."""
        written = [command for command in self.commands if command[:2] == [b"ZADD", PREFIX + b"leases"]]
        return {command[3].decode(): int(command[2]) for command in written}

    def rows(self) -> tuple[Row, ...]:
        """Return the candidate rows that it was asked about."""
        scopes, words, found = iter(self.keys[4:]), iter(self.arguments[4:]), []
        for seated in words:
            estimate = estimate_of(next(words))
            groups = [doubles(next(words)) for _ in range(int(seated[1:2], 16))]
            charges = tuple(charge for group in groups for charge in charges_of(next(scopes), group))
            precedence, pool, *upstream = msgspec.msgpack.decode(seated[2:])
            row = Row(Upstream(*upstream), "", Tier.DEFAULT, charges, estimate, pool, Precedence(precedence), seated[:1] == b"1")
            found.append(row)
        return tuple(found)

    def wait(self) -> Wait | None:
        """Return how the request was willing to wait."""
        return msgspec.msgpack.decode(self.arguments[3], type=Willing).wait() if self.arguments[3] else None

    def buckets(self) -> Iterator[tuple[tuple[str, Dimension], Bucket]]:
        """Return every bucket that it wrote."""
        for command in self.commands:
            if command[0] == b"MSET":
                for key, value in zip(command[1::2], command[2::2], strict=True):
                    scope, figures = key.removeprefix(PREFIX).decode(), doubles(value)
                    for place, dimension in places_of(scope).items():
                        debt, at_ms, held = figures[place - 7 : place - 4]
                        if at_ms:
                            yield (scope, dimension), Bucket(debt, at_ms, held)


class Willing(msgspec.Struct, frozen=True, array_like=True):
    """A `Wait` as `gateway.admission.codec` lays it out."""

    org: str
    worker: str
    patience_ms: int
    max_waiters: int
    max_of_org: int

    def wait(self) -> Wait:
        return Wait(self.org, self.worker, self.patience_ms, self.max_waiters, self.max_of_org)


def doubles(text: bytes) -> list[int]:
    """Return the whole numbers of a string of doubles."""
    return [int(figure) for figure in struct.unpack(f"<{len(text) // 8}d", text)]


def estimate_of(text: bytes) -> Estimate:
    return Estimate(*doubles(text))


def places_of(scope: str) -> dict[int, Dimension]:
    """Return what stands at which place of a scope."""
    if scope[1:3] == "b:":
        return {BUDGET_PLACE: Dimension.BUDGET_TOKENS if scope.endswith(TOKENS) else Dimension.BUDGET}
    return {place: dimension for dimension, place in PLACES.items()}


def charges_of(key: bytes, group: list[int]) -> Iterator[Charge]:
    """Return a scope's charges, as `gateway.admission.codec` lays them out: what they share, then seven figures each."""
    scope = key.removeprefix(PREFIX).decode()
    dimensions = places_of(scope)
    for at in range(2, len(group), 7):
        place, kind, unit, capacity, rate, period_ms, ends_walk = group[at : at + 7]
        yield Charge(
            *(scope, dimensions[place], Kind(kind), Unit(unit), Reach(group[0])),
            *(capacity, rate, period_ms),
            limit=capacity,
            tenant=bool(group[1]),
            ends_walk=bool(ends_walk),
        )


class Witness:
    """What was seen so far."""

    def __init__(self) -> None:
        self._lines: list[bytes] = []

    def see(self, line: bytes) -> None:
        self._lines.append(line)

    def runs(self) -> list[Run]:
        """Return every run of a script, in order. One that ran no command is none: the store did not know the script."""
        found: list[Run] = []
        for line in self._lines:
            who, words = read(line)
            if who == b"lua":
                found[-1].commands.append(words)
            elif words[0] in (b"EVALSHA", b"EVAL"):
                count = int(words[2])
                script = BY_TEXT.get(words[1], "another")
                found.append(Run(script, words[3 : 3 + count], words[3 + count :], []))
        return [run for run in found if run.script != "another" and run.commands]


def read(line: bytes) -> tuple[bytes, Words]:
    """Return who ran a command (`lua`: the script before it), and its words."""
    found = LINE.match(line)
    assert found is not None, line
    return found["who"], [ESCAPE.sub(unescaped, word) for word in WORD.findall(found["words"])]


def unescaped(escape: re.Match[bytes]) -> bytes:
    return ESCAPED[escape[0]]


@asynccontextmanager
async def witnessed(redis: Redis) -> AsyncIterator[Witness]:
    """Watch all that the store does in this block; the last of it is in when the block has ended."""
    witness = Witness()
    async with redis.monitor() as monitor:
        ended = asyncio.Event()

        async def watch() -> None:
            while b'"ECHO" "the end"' not in (line := await monitor.connection.read_response(disable_decoding=True)):
                witness.see(line)
            ended.set()

        watching = asyncio.get_running_loop().create_task(watch())
        try:
            yield witness
            await redis.echo("the end")
            await ended.wait()
        finally:
            watching.cancel()
            await asyncio.wait({watching})
