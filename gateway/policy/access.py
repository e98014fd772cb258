"""What a key may be served by: models and providers, by the patterns that it has. Pure."""

from collections.abc import Mapping, Sequence
from fnmatch import fnmatchcase

from gateway.errors import ModelNotFound
from gateway.policy.catalogue import Deployment, Key, Model
from gateway.wire.request import Endpoint


def find_model(name: str, key: Key, names: Mapping[str, Model]) -> Model:
    """Return the model that a client names. Raises `ModelNotFound`, in the same words whether it is unknown or forbidden."""
    model = names.get(name)
    if model is None or not may_use(key, model):
        raise ModelNotFound(f"The model '{name[:200]}' does not exist or you do not have access to it", param="model")
    return model


def may_use(key: Key, model: Model) -> bool:
    """Return whether the key's patterns allow the model."""
    return any(pattern == "*" or fnmatchcase(model.name, pattern) for pattern in key.models)


def serving_endpoint(deployment: Deployment, key: Key, endpoints: Sequence[Endpoint]) -> Endpoint | None:
    """Return the first of these endpoints that the deployment has; None if it has none or the key may not be sent there."""
    provider = deployment.provider
    if not any(p == "*" or fnmatchcase(provider.name, p) for p in key.providers):
        return None
    return next((endpoint for endpoint in endpoints if endpoint in provider.endpoints), None)
