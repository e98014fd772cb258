"""Which schemas an answer can be held to by `strict`, as OpenAI documents it for structured outputs.

https://platform.openai.com/docs/guides/structured-outputs. A schema that goes further is refused with it, and only a hint to the
model without. Pure.
"""

TAKEN = frozenset(
    {"$schema", "$ref", "$defs", "definitions", "title", "description", "type", "enum", "const", "anyOf"}
    | {"properties", "required", "additionalProperties", "items", "minItems", "maxItems", "pattern", "format"}
    | {"minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf"}
)
"""The words that a strict schema may use."""

NAMED = ("properties", "$defs", "definitions")
"""Where schemas stand by name."""


def is_strict(schema: object) -> bool:
    """Return whether this schema of an answer may be sent as a strict one."""
    return isinstance(schema, dict) and schema.get("type") == "object" and _fits(schema)


def _fits(schema: object) -> bool:
    """Return whether every object in a schema names all that it holds, and nothing stands in it that has no strict form."""
    if not isinstance(schema, dict) or not schema.keys() <= TAKEN:
        return False
    names, kind = schema.get("properties"), schema.get("type")
    if kind == "object" or names is not None or (isinstance(kind, list) and "object" in kind):
        required = schema.get("required", [])
        if schema.get("additionalProperties") is not False or not isinstance(names, dict) or not isinstance(required, list):
            return False
        if not all(name in required for name in names):
            return False
    below = [each for place in NAMED if isinstance(found := schema.get(place), dict) for each in found.values()]
    below += schema["anyOf"] if isinstance(schema.get("anyOf"), list) else []
    below += [schema["items"]] if "items" in schema else []
    return all(map(_fits, below))
