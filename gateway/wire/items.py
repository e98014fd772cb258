"""A reader of what a Responses request says: `input`, a text or a list of items.

What stands in an item is the provider's to judge, which gets it as it is. Pure.
"""

import re

import msgspec

from gateway.wire.prompts import TOKENS_PER_FILE, TOKENS_PER_MESSAGE, Prompt, text_tokens, without_files
from gateway.wire.readers import Problem, Reader, Wrong, or_null, raw_list, text, wrong

INLINE_FILE = re.compile(rb'"(?:data:[\w.+/-]+;base64,[A-Za-z0-9+/=]*|[A-Za-z0-9+/]{1024,}={0,2})"')
"""A file that is part of the item: a data URL, or base64 alone, as sounds and results of image tools are."""


class Item(msgspec.Struct, gc=False):
    """An item, as far as the gateway reads it."""

    type: str | None = None
    role: str | None = None


decode_items = msgspec.json.Decoder(list[Item]).decode
decode_item = msgspec.json.Decoder(Item).decode


def _read_items(raw: bytes) -> Prompt:
    if raw.startswith(b'"'):
        return Prompt(1, text_tokens(len(raw)) + TOKENS_PER_MESSAGE, len(raw))
    if not raw.startswith(b"["):
        raise wrong("Input should be a string or a list of items", "string_type")
    try:
        count = len(decode_items(raw))
    except msgspec.ValidationError:
        raise Wrong(*_problems(raw)) from None
    if not count:
        raise wrong("List should have at least 1 item", "too_short")
    files, length = without_files(raw, INLINE_FILE)
    tokens = text_tokens(length) + TOKENS_PER_MESSAGE * count + TOKENS_PER_FILE * files
    return Prompt(1, tokens, length, files=files)


def _problems(raw: bytes) -> list[Problem]:
    """Return what is amiss in the items, of each the first."""
    problems: list[Problem] = []
    for place, entry in enumerate(raw_list(raw)):
        try:
            decode_item(entry)
        except msgspec.ValidationError as error:
            told = str(error)
            if "- at" not in told:
                problems.append(((place,), "Input should be an object", "dict_type"))
            else:
                problems.append(((place, told.rpartition("$.")[2].rstrip("`")), "Input should be a valid string", "string_type"))
    return problems


items = Reader(
    _read_items,
    {
        "anyOf": [
            {"type": "string"},
            {
                "type": "array",
                "minItems": 1,
                "items": {
                    "type": "object",
                    "properties": {name: or_null(text.schema) for name in ("type", "role")},
                },
            },
        ]
    },
)
"""`input` of the Responses API: a text, or items of any type."""
