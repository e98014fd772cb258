"""What a verdict takes of the store, as a multiple of a script of plain counters, in the three states that limits can be in.

Four candidates of eight limits each: two models with two deployments each, of one key and one organisation. Waves of verdicts,
settlements and yardsticks take turns, 64 calls in flight. Times are those of commandstats, wall time of the store's one thread:
whatever else runs slows both alike, so ratios are taken within a round. Round trips are calls of scripts, ACQUIRE and SETTLE, as
the store counts them, by the request.
"""

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import dataclass
from itertools import count, islice
from statistics import median
from typing import TypeVar

from gateway.admission.client import Admission
from gateway.admission.connection import Connection, pack
from gateway.policy.admission import Acquire, Row, Settle, Upstream
from gateway.policy.answers import Granted, Refused, Verdict
from gateway.policy.catalogue import Limits, Tier
from gateway.policy.charges import Reach
from tests.bench.leases import COST, EVENT, IN_FLIGHT, TTL_MS, supply, tenant
from tests.bench.report import figure, markdown
from tests.bench.store import Store

T = TypeVar("T")

MOST_YARDSTICKS = 6.0
"""What is promised of ACQUIRE in every state: at most six times ten reads and ten writes of counters, by the store's own time."""

YARDSTICK = """
for i = 1, 10 do redis.call('GET', KEYS[i]) end
for i = 11, 20 do redis.call('INCRBY', KEYS[i], 1) end
"""

WAVES = 9
"""How many waves of verdicts make a round. Its figures are the median wave's: one that lost the core for long does not count."""

YARDSTICK_WAVES = 6
"""How many waves of yardsticks go with one of verdicts: about as long, so that both lose the core equally often."""

SLOTS = IN_FLIGHT // 4
"""What a deployment serves at once where all are to be full: the first wave fills the four."""

FAR = 1_000_000
KEY = Limits(rpm=1_000_000_000, tpm=10_000_000_000, concurrency=FAR)
ORG = Limits(rpm=1_000_000_000, tpm=10_000_000_000)
MODEL = Limits(rpm=1_000_000_000)

HEADS = ("limits", "store: us/acquire", "10 GET, 10 INCRBY: us", "acquire / 10 GET, 10 INCRBY", "round trips")


def candidates(name: str, slots: int) -> tuple[Row, ...]:
    """Return the rows of a request. Every scope has the name in its own: under a new one the store knows none."""
    callers = tenant(f"k:{name}", KEY) + tenant(f"o:{name}", ORG)
    deployment = Limits(rpm=1_000_000_000, concurrency=slots)
    rows = []
    for model in (f"{name}-large", f"{name}-small"):
        serving = callers + supply(f"m:{model}", MODEL, Reach.MODEL)
        for place in (f"{model}/east", f"{model}/west"):
            charged = serving + supply(f"d:{place}", deployment, Reach.DEPLOYMENT)
            rows.append(Row(Upstream(place, model, slots), model, Tier.DEFAULT, charged, COST, pool=model))
    return tuple(rows)


KNOWN, FULL = candidates("known", FAR), candidates("full", SLOTS)


@dataclass(frozen=True)
class State:
    """What the store knows of the limits of each request, by its number, and whether there is room."""

    name: str
    rows: Callable[[int], tuple[Row, ...]]
    known: bool
    room: bool

    def check(self, verdict: Verdict) -> None:
        """Raise RuntimeError where the verdict is another state's."""
        if self.room:
            right = isinstance(verdict, Granted) and verdict.row == 0
        else:
            right = isinstance(verdict, Refused) and len(verdict.refusals) == len(FULL)
        if not right:
            raise RuntimeError(f"{self.name}: {verdict!r}")


STATES = (
    State("uncontended", lambda _: KNOWN, known=True, room=True),
    State("all-full", lambda _: FULL, known=True, room=False),
    State("idle", lambda number: candidates(str(number), FAR), known=False, room=True),
)


@dataclass(frozen=True)
class Round:
    """One round: the store's microseconds of a verdict and of a yardstick, and round trips of a request."""

    acquire_us: float
    yardstick_us: float
    trips: float

    @property
    def ratio(self) -> float:
        """Return how many yardsticks a verdict takes."""
        return self.acquire_us / self.yardstick_us


