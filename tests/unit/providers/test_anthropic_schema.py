from typing import Any

import pytest

from gateway.providers.anthropic_schema import closed

OPEN: dict[str, Any] = {"type": "object", "properties": {"a": {"type": "string"}}}
CLOSED = {**OPEN, "additionalProperties": False}


@pytest.mark.parametrize(
    ("schema", "expected"),
    [
        (OPEN, CLOSED),
        ({"properties": {}}, {"properties": {}, "additionalProperties": False}),
        ({"type": ["object", "null"]}, {"type": ["object", "null"], "additionalProperties": False}),
        ({"type": "array", "items": OPEN}, {"type": "array", "items": CLOSED}),
        ({"items": [OPEN]}, {"items": [CLOSED]}),
        ({"$defs": {"n": OPEN}, "$ref": "#/$defs/n"}, {"$defs": {"n": CLOSED}, "$ref": "#/$defs/n"}),
        ({"definitions": {"n": OPEN}}, {"definitions": {"n": CLOSED}}),
        *(({name: [OPEN, {"type": "null"}]}, {name: [CLOSED, {"type": "null"}]}) for name in ("anyOf", "oneOf", "allOf")),
        (
            {"type": "object", "properties": {"b": OPEN}, "additionalProperties": OPEN},
            {"type": "object", "properties": {"b": CLOSED}, "additionalProperties": CLOSED},
        ),
    ],
)
def test_every_object_is_closed(schema: object, expected: object) -> None:
    assert closed(schema) == expected


@pytest.mark.parametrize(
    "schema",
    [
        {**OPEN, "additionalProperties": True},
        CLOSED,
        {"type": "string", "enum": [{"type": "object"}]},
        {"const": OPEN, "default": OPEN, "examples": [OPEN]},
        {"type": "object", "properties": "odd", "additionalProperties": False},
        {"anyOf": "odd", "items": True},
        True,
        None,
        "odd",
    ],
)
def test_what_says_so_itself_or_is_no_schema_is_as_written(schema: object) -> None:
    assert closed(schema) == schema


def test_a_name_that_schemas_have_is_a_name() -> None:
    assert closed({"type": "object", "properties": {"items": OPEN, "type": {"type": "string"}}}) == {
        "type": "object",
        "properties": {"items": CLOSED, "type": {"type": "string"}},
        "additionalProperties": False,
    }
