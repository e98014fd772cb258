"""The closed sets of label values: whatever is in none of them is counted as `other`, so that no client can mint a series.

Names of models, providers and orgs come from the configuration, the rest from the code. Keys and ids are never labels.
"""

from collections.abc import Iterable, Mapping, Sequence

import msgspec

from gateway.errors import GatewayError, Unprocessable
from gateway.faults import Fault
from gateway.policy.catalogue import Tier
from gateway.policy.charges import Dimension
from gateway.policy.record import Outcome, Reason
from gateway.policy.tiers import RANK, WORDS
from gateway.policy.wording import SCOPES

OTHER = "other"
NONE = "none"
"""The label of what does not apply: the model of a request that nothing served."""

OUTCOMES = tuple(outcome.value for outcome in Outcome if outcome is not Outcome.ABANDONED)
TIERS = (*(tier.value for tier in Tier), "auto", NONE)
ATTEMPT_OUTCOMES = ("ok", "cancelled", *(fault.value for fault in Fault))
POSITIONS = ("1", "2", "3+")
STREAM = ("false", "true")
BUDGETS = ("key", "project", "org")
BREAKER_STATES = ("closed", "half_open", "open")
ORG_REASONS = ("rate_limit_exceeded", "insufficient_quota", "engine_overloaded", "flex_no_capacity", OTHER)
"""What refuses an org that it, or its operator, can do something about: a few, since there may be two hundred orgs."""

LIMITS = tuple(sorted({scope.replace(" x ", "_") for scope, _ in SCOPES.values()}))
DIMENSIONS = tuple(dimension.name.lower() for dimension in Dimension)
DOWNGRADES = tuple((asked.value, served.value) for asked in {*WORDS.values()} for served in Tier if RANK[served] < RANK[asked])


def reasons() -> frozenset[str]:
    """Return every code that the gateway itself refuses with."""
    found: set[str] = set(Unprocessable.CODES.values())
    todo: list[type[GatewayError]] = [GatewayError]
    while todo:
        row = todo.pop()
        found.add(row.code)
        todo += row.__subclasses__()
    return frozenset(found)


class Labels(msgspec.Struct, frozen=True, kw_only=True):
    """What one configuration allows.

    `operations` maps routes to OpenTelemetry's names of what they do, `served` are the pairs of a provider and a model that can
    serve, `fallbacks` the pairs of models that the configuration leads from and to, `orgs` those with a label of their own.
    """

    operations: Mapping[str, str]
    served: frozenset[tuple[str, str]]
    reasons: frozenset[str] = msgspec.field(default_factory=reasons)
    fallbacks: frozenset[tuple[str, str]] = frozenset()
    orgs: frozenset[str] = frozenset()

    @classmethod
    def of(
        cls,
        operations: Mapping[str, str],
        served: Iterable[tuple[str, str]],
        fallbacks: Iterable[tuple[str, str]] = (),
        orgs: Sequence[str] = (),
    ) -> "Labels":
        """Return the labels of a gateway with these routes, and these names in its configuration."""
        return cls(operations=operations, served=frozenset(served), fallbacks=frozenset(fallbacks), orgs=frozenset(orgs))

    def joined(self, others: "Labels") -> "Labels":
        """Return these and others: what was counted under a label goes on to be told."""
        return Labels(
            operations={**self.operations, **others.operations},
            served=self.served | others.served,
            reasons=self.reasons | others.reasons,
            fallbacks=self.fallbacks | others.fallbacks,
            orgs=self.orgs | others.orgs,
        )

    def route(self, value: str) -> str:
        """Return the label of a route."""
        return value if value in self.operations else OTHER

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

    def org(self, value: str | None) -> str:
        """Return the label of an org."""
        if value is None:
            return NONE
        return value if value in self.orgs else OTHER


def tier(value: str | None) -> str:
    """Return the label of a tier."""
    if value is None:
        return NONE
    return value if value in TIERS else OTHER


def attempt_outcome(value: str) -> str:
    """Return the label of an attempt's end."""
    return value if value in ATTEMPT_OUTCOMES else OTHER


def org_reason(value: str | None) -> str:
    """Return the label of a refusal as orgs have it."""
    return value if value is not None and value in ORG_REASONS else OTHER


def limit(reason: Reason) -> tuple[str, str]:
    """Return the labels of a limit that had no room: whose it is, and what it counts."""
    return (reason.scope or OTHER).replace(" x ", "_"), reason.dimension or OTHER
