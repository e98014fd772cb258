"""Whether models and deployments can do what is said of them: a deployment no more than its model, none more than its providers.

What is refused is told without its values, which may have come from the environment.
"""

from collections.abc import Iterator, Sequence

from msgspec.structs import asdict

from gateway.config.parse import Parsed
from gateway.config.problems import Problem, Where, render
from gateway.config.structs.capabilities import Capabilities, DeploymentCapabilities
from gateway.config.structs.supply import Deployment
from gateway.providers import NATURES
from gateway.wire.request import Endpoint

NATIVE = (Endpoint.EMBEDDINGS, Endpoint.RESPONSES)
"""Endpoints that nothing stands in for where a provider does not serve them."""

OWN = "priority_field"
"""What a deployment may say of itself whatever its model says: no client asks for it."""


def check(parsed: Parsed) -> Iterator[Problem]:
    """Yield each capability that is said to be there and cannot be."""
    for name, model in parsed.config.models.items():
        yield from _beyond(parsed, ("models", name, "capabilities"), model.capabilities, model.deployments)
        for index, deployment in enumerate(model.deployments):
            own, where = deployment.capabilities, ("models", name, "deployments", index, "capabilities")
            if own is not None:
                yield from _wider(parsed, where, model.capabilities, own)
                yield from _beyond(parsed, where, own, (deployment,))


def _wider(parsed: Parsed, where: Where, model: Capabilities, own: DeploymentCapabilities) -> Iterator[Problem]:
    """Yield each capability of a deployment that is more than the model's."""
    for capability, value in asdict(own).items():
        if value is not None and capability != OWN and _is_wider(value, getattr(model, capability)):
            whole = render((*where[:2], "capabilities", capability))
            yield parsed.problem((*where, capability), f"is more than {whole}: a deployment can do what its model can, or less")


def _is_wider(own: object, model: object) -> bool:
    if isinstance(own, int):
        return isinstance(model, int) and own > model
    return isinstance(own, tuple) and isinstance(model, tuple) and not {*own} <= {*model}


def _beyond(
    parsed: Parsed, where: Where, said: Capabilities | DeploymentCapabilities, deployments: Sequence[Deployment]
) -> Iterator[Problem]:
    """Yield what none of these deployments has a provider for: an endpoint, or a field that another dialect has."""
    providers = parsed.config.providers
    known = [(each, providers[each.provider]) for each in deployments if each.provider in providers]
    for endpoint in NATIVE:
        wanted = endpoint in (said.endpoints or ())
        if wanted and not any(_takes(each, endpoint) and endpoint in provider.endpoints for each, provider in known):
            message = f"none of its providers serves {endpoint}: add it to their endpoints"
            yield parsed.problem((*where, "endpoints"), message)
    dialects = sorted({provider.dialect for _, provider in known})
    if said.priority_field and dialects and all(OWN in NATURES[dialect].idle_capabilities for dialect in dialects):
        yield parsed.problem((*where, OWN), f"means nothing in the dialect {', '.join(dialects)}")


def _takes(deployment: Deployment, endpoint: Endpoint) -> bool:
    own = deployment.capabilities
    return own is None or own.endpoints is None or endpoint in own.endpoints
