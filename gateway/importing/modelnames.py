"""Whether a name can be a model's here, by the file format's own notation."""

from msgspec.inspect import type_info

from gateway.config.kinds import scalar
from gateway.config.scalars import ModelName, Name


def is_model_name(text: str) -> bool:
    """Return whether a model or an alias may be called so."""
    return _reads(ModelName, text)


def is_name(text: str) -> bool:
    """Return whether a provider, plan, org, project or key may be called so."""
    return _reads(Name, text)


def _reads(kind: object, text: str) -> bool:
    notation = scalar(type_info(kind))
    if notation is None:
        return False
    try:
        notation.read(text)
    except ValueError:
        return False
    return True
