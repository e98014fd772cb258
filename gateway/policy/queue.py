"""One model's queue: who waits, and whose turn is next.

Priority is served before default, but of five turns default gets one while it waits; flex gets one when nobody else waits. Inside
a class orgs take turns, and an org's own requests keep their order. Whether there is room is not asked here. Unix milliseconds.
Pure.
"""

import msgspec

from gateway.policy.admission import Precedence, Row, Wait

PRIORITY_TURNS = 4
"""How many turns priority gets in a row while default waits."""

WAITING_CLASSES = (Precedence.PRIORITY, Precedence.DEFAULT, Precedence.FLEX)
"""Service over the limit never waits."""


class Waiter(msgspec.Struct, frozen=True):
    """One waiting request, and the rows that would serve it with their places in what was asked."""

    id: str
    pool: str
    precedence: Precedence
    wait: Wait
    rows: tuple[tuple[int, Row], ...]


class Lane(msgspec.Struct):
    """One class: each org's waiters in their order, the org's tag, and the tag that was given last.

    The org with the lowest tag is next. An org is given the next tag when it begins to wait and when one of its own was served,
    so that it stands behind all others then; who leaves unserved leaves its org where it is.
    """

    orgs: dict[str, list[str]] = {}
    tags: dict[str, int] = {}
    last: int = 0

    def __bool__(self) -> bool:
        return bool(self.orgs)

    def __len__(self) -> int:
        return sum(map(len, self.orgs.values()))

    def join(self, org: str, waiter_id: str, *, first: bool) -> None:
        """Add a waiter behind its org's others, or before them."""
        if org not in self.orgs:
            self.orgs[org] = []
            self._stand_behind(org)
        self.orgs[org].insert(0 if first else len(self.orgs[org]), waiter_id)

    def leave(self, org: str, waiter_id: str) -> None:
        """Take a waiter out that was not served."""
        self.orgs[org].remove(waiter_id)
        if not self.orgs[org]:
            del self.orgs[org], self.tags[org]

    def next(self) -> str:
        """Return the waiter whose turn it is."""
        return self.orgs[min(self.tags, key=lambda org: self.tags[org])][0]

    def serve(self, org: str, waiter_id: str) -> None:
        """Take a waiter out that was served."""
        self._stand_behind(org)
        self.leave(org, waiter_id)

    def _stand_behind(self, org: str) -> None:
        self.last += 1
        self.tags[org] = self.last


class Pool:
    """The queue of one model."""

    def __init__(self) -> None:
        self.lanes = {precedence: Lane() for precedence in WAITING_CLASSES}
        self.streak = 0
        """Turns that priority has had since default had one, or since default began to wait."""
        self.every_ms = 0
        """How long a turn takes to come while somebody waits, averaged; 0 while that is not known."""
        self.turned_ms = 0
        """When the last turn came, 0 after a time without waiters."""

    def __len__(self) -> int:
        return sum(map(len, self.lanes.values()))

    def of_org(self, org: str) -> int:
        """Return how many requests of an org wait."""
        return sum(len(lane.orgs.get(org, ())) for lane in self.lanes.values())

    def next(self) -> str | None:
        """Return the waiter whose turn it is."""
        priority, default, flex = (self.lanes[precedence] for precedence in WAITING_CLASSES)
        if priority and not (default and self.streak >= PRIORITY_TURNS):
            return priority.next()
        lane = default or flex
        return lane.next() if lane else None

    def stands_before(self, precedence: Precedence) -> bool:
        """Return whether a newcomer of this precedence would pass somebody whose turn comes first."""
        priority, default, flex = (bool(self.lanes[each]) for each in WAITING_CLASSES)
        match precedence:
            case Precedence.PRIORITY:
                return priority or (default and self.streak >= PRIORITY_TURNS)
            case Precedence.FLEX:
                return priority or default or flex
            case _:
                return priority or default

    def ahead_of(self, precedence: Precedence) -> int:
        """Return how many wait that a newcomer of this precedence comes after."""
        return sum(len(lane) for each, lane in self.lanes.items() if each <= precedence)

    def is_open_to(self, waiter: Waiter) -> bool:
        """Return whether one more may wait: within the bounds, and with a turn to be expected in time."""
        wait = waiter.wait
        if len(self) >= wait.max_waiters or self.of_org(wait.org) >= wait.max_of_org:
            return False
        return self.expected_ms(waiter.precedence) <= wait.patience_ms

    def expected_ms(self, precedence: Precedence) -> int:
        """Return how long a newcomer of this precedence would wait by what is known, 0 where nothing is."""
        return self.every_ms * (self.ahead_of(precedence) + 1)

    def join(self, waiter: Waiter, *, first: bool) -> None:
        """Let a request wait, in its org's order or before it."""
        self.lanes[waiter.precedence].join(waiter.wait.org, waiter.id, first=first)

    def leave(self, waiter: Waiter) -> None:
        """Take a waiter out that was not served."""
        self.lanes[waiter.precedence].leave(waiter.wait.org, waiter.id)
        self._rest()

    def serve(self, waiter: Waiter, now_ms: int) -> None:
        """Take a waiter out whose turn has come."""
        self.lanes[waiter.precedence].serve(waiter.wait.org, waiter.id)
        if self.turned_ms:
            taken_ms = max(0, now_ms - self.turned_ms)
            self.every_ms = (3 * self.every_ms + taken_ms) // 4 if self.every_ms else taken_ms
        self.turned_ms = now_ms
        self.count(waiter.precedence)
        self._rest()

    def count(self, precedence: Precedence) -> None:
        """Count what was served, whether it had waited or not."""
        if not self.lanes[Precedence.DEFAULT] or precedence is Precedence.DEFAULT:
            self.streak = 0
        elif precedence is Precedence.PRIORITY:
            self.streak += 1

    def _rest(self) -> None:
        if not len(self):
            self.turned_ms = 0
        if not self.lanes[Precedence.DEFAULT]:
            self.streak = 0
