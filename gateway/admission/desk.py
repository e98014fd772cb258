"""The operator's desk at the admission store: how the configuration's deployments are doing, and the word on them.

It serves no request and keeps no state of its own; whoever has the store has all that there is to see.
"""

from collections.abc import Callable, Sequence

from gateway.admission.client import Admission
from gateway.errors import InvalidValue
from gateway.policy.admission import Order, Upstream, Word
from gateway.policy.standing import Standing


class Desk:
    """What an operator sees and says. `upstreams` are those of the configuration, as it is whenever somebody asks.

    A deployment with several credentials is so many of them.
    """

    def __init__(self, admission: Admission, upstreams: Callable[[], Sequence[Upstream]]) -> None:
        self._admission = admission
        self._upstreams = upstreams

    async def standings(self, deployments: Sequence[str] = ()) -> tuple[Standing, ...]:
        """Return how these deployments are doing, or all. Raises InvalidValue and AdmissionUnavailable."""
        return await self._admission.standings(self._named(deployments))

    async def say(self, word: Word, deployments: Sequence[str]) -> tuple[Standing, ...]:
        """Say it of these deployments, and return how they are doing then. Raises InvalidValue and AdmissionUnavailable."""
        named = self._named(deployments) if deployments else ()
        await self._admission.order(Order(word, named))
        return await self._admission.standings(named)

    def _named(self, deployments: Sequence[str]) -> tuple[Upstream, ...]:
        """Return the upstreams of these names, all of them for none."""
        known: dict[str, list[Upstream]] = {}
        for upstream in self._upstreams():
            known.setdefault(upstream.deployment, []).append(upstream)
        for name in deployments:
            if name not in known:
                raise InvalidValue(f"There is no deployment '{name}' in the configuration", param="deployments")
        return tuple(upstream for name in dict.fromkeys(deployments or known) for upstream in known[name])
