"""The admission scripts as calls: one round trip each, `AdmissionUnavailable` where there was no verdict in time.

What the values mean is told in `gateway.policy.admission`, what the scripts do in their headers and in `gateway.policy.leases`.
"""

import asyncio
import math
import time
from collections.abc import Callable, Sequence
from itertools import groupby
from typing import Protocol

import structlog

from gateway.admission import codec
from gateway.admission.codec import (
    EndingEncoder,
    RowEncoder,
    encode_estimate,
    encode_groups,
    encode_lesson,
    encode_seed,
    encode_wait,
)
from gateway.admission.connection import AdmissionUnavailable, Argument, Connection, Reply, StoreError, pack
from gateway.admission.scripts import Script
from gateway.policy.admission import Acquire, Adopt, Order, Progress, Report, Row, Seed, Settle, Switch, Upstream
from gateway.policy.answers import Granted, Levels, Posted, Turn, Unseeded, Verdict
from gateway.policy.breaker import USUAL_BREAKER, Breaker
from gateway.policy.charges import Charge
from gateway.policy.standing import Standing, standing

__all__ = [
    "Admission",
    "AdmissionUnavailable",
    "cell_prefix",
    "changes_channel",
    "epoch_key",
    "ledger_key",
    "traces_key",
    "turn_channel",
]

FORMAT = "v1"
"""The version of all that the scripts keep; two releases that differ in it never meet in one key."""

LEASES_AT_ONCE = 64
"""How many leases one call renews, so that a thousand streams never hold the store for long."""

FAULT_S = 10.0
"""How long an error of the store's counts as its state: longer than between two heartbeats."""

log = structlog.get_logger(__name__)


def cell_prefix(prefix: str, cell: str = "c0", layout: str = FORMAT) -> str:
    """Return what every key of a cell begins with; the braces keep a cell in one slot of a cluster."""
    return f"{prefix}:{layout}:{{{cell}}}:"


def turn_channel(prefix: str, worker: str) -> str:
    """Return where a worker hears of its waiters' turns; `prefix` is a cell's."""
    return f"{prefix}turn:{worker}"


def epoch_key(prefix: str) -> str:
    """Return the key of the number of changes of keys; `prefix` is a cell's."""
    return f"{prefix}authz_epoch"


def changes_channel(prefix: str) -> str:
    """Return where workers hear of changes of keys; `prefix` is a cell's."""
    return f"{prefix}authz"


def ledger_key(prefix: str = "tg", cell: str = "c0") -> str:
    """Return the key of a cell's ledger stream."""
    return f"{cell_prefix(prefix, cell)}ledger"


def traces_key(prefix: str = "tg", cell: str = "c0") -> str:
    """Return the key of the traces of a cell's requests."""
    return f"{cell_prefix(prefix, cell)}traces"


def own_clock() -> Argument:
    """Leave the time to the store: only there do all workers have the same."""
    return b""


THE_CELL = cell_prefix("tg", "c0")
"""The one cell there is, unless the operator gives its keys another prefix."""


class Calls(Protocol):
    """Who is told how the store answers, by the names of its scripts."""

    def redis_answered(self, op: str, took_s: float) -> None:
        """Count a call that was answered."""
        ...

    def redis_failed(self, op: str) -> None:
        """Count a call that was not, or with an error."""
        ...


