"""The JSON Schema of the configuration file, for editors: made from the structs, committed as `config/gateway.schema.json`.

It knows the shape alone. Every scalar may be a reference (`${PORT:-8080}`), so each place takes that text too.
"""

from decimal import Decimal
from typing import Any

import msgspec
import msgspec.inspect as mi

from gateway.config.kinds import alternatives, scalar, words
from gateway.config.structs import Config

_REFERENCE = {"type": "string", "pattern": r"\$\{.+\}"}
_TO_REFERENCE = {"$ref": "#/$defs/Reference"}
_JSON_TYPES: dict[type, str] = {mi.BoolType: "boolean", mi.IntType: "integer", mi.FloatType: "number", mi.DecimalType: "number"}
_BOUNDS = {"gt": "exclusiveMinimum", "ge": "minimum", "lt": "exclusiveMaximum", "le": "maximum", "min_length": "minLength"}


def schema() -> bytes:
    """Return the schema as indented JSON, the same bytes for the same structs."""
    sections: dict[str, Any] = {"Reference": _REFERENCE}
    root = _type(mi.type_info(Config), sections)
    document = {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "Tiergate configuration",
        **root,
        "$defs": dict(sorted(sections.items())),
    }
    return msgspec.json.format(msgspec.json.encode(document), indent=2) + b"\n"


def written(kind: mi.Type, value: Any) -> Any:
    """Return a value of this type as a file would write it."""
    notations = [scalar(one) for one in alternatives(kind) if isinstance(one, mi.Metadata)]
    if isinstance(value, Decimal):
        return float(value)
    return next((notation.write(value) for notation in notations if notation and isinstance(value, int | float)), value)


def default(field: mi.Field) -> Any:
    """Return a field's default as a file would write it; UNSET for a required field, and for whole sections."""
    if field.default_factory is not msgspec.NODEFAULT:
        made = field.default_factory()
        return made.reveal() if hasattr(made, "reveal") else made
    if field.default is msgspec.NODEFAULT or isinstance(field.default, msgspec.Struct):
        return msgspec.UNSET
    return written(field.type, field.default)


def _type(kind: mi.Type, sections: dict[str, Any]) -> dict[str, Any]:
    nullable = isinstance(kind, mi.UnionType) and any(isinstance(one, mi.NoneType) for one in kind.types)
    options: list[dict[str, Any]] = []
    for option in [option for one in alternatives(kind) for option in _one(one, sections)] + [{"type": "null"}] * nullable:
        if option not in options:
            options.append(option)
    return options[0] if len(options) == 1 else {"anyOf": options}


def _one(kind: mi.Type, sections: dict[str, Any]) -> list[dict[str, Any]]:
    if isinstance(kind, mi.StructType):
        return [_section(kind, sections)]
    if isinstance(kind, mi.DictType):
        names = _names(kind.key_type)
        return [{"type": "object", "propertyNames": names, "additionalProperties": _type(kind.value_type, sections)}]
    if isinstance(kind, mi.VarTupleType):
        bound = {"minItems": kind.min_length} if kind.min_length else {}
        return [{"type": "array", "items": _type(kind.item_type, sections), **bound}]
    return _scalar(kind)


def _names(kind: mi.Type) -> dict[str, Any]:
    notation = scalar(kind)
    return {"enum": list(words(kind))} if words(kind) else {"pattern": f"^({notation.pattern})$"} if notation else {}


def _scalar(kind: mi.Type) -> list[dict[str, Any]]:
    inner = kind.type if isinstance(kind, mi.Metadata) else kind
    if choice := words(kind):
        return [{"enum": list(choice)}, _TO_REFERENCE]
    notation = scalar(kind)
    if notation is not None and notation.bare:
        return [{"type": _JSON_TYPES[type(inner)], **_bounds(inner)}, _TO_REFERENCE]
    if notation is not None and isinstance(kind, mi.Metadata):
        return [{"type": "string", "pattern": f"^({notation.pattern})$"}, _TO_REFERENCE]
    return [{"type": "string", **_bounds(inner)}]


def _bounds(kind: mi.Type) -> dict[str, Any]:
    found = {word: getattr(kind, name, None) for name, word in _BOUNDS.items()}
    return {word: bound for word, bound in found.items() if bound is not None}


def _section(kind: mi.StructType, sections: dict[str, Any]) -> dict[str, Any]:
    name = kind.cls.__name__
    if name not in sections:
        sections[name] = {}
        required = [field.encode_name for field in kind.fields if field.required]
        sections[name] = {
            "type": "object",
            "description": " ".join((kind.cls.__doc__ or "").split()),
            "properties": {field.encode_name: _field(field, sections) for field in kind.fields},
            **({"required": required} if required else {}),
            "additionalProperties": False,
        }
    return {"$ref": f"#/$defs/{name}"}


def _field(field: mi.Field, sections: dict[str, Any]) -> dict[str, Any]:
    value = default(field)
    return _type(field.type, sections) | ({} if value is msgspec.UNSET or value is None else {"default": value})
