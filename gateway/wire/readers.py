"""How one field of a request body is read: its JSON text in, its value out, or everything that is amiss in it.

The names of what can be amiss are pydantic's, which clients of the published contracts know. Which field is read how is
`gateway.wire.fields`. Readers look no deeper than the gateway has to. Pure.
"""

from collections.abc import Callable, Mapping
from typing import TypeVar

import msgspec

from gateway.errors import InvalidJson, Unprocessable
from gateway.faults import FieldError
from gateway.wire.members import split

Problem = tuple[tuple[str | int, ...], str, str]
"""Where below the field, what is wrong, and pydantic's name for it."""

Value = TypeVar("Value")

Reader = Callable[[bytes], object]


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

MOST_MODELS = 4


def wrong(msg: str, kind: str, *below: str | int) -> Wrong:
    """Return one problem."""
    return Wrong((below, msg, kind))


def value_of(raw: bytes) -> object:
    """Return the decoded value of a field."""
    try:
        return decode(raw)
    except msgspec.ValidationError:
        raise wrong("Input should be a finite number", "finite_number") from None


def anything(raw: bytes) -> object:
    """Accept any value; it is not decoded, since nobody here reads it."""
    return raw


def text(raw: bytes) -> str:
    """Read a string."""
    value = value_of(raw)
    if not isinstance(value, str):
        raise wrong("Input should be a valid string", "string_type")
    return value


def flag(raw: bytes) -> bool:
    """Read a boolean."""
    value = value_of(raw)
    if not isinstance(value, bool):
        raise wrong("Input should be a valid boolean", "bool_type")
    return value


def integer(low: int, high: int | None = None) -> Reader:
    """Make a reader of whole numbers within bounds, both included."""

    def read(raw: bytes) -> int:
        value = value_of(raw)
        if isinstance(value, bool) or not isinstance(value, int):
            raise wrong("Input should be a valid integer", "int_type")
        _within(value, low, high)
        return value

    return read


def number(low: float, high: float) -> Reader:
    """Make a reader of numbers within bounds, both included."""

    def read(raw: bytes) -> float:
        value = value_of(raw)
        if isinstance(value, bool) or not isinstance(value, int | float):
            raise wrong("Input should be a valid number", "float_type")
        _within(value, low, high)
        return value

    return read


def one_of(*words: str) -> Reader:
    """Make a reader of one of these words."""

    def read(raw: bytes) -> str:
        value = text(raw)
        if value not in words:
            raise wrong(f"Input should be one of {', '.join(words)}", "literal_error")
        return value

    return read


def list_of(item: Callable[[bytes], Value], most: int | None = None) -> Callable[[bytes], list[Value]]:
    """Make a reader of lists; every bad item is told."""

    def read(raw: bytes) -> list[Value]:
        found = raw_list(raw)
        if most is not None and len(found) > most:
            raise wrong(f"List should have at most {most} items, not {len(found)}", "too_long")
        values: list[Value] = []
        problems: list[Problem] = []
        for place, entry in enumerate(found):
            try:
                values.append(item(bytes(entry)))
            except Wrong as bad:
                problems += _below(place, bad)
        if problems:
            raise Wrong(*problems)
        return values

    return read


def object_of(**members: Reader) -> Reader:
    """Make a reader of objects of which these members are looked at, where they are there and not null."""

    def read(raw: bytes) -> dict[str, object]:
        found = _object(raw)
        values: dict[str, object] = {}
        problems: list[Problem] = []
        for name, reader in members.items():
            entry = bytes(found.get(name, b"null"))
            if entry == b"null":
                continue
            try:
                values[name] = reader(entry)
            except Wrong as bad:
                problems += _below(name, bad)
        if problems:
            raise Wrong(*problems)
        return values

    return read


def unambiguous(reader: Reader) -> Reader:
    """Make a reader of objects in which no name comes twice: the gateway edits them."""

    def read(raw: bytes) -> object:
        try:
            split(raw)
        except InvalidJson as doubled:
            raise wrong(doubled.message, "value_error") from None
        except Unprocessable:
            raise wrong("Input should be an object", "dict_type") from None
        return reader(raw)

    return read


def filled_text(raw: bytes) -> str:
    """Read a string that is not empty."""
    value = text(raw)
    if not value:
        raise wrong("String should have at least 1 character", "string_too_short")
    return value


STOP_LIST = list_of(filled_text, 16)
NAME_LIST = list_of(filled_text)
BIAS = number(-100, 100)
FORMAT = one_of("text", "json_object", "json_schema", "regex")
NAMED = object_of(name=text)


def stops(raw: bytes) -> tuple[str, ...]:
    """Read `stop`: one sequence or a list of them."""
    if raw.startswith(b'"'):
        return (filled_text(raw),)
    if not raw.startswith(b"["):
        raise wrong("Input should be a valid string or list of strings", "string_type")
    return tuple(STOP_LIST(raw))


def logit_bias(raw: bytes) -> dict[str, object]:
    """Read a map of token id to bias."""
    found = _object(raw)
    problems: list[Problem] = []
    values: dict[str, object] = {}
    for name, entry in found.items():
        try:
            if not (name.isascii() and name.isdigit()):
                raise wrong("Keys should be token ids", "int_parsing")
            values[name] = BIAS(bytes(entry))
        except Wrong as bad:
            problems += _below(name, bad)
    if problems:
        raise Wrong(*problems)
    return values


def response_format(raw: bytes) -> dict[str, object]:
    """Read a response format: the type is known, and what it needs is there."""
    found = _object(raw)
    kind = _member(found, "type", FORMAT)
    if kind == "json_schema":
        schema = _member(found, "json_schema", NAMED)
        if not isinstance(schema, dict) or "name" not in schema:
            raise wrong("Field required", "missing", "json_schema", "name")
    if kind == "regex":
        _member(found, "regex", text)
    return {"type": kind}


def model_list(raw: bytes) -> tuple[str, ...]:
    """Read `models`: one to four names. Which names are allowed is not decided here."""
    if raw.startswith(b"[") and not 1 <= (length := len(raw_list(raw))) <= MOST_MODELS:
        bound = f"at least 1 item, not {length}" if length == 0 else f"at most {MOST_MODELS} items, not {length}"
        raise wrong(f"List should have {bound}", "too_short" if length == 0 else "too_long")
    return tuple(NAME_LIST(raw))


def _member(found: Mapping[str, msgspec.Raw], name: str, reader: Reader) -> object:
    entry = bytes(found.get(name, b"null"))
    if entry == b"null":
        raise wrong("Field required", "missing", name)
    try:
        return reader(entry)
    except Wrong as bad:
        raise Wrong(*_below(name, bad)) from None


def _below(step: str | int, bad: Wrong) -> list[Problem]:
    return [((step, *below), msg, kind) for below, msg, kind in bad.problems]


def raw_list(raw: bytes) -> list[msgspec.Raw]:
    """Return the items of a list, unread."""
    try:
        return decode_list(raw)
    except msgspec.ValidationError:
        raise wrong("Input should be a valid list", "list_type") from None


def _object(raw: bytes) -> dict[str, msgspec.Raw]:
    try:
        return decode_object(raw)
    except msgspec.ValidationError:
        raise wrong("Input should be an object", "dict_type") from None


def _within(value: float, low: float, high: float | None) -> None:
    if value < low:
        raise wrong(f"Input should be greater than or equal to {low}", "greater_than_equal")
    if high is not None and value > high:
        raise wrong(f"Input should be less than or equal to {high}", "less_than_equal")