class Admission:
    """The admission store of one cell, by the prefix of its keys. `clock` (Unix ms) replaces the store's where time is driven."""

    def __init__(
        self,
        connection: Connection,
        *,
        prefix: str = THE_CELL,
        breaker: Breaker = USUAL_BREAKER,
        clock: Callable[[], Argument] = own_clock,
        calls: Calls | None = None,
    ) -> None:
        self._connection = connection
        self._calls = calls
        self._clock = clock
        self._endings = EndingEncoder(breaker)
        self._refused_s = -math.inf
        self.prefix = self._prefix = prefix
        self._always = (f"{self._prefix}leases", f"{self._prefix}ledger")
        self._rows = RowEncoder(self._prefix)
        self.gateways = 1
        """How many workers there were at the last tick, this one included."""
        self.epoch: int | None = None
        """How many changes of keys there were at the last grant or tick, None before the first."""
        self._acquire, self._switch, self._confirm = map(Script, ("acquire", "switch", "confirm"))
        self._order, self._seed = map(Script, ("order", "seed"))
        self._settle, self._tick, self._report = map(Script, ("settle", "tick", "report"))
        self._progress, self._adopt, self._levels = map(Script, ("progress", "adopt", "levels"))

    def judge_by(self, breaker: Breaker) -> None:
        """Have upstreams judged by other terms from now on."""
        self._endings = EndingEncoder(breaker)

    @property
    def refusing(self) -> bool:
        """Return whether the store has answered a script with an error lately: it is there, and does not do its work."""
        return asyncio.get_running_loop().time() < self._refused_s + FAULT_S

    @property
    def losses(self) -> int:
        """Return how many connections were lost so far."""
        return self._connection.losses

    async def acquire(self, request: Acquire) -> Verdict:
        """Take the first row that fits, under a new lease."""
        keys, arguments = self._choice(request.id, request.rows, (request.ttl_ms, request.opened, encode_wait(request.wait)))
        return self._heard(codec.verdict(await self._run(self._acquire, keys, arguments), request.rows))

    async def switch(self, request: Switch) -> Verdict:
        """End the lease's attempt and take the first row that fits, under the same lease."""
        first = (request.ttl_ms, self._endings.encode(request.ending), encode_wait(request.wait))
        keys, arguments = self._choice(request.id, request.rows, first)
        return self._heard(codec.verdict(await self._run(self._switch, keys, arguments), request.rows))

    async def seed(self, seeds: Sequence[Seed]) -> None:
        """Say what was spent of budgets; where the store's own figure is higher it stays."""
        keys = (*self._always, *(f"{self._prefix}{seed.charge.scope}" for seed in seeds))
        await self._run(self._seed, keys, tuple(map(encode_seed, seeds)))

    async def settle(self, request: Settle) -> Posted:
        """End a lease and post what was used."""
        used, ending = encode_estimate(request.actual), self._endings.encode(request.ending)
        arguments = (int(request.capacity), used, request.closed, int(request.certain), ending, *encode_lesson(request.lesson))
        return codec.posted(*await self._run(self._settle, self._lease_keys(request.id), arguments))

    async def confirm(self, lease_id: str, rows: Sequence[Row]) -> Verdict:
        """Take the turn that has come; `rows` are those that were asked about."""
        return self._heard(codec.verdict(await self._run(self._confirm, self._lease_keys(lease_id)[:3], ()), rows))

    async def tick(self, worker: str, waiters: Sequence[str]) -> tuple[Turn, ...]:
        """Say that a worker is there and keep its waiters alive; end some lapsed leases, and give the turns that time brought.

        Return what became of each waiter.
        """
        self.gateways, *turns, self.epoch = await self._run(self._tick, self._always, (worker, *waiters))
        return tuple(map(Turn, turns))

    async def progress(self, reports: Sequence[Progress]) -> tuple[str, ...]:
        """Renew leases and post what they have used. Return the ids of those that live no more, as far as the store knows."""
        lost: list[str] = []
        for start in range(0, len(reports), LEASES_AT_ONCE):
            chunk = reports[start : start + LEASES_AT_ONCE]
            keys = (*self._always, *(f"{self._prefix}lease:{report.id}" for report in chunk))
            arguments = tuple(encode_estimate(report.so_far) for report in chunk)
            lost += (chunk[at].id for at in await self._run(self._progress, keys, arguments))
        return tuple(lost)

    async def adopt(self, leases: Sequence[Adopt]) -> tuple[str, ...]:
        """Put lost leases back. Return the ids of those whose lives are over."""
        over: list[str] = []
        for start in range(0, len(leases), LEASES_AT_ONCE):
            chunk = leases[start : start + LEASES_AT_ONCE]
            keys, arguments = [*self._always], list[Argument]()
            for lease in chunk:
                encoded = self._rows.encode(lease.row)
                keys += (*self._lease_keys(lease.id)[2:], *encoded.keys)
                figures = encode_estimate(lease.row.estimate)
                arguments += (lease.ttl_ms, lease.opened, encoded.seats[lease.row.last], figures, *encoded.groups)
            over += (chunk[at].id for at in await self._run(self._adopt, keys, arguments))
        return tuple(over)

    async def report(self, reports: Sequence[Report]) -> None:
        """Say how upstreams do while their attempts go on."""
        keys = (*self._always, *(f"{self._prefix}lease:{report.id}" for report in reports))
        arguments = [self._endings.encode(report.ending) for report in reports]
        await self._run(self._report, keys, arguments)

    async def order(self, order: Order) -> None:
        """Do as the operator says."""
        names = (name for upstream in order.upstreams for name in (upstream.deployment, upstream.credential))
        await self._run(self._order, self._always, (order.word, *names))

    async def standings(self, upstreams: Sequence[Upstream]) -> tuple[Standing, ...]:
        """Return how these deployments are doing, each once: its credentials follow each other."""
        keys = [f"{self._prefix}up:{upstream.deployment}" for upstream in upstreams]
        keys += [f"{self._prefix}cool:{upstream.credential}" for upstream in upstreams]
        commands: tuple[tuple[Argument, ...], ...] = (("TIME",), ("MGET", *keys))
        (seconds, _), found = await asyncio.gather(*(self._connection.call(pack(command)) for command in commands))
        places = zip(upstreams, found[: len(upstreams)], found[len(upstreams) :], strict=True)
        standings = []
        for _, group in groupby(places, lambda place: place[0].deployment):
            (upstream, text, _), *_ = of_one = [*group]
            left_alone = {each.credential: int(until_ms or 0) for each, _, until_ms in of_one}
            standings.append(standing(upstream, codec.condition(text), left_alone, 1000 * int(seconds)))
        return tuple(standings)

    async def levels(self, charges: Sequence[Charge]) -> Levels | Unseeded:
        """Look at buckets, budgets first among them, and leave all as it is."""
        groups = encode_groups(charges)
        keys = (*self._always, *(f"{self._prefix}{scope}" for scope in groups))
        return codec.levels(await self._run(self._levels, keys, (*groups.values(),)), charges)

    async def claim(self, name: str, for_ms: int) -> bool:
        """Say that something is one's own to do, for so long. Return whether nobody had said so."""
        return await self._connection.call(pack(("SET", f"{self._prefix}{name}", "1", "NX", "PX", for_ms))) is not None

    def _lease_keys(self, lease_id: str) -> tuple[str, ...]:
        return (*self._always, f"{self._prefix}lease:{lease_id}", f"{self._prefix}done:{lease_id}")

    def _choice(
        self, lease_id: str, rows: tuple[Row, ...], arguments: tuple[Argument, ...]
    ) -> tuple[Sequence[str], Sequence[Argument]]:
        keys = [*self._lease_keys(lease_id)]
        found = [*arguments]
        estimate, figures = None, b""
        for row in rows:
            encoded = self._rows.encode(row)
            keys += encoded.keys
            if row.estimate is not estimate:
                estimate, figures = row.estimate, encode_estimate(row.estimate)
            found += (encoded.seats[row.last], figures, *encoded.groups)
        return keys, found

    def _heard(self, verdict: Verdict) -> Verdict:
        if isinstance(verdict, Granted) and verdict.epoch is not None:
            self.epoch = verdict.epoch
        return verdict

    async def _run(self, script: Script, keys: Sequence[str], arguments: Sequence[Argument]) -> Reply:
        call, calls, clock, began_s = self._connection.call, self._calls, self._clock(), time.perf_counter()
        try:
            try:
                reply = await call(pack(("EVALSHA", script.digest, len(keys), *keys, clock, *arguments)))
            except StoreError as error:
                # The one answer that proves that nothing ran: a store that was restarted or flushed has forgotten the script.
                if not str(error).startswith("NOSCRIPT"):
                    self._note(error)
                    raise
                reply = await call(pack(("EVAL", script.text, len(keys), *keys, clock, *arguments)))
        except AdmissionUnavailable:
            if calls is not None:
                calls.redis_failed(script.name)
            raise
        if calls is not None:
            calls.redis_answered(script.name, time.perf_counter() - began_s)
        return reply

    def _note(self, error: StoreError) -> None:
        """Tell the operator, once for all errors that follow: such a store is as good as away, and does not mend itself."""
        if not self.refusing:
            log.error("admission_script_failed", error=str(error))
        self._refused_s = asyncio.get_running_loop().time()
