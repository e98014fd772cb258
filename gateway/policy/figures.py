"""What one worker sees of deployments that are ordered by how they are doing: what is under way there, and how fast answers were.

Its own figures alone: they are in no store, and every worker has others. The corridor tells of each request, from the moment that
it is planned to the end of all that it holds; each `Stay` is counted once and taken back once. Pure, with the clock handed in.
"""

from collections.abc import Callable, Sequence
from enum import Enum
from itertools import groupby

from msgspec.structs import replace

from gateway.faults import EndClass, Fault
from gateway.policy.orders import Look, latency_order, least_busy_order
from gateway.policy.pace import Pace, after_answer, after_departure, after_fault
from gateway.policy.routing import Candidate, Plan
from gateway.policy.strategy import Strategy


class _Kind:
    """Streams or whole answers of one deployment: what they take cannot be compared."""

    __slots__ = ("awaited", "pace")

    def __init__(self) -> None:
        self.awaited = 0
        self.pace: Pace | None = None


class _Place:
    """One deployment."""

    __slots__ = ("streams", "under_way", "wholes")

    def __init__(self) -> None:
        self.under_way = 0
        self.streams = _Kind()
        self.wholes = _Kind()


class Figures:
    """All figures of one worker. `now_s` returns the monotonic clock."""

    def __init__(self, now_s: Callable[[], float]) -> None:
        self.now_s = now_s
        self._places: dict[str, _Place] = {}

    def __len__(self) -> int:
        """Return how many requests are counted anywhere."""
        return sum(place.under_way for place in self._places.values())

    def ordered(self, plan: Plan, dice: int, *, stream: bool) -> Plan:
        """Return the plan with the candidates of one model and tier in the order of the model's strategy."""
        groups = groupby(plan.candidates, lambda candidate: (candidate.stage, candidate.target.tier))
        candidates = (each for _, group in groups for each in self._in_order(tuple(group), dice, stream=stream))
        return replace(plan, candidates=tuple(candidates))

    def _in_order(self, candidates: Sequence[Candidate], dice: int, *, stream: bool) -> Sequence[Candidate]:
        strategy = candidates[0].target.model.strategy
        if len(candidates) == 1 or strategy is Strategy.WEIGHTED:
            return candidates
        # The credentials of one deployment follow each other, and stay as they are.
        blocks = [tuple(block) for _, block in groupby(candidates, lambda candidate: candidate.target.deployment.id)]
        ways, deployments = [block[0].way for block in blocks], [block[0].target.deployment.id for block in blocks]
        if strategy is Strategy.LEAST_BUSY:
            places = least_busy_order(ways, [self.under_way(each) for each in deployments])
        else:
            places = latency_order(ways, dice, [self.look(each, stream=stream) for each in deployments], self.now_s())
        return [candidate for place in places for candidate in blocks[place]]

    def expect(self, deployment: str, *, stream: bool) -> "Stay":
        """Count a request where it is to be tried first: those that are planned with it go by it."""
        stay = Stay(self, stream=stream)
        stay.move(deployment)
        return stay

    def under_way(self, deployment: str) -> int:
        """Return how many requests of this worker are there, or about to be."""
        place = self._places.get(deployment)
        return 0 if place is None else place.under_way

    def look(self, deployment: str, *, stream: bool) -> Look:
        """Return what is known of its streams, or of its whole answers."""
        place = self._places.get(deployment)
        if place is None:
            return Look()
        kind = place.streams if stream else place.wholes
        return Look(kind.pace, kind.awaited)

    def place(self, deployment: str) -> _Place:
        """Return where a deployment is counted."""
        return self._places.setdefault(deployment, _Place())


class Phase(Enum):
    """How far a request is at a deployment."""

    EXPECTED = "expected"
    """It is to be tried there first, and may come to be tried elsewhere."""
    ASKED = "asked"
    ANSWERED = "answered"
    """The whole answer is there, or the first content of a stream."""
    OVER = "over"
    """It has failed."""


class Stay:
    """One request, wherever it is: at one deployment or at none."""

    __slots__ = ("_asked_s", "_figures", "_kind", "_phase", "_place", "_stream")

    def __init__(self, figures: Figures, *, stream: bool) -> None:
        self._figures = figures
        self._stream = stream
        self._phase = Phase.OVER
        self._place: _Place | None = None
        self._kind = _Kind()
        self._asked_s = 0.0

    def move(self, deployment: str) -> None:
        """Be counted there, and nowhere else."""
        self.leave()
        self._place = place = self._figures.place(deployment)
        self._kind = place.streams if self._stream else place.wholes
        self._phase = Phase.EXPECTED
        place.under_way += 1
        self._kind.awaited += 1

    def ask(self, deployment: str) -> None:
        """Go out to it now."""
        self.move(deployment)
        self._phase, self._asked_s = Phase.ASKED, self._figures.now_s()

    def answered(self, units: float) -> None:
        """Take note of an answer that brought so much."""
        if self._phase is Phase.ASKED:
            now_s = self._end(Phase.ANSWERED)
            self._kind.pace = after_answer(self._kind.pace, now_s - self._asked_s, units, now_s)

    def failed(self, fault: Fault) -> None:
        """Take note of a fault, before the answer or within it. Want of room and what the client is at fault for tell nothing."""
        awaited, telling = self._phase is Phase.ASKED, fault.end_class is EndClass.UNAVAILABLE
        if not awaited and self._phase is not Phase.ANSWERED:
            return
        now_s = self._end(Phase.OVER)
        if telling:
            # How long an answer broke off after its beginning is no figure of its beginning.
            self._kind.pace = after_fault(self._kind.pace, now_s - self._asked_s if awaited else 0.0, now_s)

    def leave(self) -> None:
        """Be counted nowhere any more. Idempotent."""
        place, self._place = self._place, None
        if place is None:
            return
        place.under_way -= 1
        asked = self._phase is Phase.ASKED
        now_s = self._end(Phase.OVER)
        if asked:
            self._kind.pace = after_departure(self._kind.pace, now_s - self._asked_s, now_s)

    def _end(self, phase: Phase) -> float:
        """Come to the end of a phase. Return the time."""
        if self._phase in (Phase.EXPECTED, Phase.ASKED):
            self._kind.awaited -= 1
        self._phase = phase
        return self._figures.now_s()
