"""Limits that are shadows: what they would have refused, told by how a grant left their buckets. Pure."""

from collections.abc import Mapping, Sequence
from operator import attrgetter

from gateway.policy.answers import Level
from gateway.policy.charges import Charge, Estimate, Kind
from gateway.policy.claims import Place, place_of
from gateway.policy.limits import LAYOUT

OWNERS: Mapping[str, str] = {
    "k": "key",
    "km": "key_model",
    "p": "project",
    "o": "org",
    "om": "org_model",
    "m": "model",
}
"""Whose limits may be shadows, by what their buckets' names begin with."""

SCOPES = (*OWNERS.values(),)
DIMENSIONS = tuple(dimension.name.lower() for dimension, *_ in LAYOUT)


_is_shadow = attrgetter("charge.shadow")
"""Nearly no request meets one."""


class Shadows:
    """The shadows that one request has met: each is asked once, when the request first takes something from its bucket."""

    def __init__(self) -> None:
        self._met: set[Place] = set()

    def met(self, levels: Sequence[Level], estimate: Estimate) -> tuple[str, ...]:
        """Return the shadows that would have refused what a grant has taken, `scope:dimension`."""
        if not any(map(_is_shadow, levels)):
            return ()
        fresh = [level for level in levels if level.charge.shadow and place_of(level.charge) not in self._met]
        self._met.update(place_of(level.charge) for level in fresh)
        return tuple(name_of(level.charge) for level in fresh if is_beyond(level, estimate.of(level.charge.unit)))


def is_beyond(level: Level, cost: int) -> bool:
    """Return whether what was taken, which is among what is held, had no room."""
    return cost > 0 and level.charge.kind is not Kind.USE and level.level + level.held > level.charge.capacity


def name_of(charge: Charge) -> str:
    """Return what a shadow is called."""
    return f"{OWNERS[charge.scope.partition(':')[0]]}:{charge.dimension.name.lower()}"
