"""How one field of a request body is read: its JSON text in, its value out, or everything that is amiss in it.

The names of what can be amiss are pydantic's, which clients of the published contracts know. Which field is read how is
`gateway.wire.fields`. Readers look no deeper than the gateway has to, and each says as a JSON Schema what it takes. Pure.
"""

from collections.abc import Callable, Mapping
from typing import Generic, TypeVar

import msgspec

from gateway.errors import InvalidJson, Unprocessable
from gateway.faults import FieldError
from gateway.wire.members import split

Problem = tuple[tuple[str | int, ...], str, str]
"""Where below the field, what is wrong, and pydantic's name for it."""

Schema = Mapping[str, object]
"""A JSON Schema, of the dialect of OpenAPI 3.1."""

Value = TypeVar("Value", covariant=True)


class Reader(msgspec.Struct, Generic[Value], frozen=True):
    """How a field is read, and what it may hold. `read` raises `Wrong`."""

    read: Callable[[bytes], Value]
    schema: Schema = {}


class Wrong(Exception):  # noqa: N818 - what it carries is no error of the gateway's but the field's
    """A field does not hold what it may hold."""

    def __init__(self, *problems: Problem) -> None:
        super().__init__()
        self.problems = problems

    def at(self, *loc: str | int) -> list[FieldError]:
        """Return the problems as seen from the body."""
        return [FieldError((*loc, *below), msg, kind) for below, msg, kind in self.problems]


decode = msgspec.json.Decoder().decode
decode_list = msgspec.json.Decoder(list[msgspec.Raw]).decode
decode_object = msgspec.json.Decoder(dict[str, msgspec.Raw]).decode


def wrong(msg: str, kind: str, *below: str | int) -> Wrong:
    """Return one problem."""
    return Wrong((below, msg, kind))


def value_of(raw: bytes) -> object:
    """Return the decoded value of a field."""
    try:
        return decode(raw)
    except msgspec.ValidationError:
        raise wrong("Input should be a finite number", "finite_number") from None


def _read_text(raw: bytes) -> str:
    value = value_of(raw)
    if not isinstance(value, str):
        raise wrong("Input should be a valid string", "string_type")
    return value


def _read_flag(raw: bytes) -> bool:
    value = value_of(raw)
    if not isinstance(value, bool):
        raise wrong("Input should be a valid boolean", "bool_type")
    return value


anything: Reader[object] = Reader(lambda raw: raw)
"""Accepts any value; it is not decoded, since nobody here reads it."""
text = Reader(_read_text, {"type": "string"})
flag = Reader(_read_flag, {"type": "boolean"})


def integer(low: int, high: int | None = None) -> Reader[int]:
    """Make a reader of whole numbers within bounds, both included."""

    def read(raw: bytes) -> int:
        value = value_of(raw)
        if isinstance(value, bool) or not isinstance(value, int):
            raise wrong("Input should be a valid integer", "int_type")
        _within(value, low, high)
        return value

    return Reader(read, {"type": "integer", "minimum": low, **({} if high is None else {"maximum": high})})


def number(low: float, high: float) -> Reader[float]:
    """Make a reader of numbers within bounds, both included."""

    def read(raw: bytes) -> float:
        value = value_of(raw)
        if isinstance(value, bool) or not isinstance(value, int | float):
            raise wrong("Input should be a valid number", "float_type")
        _within(value, low, high)
        return value

    return Reader(read, {"type": "number", "minimum": low, "maximum": high})


def one_of(*words: str) -> Reader[str]:
    """Make a reader of one of these words."""

    def read(raw: bytes) -> str:
        value = _read_text(raw)
        if value not in words:
            raise wrong(f"Input should be one of {', '.join(words)}", "literal_error")
        return value

    return Reader(read, {"type": "string", "enum": words})


def list_of(item: Reader[Value], most: int | None = None) -> Reader[list[Value]]:
    """Make a reader of lists; every bad item is told."""

    def read(raw: bytes) -> list[Value]:
        found = raw_list(raw)
        if most is not None and len(found) > most:
            raise wrong(f"List should have at most {most} items, not {len(found)}", "too_long")
        values: list[Value] = []
        problems: list[Problem] = []
        for place, entry in enumerate(found):
            try:
                values.append(item.read(bytes(entry)))
            except Wrong as bad:
                problems += below(place, bad)
        if problems:
            raise Wrong(*problems)
        return values

    return Reader(read, {"type": "array", "items": item.schema, **({} if most is None else {"maxItems": most})})


def object_of(**members: Reader[object]) -> Reader[dict[str, object]]:
    """Make a reader of objects of which these members are looked at, where they are there and not null."""

    def read(raw: bytes) -> dict[str, object]:
        found = raw_object(raw)
        values: dict[str, object] = {}
        problems: list[Problem] = []
        for name, reader in members.items():
            entry = bytes(found.get(name, b"null"))
            if entry == b"null":
                continue
            try:
                values[name] = reader.read(entry)
            except Wrong as bad:
                problems += below(name, bad)
        if problems:
            raise Wrong(*problems)
        return values

    return Reader(read, {"type": "object", "properties": {name: or_null(reader.schema) for name, reader in members.items()}})


def or_null(schema: Schema) -> Schema:
    """Return what also takes null, which everywhere means that a field is not there."""
    return {"anyOf": [schema, {"type": "null"}]} if schema else schema


def unambiguous(reader: Reader[Value]) -> Reader[Value]:
    """Make a reader of objects in which no name comes twice: the gateway edits them."""

    def read(raw: bytes) -> Value:
        try:
            split(raw)
        except InvalidJson as doubled:
            raise wrong(doubled.message, "value_error") from None
        except Unprocessable:
            raise wrong("Input should be an object", "dict_type") from None
        return reader.read(raw)

    return Reader(read, reader.schema)


def _read_filled_text(raw: bytes) -> str:
    value = _read_text(raw)
    if not value:
        raise wrong("String should have at least 1 character", "string_too_short")
    return value


filled_text = Reader(_read_filled_text, {"type": "string", "minLength": 1})


def below(step: str | int, bad: Wrong) -> list[Problem]:
    """Return what is amiss in a member or an item, as seen from what it is in."""
    return [((step, *place), msg, kind) for place, msg, kind in bad.problems]


def raw_list(raw: bytes) -> list[msgspec.Raw]:
    """Return the items of a list, unread."""
    try:
        return decode_list(raw)
    except msgspec.ValidationError:
        raise wrong("Input should be a valid list", "list_type") from None


def raw_object(raw: bytes) -> dict[str, msgspec.Raw]:
    """Return the members of an object, unread."""
    try:
        return decode_object(raw)
    except msgspec.ValidationError:
        raise wrong("Input should be an object", "dict_type") from None


def _within(value: float, low: float, high: float | None) -> None:
    if value < low:
        raise wrong(f"Input should be greater than or equal to {low}", "greater_than_equal")
    if high is not None and value > high:
        raise wrong(f"Input should be less than or equal to {high}", "less_than_equal")
