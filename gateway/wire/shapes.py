"""Readers of the fields that take more than one shape, or whose names and members hold to rules of their own. Pure."""

from collections.abc import Mapping

import msgspec

from gateway.wire.readers import (
    Problem,
    Reader,
    Wrong,
    below,
    filled_text,
    integer,
    list_of,
    number,
    object_of,
    one_of,
    raw_list,
    raw_object,
    text,
    wrong,
)

MOST_MODELS = 4
MOST_BUDGET_TOKENS = 10_000_000

STOP_LIST = list_of(filled_text, 16)
NAME_LIST = list_of(filled_text)
BIAS = number(-100, 100)
FORMAT = one_of("text", "json_object", "json_schema", "regex")
NAMED = object_of(name=text)
KIND = object_of(type=text)
BUDGET = object_of(budget_tokens=integer(1, MOST_BUDGET_TOKENS))


def _read_stops(raw: bytes) -> tuple[str, ...]:
    if raw.startswith(b'"'):
        return (filled_text.read(raw),)
    if not raw.startswith(b"["):
        raise wrong("Input should be a valid string or list of strings", "string_type")
    return tuple(STOP_LIST.read(raw))


def _read_logit_bias(raw: bytes) -> dict[str, object]:
    found = raw_object(raw)
    problems: list[Problem] = []
    values: dict[str, object] = {}
    for name, entry in found.items():
        try:
            if not (name.isascii() and name.isdigit()):
                raise wrong("Keys should be token ids", "int_parsing")
            values[name] = BIAS.read(bytes(entry))
        except Wrong as bad:
            problems += below(name, bad)
    if problems:
        raise Wrong(*problems)
    return values


def _read_response_format(raw: bytes) -> dict[str, object]:
    found = raw_object(raw)
    kind = _member(found, "type", FORMAT)
    if kind == "json_schema":
        schema = _member(found, "json_schema", NAMED)
        if not isinstance(schema, dict) or "name" not in schema:
            raise wrong("Field required", "missing", "json_schema", "name")
    if kind == "regex":
        _member(found, "regex", text)
    return {"type": kind}


def _read_thinking(raw: bytes) -> dict[str, object]:
    found = KIND.read(raw)
    return found | (BUDGET.read(raw) if found.get("type") == "enabled" else {})


def _read_model_list(raw: bytes) -> tuple[str, ...]:
    if raw.startswith(b"[") and not 1 <= (length := len(raw_list(raw))) <= MOST_MODELS:
        bound = f"at least 1 item, not {length}" if length == 0 else f"at most {MOST_MODELS} items, not {length}"
        raise wrong(f"List should have {bound}", "too_short" if length == 0 else "too_long")
    return tuple(NAME_LIST.read(raw))


def _member(found: Mapping[str, msgspec.Raw], name: str, reader: Reader[object]) -> object:
    entry = bytes(found.get(name, b"null"))
    if entry == b"null":
        raise wrong("Field required", "missing", name)
    try:
        return reader.read(entry)
    except Wrong as bad:
        raise Wrong(*below(name, bad)) from None


stops = Reader(_read_stops, {"anyOf": [filled_text.schema, STOP_LIST.schema]})
"""`stop`: one sequence or a list of them."""
logit_bias = Reader(
    _read_logit_bias, {"type": "object", "propertyNames": {"pattern": "^[0-9]+$"}, "additionalProperties": BIAS.schema}
)
"""A map of token id to bias."""
response_format = Reader(
    _read_response_format,
    {
        "type": "object",
        "oneOf": [
            {"properties": {"type": {"enum": ["text", "json_object"]}}, "required": ["type"]},
            {
                "properties": {
                    "type": {"const": "json_schema"},
                    "json_schema": {"type": "object", "properties": {"name": text.schema}, "required": ["name"]},
                },
                "required": ["type", "json_schema"],
            },
            {"properties": {"type": {"const": "regex"}, "regex": text.schema}, "required": ["type", "regex"]},
        ],
    },
)
"""A response format: the type is known, and what it needs is there."""
thinking = Reader(
    _read_thinking,
    {**KIND.schema, "if": {"properties": {"type": {"const": "enabled"}}, "required": ["type"]}, "then": BUDGET.schema},
)
"""`thinking` of Messages, of which the gateway goes by a budget alone: every other kind is between client and provider."""
model_list = Reader(_read_model_list, {**NAME_LIST.schema, "minItems": 1, "maxItems": MOST_MODELS})
"""`models`: one to four names. Which names are allowed is not decided here."""
