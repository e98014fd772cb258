"""What the readers of fields take is what their schemas say: the document that clients read is true."""

import math
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from jsonschema_rs import Draft202012Validator

from gateway.wire.fields import CHAT, COMPLETIONS, EMBEDDINGS, MESSAGES, RESPONSES
from gateway.wire.readers import Reader, Wrong

TABLES = {"chat": CHAT, "completions": COMPLETIONS, "embeddings": EMBEDDINGS, "messages": MESSAGES, "responses": RESPONSES}
READERS: dict[int, tuple[str, Reader[Any]]] = {
    id(reader): (f"{endpoint}.{name}", reader) for endpoint, table in TABLES.items() for name, reader in table.items()
}
"""Each reader once, by one of the fields that it reads."""

WORDS = st.sampled_from(["", "a", "text", "json_schema", "json_object", "regex", "low", "explicit", "5m", "name", "12"])
NUMBERS = st.one_of(
    st.integers(-130, 130), st.sampled_from([2**63, -(2**63) - 1, 2**64, 10**7 + 1]), st.floats(-200, 200).filter(lambda n: n % 1)
)
NAMES = st.sampled_from(["type", "name", "regex", "json_schema", "role", "content", "x", "1", "12"]) | st.sampled_from(
    ["include_usage", "continuous_usage_stats", "mode", "ttl", "image", "video"]
)
VALUES = st.recursive(
    st.one_of(st.none(), st.booleans(), NUMBERS, WORDS),
    lambda below: st.one_of(
        st.lists(below, max_size=4), st.lists(below, min_size=15, max_size=18), st.dictionaries(NAMES, below)
    ),
    max_leaves=8,
)


@pytest.mark.parametrize("reader", [pytest.param(reader, id=name) for name, reader in READERS.values()])
@settings(max_examples=settings().max_examples // 4)
@given(data=st.data())
def test_a_reader_takes_what_its_schema_says(reader: Reader[Any], data: st.DataObject) -> None:
    value = data.draw(near(reader.schema) | VALUES)
    try:
        reader.read(msgspec.json.encode(value))
        taken = True
    except Wrong:
        taken = False
    assert taken == Draft202012Validator({**reader.schema}).is_valid(value)


def near(schema: Any) -> st.SearchStrategy[Any]:
    """Return values that a schema takes, as far as this goes, or nearly so."""
    options = schema.get("anyOf", schema.get("oneOf"))
    if options:
        return st.one_of([near({"type": schema.get("type"), **option}) for option in options])
    if "const" in schema or "enum" in schema:
        return st.sampled_from([schema["const"]] if "const" in schema else [*schema["enum"], "other"])
    if schema.get("type") in ("integer", "number"):
        low, high = schema.get("minimum", -10), schema.get("maximum", 10)
        return st.sampled_from([low - 1, low, high, high + 1]) | st.integers(math.ceil(low), math.floor(high))
    if schema.get("type") == "array":
        return st.lists(near(schema["items"]), max_size=schema.get("maxItems", 3) + 1)
    if schema.get("type") == "object":
        return st.fixed_dictionaries({}, optional={name: near(each) for name, each in schema.get("properties", {}).items()})
    return {"string": st.text(max_size=3), "boolean": st.booleans(), "null": st.none()}.get(schema.get("type"), VALUES)
