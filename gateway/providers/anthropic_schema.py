"""JSON schemas as Messages takes them: every object in them says that it has no members but those that are named. Pure."""

MAPS = ("properties", "patternProperties", "$defs", "definitions")
"""Where a schema has others by name."""

LISTS = ("anyOf", "oneOf", "allOf", "prefixItems")
"""Where it has several."""

ONES = ("items", "additionalProperties", "not")
"""Where it has one."""

CLOSED = "additionalProperties"


def closed(schema: object) -> object:
    """Return a schema with every object in it closed that does not say itself what else it may have."""
    if not isinstance(schema, dict):
        return schema
    found = {name: _within(name, value) for name, value in schema.items()}
    kind = found.get("type")
    is_object = kind == "object" or (isinstance(kind, list) and "object" in kind) or "properties" in found
    return {**found, CLOSED: False} if is_object and CLOSED not in found else found


def _within(name: str, value: object) -> object:
    if name in MAPS and isinstance(value, dict):
        return {each: closed(schema) for each, schema in value.items()}
    if name in (*LISTS, *ONES) and isinstance(value, list):
        return [closed(schema) for schema in value]
    return closed(value) if name in ONES else value
