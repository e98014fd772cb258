"""What can be written in a field of our file, by the notation of the field's own type."""

from msgspec.inspect import type_info

from gateway.config.kinds import scalar
from gateway.config.scalars import ModelName


def is_model_name(text: str) -> bool:
    """Return whether a model or an alias may be called so."""
    return reads(ModelName, text)


def reads(kind: object, text: str) -> bool:
    """Return whether a scalar type of the file takes a text."""
    notation = scalar(type_info(kind))
    if notation is None:
        return False
    try:
        notation.read(text)
    except ValueError:
        return False
    return True
