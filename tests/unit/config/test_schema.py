import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import msgspec.inspect as mi

from gateway.config.kinds import alternatives
from gateway.config.schema import default, schema
from gateway.config.structs import Config

ROOM = Path(__file__).parents[3] / "config"


def _sections(kind: mi.Type, seen: set[type]) -> Iterator[mi.StructType]:
    for one in alternatives(kind):
        inner = one.value_type if isinstance(one, mi.DictType) else one.item_type if isinstance(one, mi.VarTupleType) else one
        if isinstance(inner, mi.StructType) and inner.cls not in seen:
            seen.add(inner.cls)
            yield inner
            for field in inner.fields:
                yield from _sections(field.type, seen)


def _documented(field: mi.Field) -> tuple[str, str]:
    """Return a field and its default as the README shows them."""
    value = default(field)
    if field.required:
        return field.encode_name, "required"
    if value is msgspec.UNSET:
        return field.encode_name, "its fields'"
    text = msgspec.json.encode(value).decode().replace('"', "").replace(",", ", ")
    return field.encode_name, {"null": "none", "": "empty"}.get(text, f"`{text}`")


def test_the_committed_schema_is_current() -> None:
    assert (ROOM / "gateway.schema.json").read_bytes() == schema()


def test_the_readme_has_every_field_with_its_default() -> None:
    text = (ROOM / "README.md").read_text().partition("## Every field")[2]
    tables = [re.findall(r"^\| `([^`]+)` \| ([^|]+) \| .+ \|$", part, re.MULTILINE) for part in text.split("\n### ")[1:]]
    sections = [[_documented(field) for field in kind.fields] for kind in _sections(mi.type_info(Config), set())]
    assert sorted(tables) == sorted(sections)


def test_every_reference_of_the_schema_leads_somewhere() -> None:
    document: dict[str, Any] = msgspec.json.decode(schema())
    assert set(re.findall(rb'"#/\$defs/(\w+)"', schema())) == {name.encode() for name in document["$defs"]}


def test_a_number_may_be_a_reference_and_a_duration_has_its_notation() -> None:
    sections = msgspec.json.decode(schema())["$defs"]
    port = sections["Api"]["properties"]["port"]
    assert port == {
        "anyOf": [{"type": "integer", "minimum": 0, "maximum": 65535}, {"$ref": "#/$defs/Reference"}],
        "default": 8080,
    }
    ttl = sections["Leases"]["properties"]["ttl"]
    assert ttl["default"] == "30s"
    assert re.search(ttl["anyOf"][0]["pattern"], "250ms")
    assert sections["Deployment"]["required"] == ["provider", "model"]
