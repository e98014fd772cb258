"""Which schemas are sent as strict ones."""

from typing import Any

import pytest

from gateway.providers.strictness import is_strict

TEXT = {"type": "string", "description": "Words"}


def of(*, required: tuple[str, ...] = ("a",), closed: object = False, **more: Any) -> dict[str, Any]:
    """Return an object that has an `a`."""
    return {"type": "object", "properties": {"a": TEXT, **more}, "required": [*required], "additionalProperties": closed}


@pytest.mark.parametrize(
    "schema",
    [
        of(),
        {"type": "object", "properties": {}, "additionalProperties": False},
        of(required=("a", "b"), b={"type": "array", "items": of(), "minItems": 1}),
        of(required=("a", "b"), b={"anyOf": [of(), {"type": "null"}]}),
        of(required=("a", "b"), b={"$ref": "#/$defs/b"}) | {"$defs": {"b": of()}, "$schema": "https://json-schema.org/draft-07"},
        of(required=("a", "b"), b={"type": ["integer", "null"], "enum": [1, None]}),
    ],
)
def test_one_whose_objects_name_all_they_hold_is(schema: object) -> None:
    assert is_strict(schema)


@pytest.mark.parametrize(
    "schema",
    [
        None,
        True,
        "object",
        {},
        {"type": "object"},
        {"type": "object", "additionalProperties": False},
        {"type": "object", "properties": ["a"], "additionalProperties": False},
        {"anyOf": [of(), of()]},
        {"type": "array", "items": of()},
        of(required=()),
        of() | {"required": "a"},
        of(closed=True),
        of(closed=...) | {"additionalProperties": {}},
        of(required=("a", "b"), b={"type": "array", "items": of(required=())}),
        of(required=("a", "b"), b={"anyOf": [of(closed=True), {"type": "null"}]}),
        of(required=("a", "b"), b={"type": ["object", "null"]}),
        of(required=("a", "b"), b={"properties": {"c": TEXT}}),
        of(required=("a", "b"), b=True),
        of() | {"$defs": {"b": of(required=())}},
        of() | {"allOf": [of()]},
        of(required=("a", "b"), b={"type": "string", "default": "c"}),
        of() | {"patternProperties": {"b": TEXT}},
    ],
)
def test_any_other_is_not(schema: object) -> None:
    assert not is_strict(schema)