class Rounds:
    """Rounds with one store, over one connection. A store that is flushed still knows the yardstick, once it was loaded."""

    def __init__(self, connection: Connection, store: Store, yardstick: str) -> None:
        self._connection = connection
        self._admission = Admission(connection)
        self._store = store
        self._numbers = count()
        self._yardstick = pack(("EVALSHA", yardstick, 20, *(f"{self._admission.prefix}counter:{n}" for n in range(20))))

    async def measure(self, state: State) -> Round:
        """Return one round. Raises RuntimeError where a verdict is another state's."""
        self._store.clear()
        if state.known:
            earlier = self._requests(state)
            await asyncio.gather(*map(self._admission.acquire, earlier))
            await asyncio.gather(*(self._settle(request.id) for request in earlier if state.room))
        acquires_us, yardsticks_us, trips = [], [], 0
        for _ in range(WAVES):
            requests = self._requests(state)
            verdicts, acquires, us = await self._spent(map(self._admission.acquire, requests))
            acquires_us.append(us / IN_FLIGHT)
            for verdict in verdicts:
                state.check(verdict)
            _, settles, _ = await self._spent(self._settle(request.id) for request in requests if state.room)
            trips += acquires + settles
            yardsticks_us.append(await self._yardstick_us())
        return Round(median(acquires_us), median(yardsticks_us), trips / (WAVES * IN_FLIGHT))

    async def _yardstick_us(self) -> float:
        total_us = 0
        for _ in range(YARDSTICK_WAVES):
            _, _, us = await self._spent(self._connection.call(self._yardstick) for _ in range(IN_FLIGHT))
            total_us += us
        return total_us / (YARDSTICK_WAVES * IN_FLIGHT)

    def _requests(self, state: State) -> list[Acquire]:
        return [Acquire(str(number), state.rows(number), TTL_MS, EVENT) for number in islice(self._numbers, IN_FLIGHT)]

    async def _settle(self, lease_id: str) -> None:
        await self._admission.settle(Settle(lease_id, capacity=False, actual=COST, closed=EVENT))

    async def _spent(self, wave: Iterable[Awaitable[T]]) -> tuple[list[T], int, int]:
        """Make calls at once. Return the answers, and how many scripts and microseconds the store counts for them."""
        calls, us = self._store.calls()
        answers = await asyncio.gather(*wave)
        calls_now, us_now = self._store.calls()
        return answers, calls_now - calls, us_now - us


async def rounds_of_each(connection: Connection, store: Store, reps: int) -> dict[str, list[Round]]:
    """Return so many rounds of each state, in turn. Before them is one that does not count: it makes the scripts known."""
    rounds = Rounds(connection, store, await connection.call(pack(("SCRIPT", "LOAD", YARDSTICK))))
    found: dict[str, list[Round]] = {state.name: [] for state in STATES}
    await rounds.measure(STATES[0])
    for _ in range(reps):
        for state in STATES:
            found[state.name].append(await rounds.measure(state))
    return found


def table(found: dict[str, list[Round]]) -> str:
    """Return the rounds as a table."""
    return markdown([HEADS, *((name, *cells(rounds)) for name, rounds in found.items())])


def cells(rounds: Sequence[Round]) -> tuple[str, ...]:
    """Return one row of the table."""
    return (
        figure(one.acquire_us for one in rounds),
        figure(one.yardstick_us for one in rounds),
        figure((one.ratio for one in rounds), 2),
        f"{median(one.trips for one in rounds):.2f}",
    )


def too_dear(found: dict[str, list[Round]]) -> list[str]:
    """Return a line for each state in which a verdict takes more than is promised."""
    medians = {name: median(one.ratio for one in rounds) for name, rounds in found.items()}
    return [
        f"{name}: an ACQUIRE takes {ratio:.2f} times 10 GET and 10 INCRBY, and at most {MOST_YARDSTICKS:g} is promised"
        for name, ratio in medians.items()
        if ratio > MOST_YARDSTICKS
    ]
