"""Which of a model's deployments can honour a request: by what each can do, and by what its dialect has words for. Pure.

Those that cannot are left out of the plan; a request that none can honour is refused by the field (decision 38).
"""

from collections.abc import Sequence

from gateway.errors import InvalidValue, UnsupportedParameter
from gateway.policy.capabilities import lacking, refusal, together
from gateway.policy.catalogue import Deployment, Model, Provider
from gateway.policy.lacking import lacked
from gateway.policy.natures import unsaid
from gateway.policy.ways import Way
from gateway.wire.request import InferenceRequest

Tiers = tuple[tuple[Way, ...], ...]
"""The ways to one model, a group for each tier, all to the same deployments."""


def differing(model: Model) -> bool:
    """Return whether any of a model's deployments can do less than the model, or be told less of what most requests have."""
    return any(
        each.capabilities is not None or each.provider.nature.looks_closer or each.provider.lacks for each in model.deployments
    )


def able(tiers: Tiers, request: InferenceRequest) -> Tiers:
    """Return the ways to those that can honour a request. Raises `UnsupportedParameter` and `InvalidValue` where none can."""
    found = tuple(tuple(way for way in ways if honours(way.target.deployment, request)) for ways in tiers)
    if all(found):
        return found
    raise _refused(tiers[0], request)


def honours(deployment: Deployment, request: InferenceRequest) -> bool:
    """Return whether a deployment can do what a request of its model's asks for, and be told it."""
    can = deployment.capabilities
    return (can is None or lacking(can, request) is None) and _untold(deployment.provider, request) is None


def _untold(provider: Provider, request: InferenceRequest) -> str | None:
    """Return the field of a request that a provider cannot be told, None where it can be told all of it."""
    return lacked(provider.lacks, request) or unsaid(provider.nature, request)


def _refused(ways: Sequence[Way], request: InferenceRequest) -> InvalidValue | UnsupportedParameter:
    """Return the error of a request that none of these can honour: what none of them can, else what the first cannot."""
    model, deployment = ways[0].target.model, ways[0].target.deployment
    own = [way.target.capabilities for way in ways]
    for can in together(own), own[0]:
        lack = lacking(can, request)
        if lack is not None:
            return refusal(model.name, can, lack)
    field = _untold(deployment.provider, request)
    return UnsupportedParameter(f"The model '{model.name}' does not support '{field}'", param=field)
