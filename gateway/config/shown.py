"""A configuration as a file would say it, for operators to read: no secret is in it, nor a digest of one."""

import datetime
from decimal import Decimal
from enum import Enum
from typing import Any

import msgspec
import msgspec.inspect as mi

from gateway.config.kinds import alternatives
from gateway.config.schema import written
from gateway.policy.catalogue import Secret

HIDDEN = "***"
SECRET_FIELDS = frozenset({"digest"})
"""Fields that tell as much of a secret as their reader needs to try some out."""


def whole(section: msgspec.Struct) -> dict[str, Any]:
    """Return a section with every field, defaults too."""
    return _section(section, defaults=True)


def said(section: msgspec.Struct) -> dict[str, Any]:
    """Return of a section what is not as by default."""
    return _section(section, defaults=False)


def _section(section: msgspec.Struct, *, defaults: bool) -> dict[str, Any]:
    shown = {}
    for field in msgspec.structs.fields(type(section)):
        value = getattr(section, field.name)
        if defaults or value != _default(field):
            hides = value and field.name in SECRET_FIELDS
            shown[field.encode_name] = HIDDEN if hides else _shown(mi.type_info(field.type), value, defaults=defaults)
    return shown


def _shown(kind: mi.Type, value: Any, *, defaults: bool) -> Any:
    if isinstance(value, Secret):
        return HIDDEN if value else ""
    if isinstance(value, msgspec.Struct):
        return _section(value, defaults=defaults)
    if isinstance(value, dict):
        inner = next(one for one in alternatives(kind) if isinstance(one, mi.DictType))
        return {_word(name): _shown(inner.value_type, each, defaults=defaults) for name, each in value.items()}
    if isinstance(value, tuple):
        items = next(one for one in alternatives(kind) if isinstance(one, mi.VarTupleType))
        return [_shown(items.item_type, each, defaults=defaults) for each in value]
    return _scalar(kind, value)


def _scalar(kind: mi.Type, value: Any) -> Any:
    if isinstance(value, Decimal):
        return float(value)
    if isinstance(value, Enum | datetime.date):
        return _word(value)
    return value if isinstance(value, bool) else written(kind, value)


def _word(value: Any) -> str:
    return str(value.value if isinstance(value, Enum) else value)


def _default(field: msgspec.structs.FieldInfo) -> Any:
    return field.default if field.default_factory is msgspec.NODEFAULT else field.default_factory()
