"""The orders that go by how deployments are doing: the least busy first, or the fastest of late. Seconds of any one clock. Pure.

Both take one way to each deployment, in the order that chance and weights gave them, and order candidates alone: whether there is
room, and what is left alone for a while, is the admission store's word.
"""

from collections.abc import Sequence
from math import inf

import msgspec

from gateway.policy.pace import Pace
from gateway.policy.ways import Way

Group = tuple[bool, int]
"""What ways have in common that stand in for each other: made in other words than the client's or not, and their `order`."""

EXPLORING = 50
"""One request in so many goes first where nobody looked for longest, so that a deployment that has become fast is found out."""

AS_FAST = 1.25
"""Who takes no more than so many times as long as the fastest is as fast, and has its weight's share: answers vary by more."""

UNTRIED = -1.0
"""The rank of what nobody has tried: before all that anybody has."""


class Look(msgspec.Struct, frozen=True, gc=False):
    """What a worker knows of a deployment: how fast it was of late, None before it answered, and how many answers are awaited."""

    pace: Pace | None = None
    awaited: int = 0

    def seconds(self, now_s: float) -> float:
        """Return what an answer is expected to take, for each unit of it.

        What nobody looks at fades, and is looked at again, as is what is untried; but by one request at a time: an answer that is
        long in coming draws no others after it.
        """
        if self.pace is None:
            return inf if self.awaited else UNTRIED
        return self.pace.seconds if self.awaited else self.pace.faded(now_s)


def group_of(way: Way) -> Group:
    """Return what a way has in common with those that stand in for it."""
    return way.detour, way.target.deployment.order


def least_busy_order(ways: Sequence[Way], under_way: Sequence[int]) -> list[int]:
    """Return the places of the ways in the order to try: inside one `order` the smallest share of room in use first.

    Room is `max_concurrency`; where one of those that stand in for each other has no ceiling, it is the weight of each. Equal
    shares stay as they are given, which is by weighted chance.
    """
    unbounded = {group_of(way) for way in ways if way.target.deployment.max_concurrency is None}
    shares: list[float] = []
    for way, requests in zip(ways, under_way, strict=True):
        deployment = way.target.deployment
        ceiling = None if group_of(way) in unbounded else deployment.max_concurrency
        shares.append(requests / (deployment.weight if ceiling is None else ceiling))
    return _ranked(ways, shares)


def latency_order(ways: Sequence[Way], dice: int, looks: Sequence[Look], now_s: float) -> list[int]:
    """Return the places of the ways in the order to try: inside one `order` the fastest of late first, those as fast as given.

    What is untried comes first of all, and one request in `EXPLORING` goes where the latest word is the oldest.
    """
    ranks = [look.seconds(now_s) for look in looks]
    fastest: dict[Group, float] = {}
    for way, rank in zip(ways, ranks, strict=True):
        fastest[group_of(way)] = min(rank, fastest.get(group_of(way), inf))
    for place, way in enumerate(ways):
        best = fastest[group_of(way)]
        if best <= ranks[place] <= best * AS_FAST:
            ranks[place] = best
    ordered = _ranked(ways, ranks)
    return ordered if dice % EXPLORING else _exploring(ordered, ways, looks)


def _ranked(ways: Sequence[Way], ranks: Sequence[float]) -> list[int]:
    return sorted(range(len(ways)), key=lambda place: (group_of(ways[place]), ranks[place]))


def _exploring(ordered: list[int], ways: Sequence[Way], looks: Sequence[Look]) -> list[int]:
    """Return the order with that one first which nobody looked at for longest, of the first and those that stand in for it."""
    told = [
        (-inf if look.pace is None else look.pace.told_s, place)
        for place, (way, look) in enumerate(zip(ways, looks, strict=True))
        if group_of(way) == group_of(ways[ordered[0]]) and not look.awaited
    ]
    if not told:
        return ordered
    _, found = min(told)
    return [found, *(place for place in ordered if place != found)]
