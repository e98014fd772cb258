"""The closed sets of label values: whatever is in none of them is counted as `other`, so that no client can mint a series.

Names of models and providers come from the configuration, the rest from the code. Keys, orgs and ids are never labels.
"""

from collections.abc import Iterable

import msgspec

from gateway.errors import GatewayError, Unprocessable
from gateway.faults import Fault
from gateway.policy.catalogue import Tier
from gateway.policy.record import Outcome

OTHER = "other"
NONE = "none"
"""The label of what does not apply: the model of a request that nothing served."""

OUTCOMES = tuple(outcome.value for outcome in Outcome if outcome is not Outcome.ABANDONED)
TIERS = (*(tier.value for tier in Tier), "auto", NONE)
ATTEMPT_OUTCOMES = ("ok", "cancelled", *(fault.value for fault in Fault))
POSITIONS = ("1", "2", "3+")
STREAM = ("false", "true")
BUDGETS = ("key", "project", "org")


def reasons() -> frozenset[str]:
    """Return every code that the gateway itself refuses with."""
    found: set[str] = set(Unprocessable.CODES.values())
    todo: list[type[GatewayError]] = [GatewayError]
    while todo:
        row = todo.pop()
        found.add(row.code)
        todo += row.__subclasses__()
    return frozenset(found)


class Labels(msgspec.Struct, frozen=True):
    """What one configuration allows. `served` are the pairs of a provider and a model that it can serve."""

    routes: frozenset[str]
    served: frozenset[tuple[str, str]]
    reasons: frozenset[str]

    @classmethod
    def of(cls, routes: Iterable[str], served: Iterable[tuple[str, str]]) -> "Labels":
        """Return the labels of a gateway with these routes and these pairs of provider and model."""
        return cls(frozenset(routes), frozenset(served), reasons())

    def joined(self, others: "Labels") -> "Labels":
        """Return these and others: what was counted under a label goes on to be told."""
        return Labels(self.routes | others.routes, self.served | others.served, self.reasons | others.reasons)

    def route(self, value: str) -> str:
        """Return the label of a route."""
        return value if value in self.routes else OTHER

    def pair(self, provider: str | None, model: str | None) -> tuple[str, str]:
        """Return the labels of a provider and a model that served together."""
        if provider is None or model is None:
            return NONE, NONE
        return (provider, model) if (provider, model) in self.served else (OTHER, OTHER)

    def model(self, value: str) -> str:
        """Return the label of a model."""
        return value if any(value == model for _, model in self.served) else OTHER

    def reason(self, value: str | None) -> str:
        """Return the label of a refusal."""
        return value if value is not None and value in self.reasons else OTHER


def tier(value: str | None) -> str:
    """Return the label of a tier."""
    if value is None:
        return NONE
    return value if value in TIERS else OTHER


def attempt_outcome(value: str) -> str:
    """Return the label of an attempt's end."""
    return value if value in ATTEMPT_OUTCOMES else OTHER
