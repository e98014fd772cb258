"""Readers of what a Messages request says: `messages`, `system`, and whom it is for (Messages API of 2023-06-01).

The turns are measured as a chat's messages are, and looked into for what chat has no words for, since other providers are asked
in those. What else stands in a block is the provider's to judge. Pure.
"""

import re
from collections.abc import Iterator, Mapping
from typing import Literal

import msgspec
from msgspec import UNSET, UnsetType

from gateway.wire.prompts import TOKENS_PER_FILE, TOKENS_PER_MESSAGE, Prompt, text_tokens, without_files
from gateway.wire.readers import Problem, Reader, Schema, Wrong, raw_list, text, wrong

SOURCES: Mapping[str, tuple[str, ...]] = {"image": ("base64", "url"), "document": ("base64", "text")}
"""Where a file may be that chat can be shown."""

RESULTS = frozenset({"text", *SOURCES})
SAYABLE = frozenset({"text", "tool_use", "thinking", "redacted_thinking"})
"""Blocks that chat has words for, or that are nothing to say again: what another model thought."""

CARRIES = "__x"
"""What stands in the id of a tool call before what it carries for a provider: see `gateway.providers.call_ids`."""

CARRIED = re.compile(
    rb'"(?:tool_use_)?id"[ \t\n\r]*:[ \t\n\r]*"[A-Za-z0-9_-]{1,64}?(%b[0-9a-f]{8}_[A-Za-z0-9_-]+)"' % CARRIES.encode()
)

INLINE_FILE = re.compile(rb'"data"[ \t\n\r]*:[ \t\n\r]*"[A-Za-z0-9+/=]{64,}"')
REMOTE_FILE = re.compile(rb'"type"[ \t\n\r]*:[ \t\n\r]*"url"')
"""A source that the provider fetches: what a tool was called with may have an address of its own."""

PLACE = re.compile(r" - at `\$(.*)`$")
MISSING = re.compile(r"missing required field `(\w+)`")
STEP = re.compile(r"\.(\w+)|\[(\d+)\]")


NOTHING = msgspec.Raw(b"null")


class Block(msgspec.Struct, gc=False):
    """A part of a turn, as far as the gateway reads it."""

    type: str
    source: msgspec.Raw = NOTHING
    content: msgspec.Raw = NOTHING


class Source(msgspec.Struct, gc=False):
    """Where a file is."""

    type: str


class Turn(msgspec.Struct, gc=False):
    """What one speaker says in one go. The system may say nothing, and only set how the conversation goes on."""

    role: str
    content: str | list[Block] | UnsetType = UNSET


class Text(msgspec.Struct, gc=False):
    """A block of text."""

    type: Literal["text"]
    text: str


decode_turns = msgspec.json.Decoder(list[Turn]).decode
decode_turn = msgspec.json.Decoder(Turn).decode
decode_source = msgspec.json.Decoder(Source).decode
decode_given = msgspec.json.Decoder(str | list[Block] | None).decode
decode_texts = msgspec.json.Decoder(list[Text]).decode

SYSTEM = "system"
ROLES = ("user", "assistant", SYSTEM)
"""Who may speak. The system does within a conversation, behind the user."""

WORDS = frozenset({"text"})
"""Blocks of the system's that chat has words for."""


def _read_turns(raw: bytes) -> Prompt:
    try:
        turns = decode_turns(raw)
    except msgspec.ValidationError:
        raise Wrong(*_problems(raw)) from None
    if not turns:
        raise wrong("List should have at least 1 item", "too_short")
    if problems := [problem for place, turn in enumerate(turns) if (problem := _misfit(place, turn)) is not None]:
        raise Wrong(*problems)
    if turns[0].role != "user":
        raise wrong("The first message should have the role user", "value_error", 0, "role")
    files, length = without_files(raw, INLINE_FILE, REMOTE_FILE) if b'"base64"' in raw or b'"url"' in raw else (0, len(raw))
    # No model is told what an id carries.
    carried = [len(found) for found in CARRIED.findall(raw)] if CARRIES.encode() in raw else []
    length -= sum(carried)
    tokens = text_tokens(length) + TOKENS_PER_MESSAGE * len(turns) + TOKENS_PER_FILE * files
    return Prompt(1, tokens, length, files=files, beyond_chat=next(_beyond_chat(turns), None))


def _misfit(place: int, turn: Turn) -> Problem | None:
    """Return what keeps a turn out of a conversation."""
    if turn.role not in ROLES:
        return (place, "role"), f"Input should be one of {', '.join(ROLES)}", "literal_error"
    return ((place, "content"), "Field required", "missing") if turn.content is UNSET and turn.role != SYSTEM else None


def _beyond_chat(turns: list[Turn]) -> Iterator[str]:
    """Yield where there is what chat has no words for: an answer that was begun, and blocks that only Messages has."""
    for place, turn in enumerate(turns):
        for within, block in enumerate(turn.content if isinstance(turn.content, list) else ()):
            if block.type not in WORDS if turn.role == SYSTEM else not _is_known(block):
                yield f"messages.{place}.content.{within}"
    if turns[-1].role == "assistant":
        yield f"messages.{len(turns) - 1}.role"


def _is_known(block: Block) -> bool:
    try:
        if block.type in SOURCES:
            return decode_source(block.source).type in SOURCES[block.type]
        if block.type == "tool_result":
            given = decode_given(block.content)
            return not isinstance(given, list) or all(each.type in RESULTS and _is_known(each) for each in given)
    except msgspec.ValidationError:
        return False
    return block.type in SAYABLE


def _problems(raw: bytes) -> list[Problem]:
    """Return what is amiss in the turns, of each the first."""
    problems: list[Problem] = []
    for place, entry in enumerate(raw_list(raw)):
        try:
            problem = _misfit(place, decode_turn(entry))
        except msgspec.ValidationError as error:
            problem = _problem(str(error), place)
        if problem is not None:
            problems.append(problem)
    return problems


def _problem(told: str, place: int) -> Problem:
    """Return the decoder's complaint as a reader's, with the path that it names."""
    found = PLACE.search(told)
    steps: list[str | int] = [name or int(index) for name, index in STEP.findall(found[1])] if found else []
    said = told[: found.start()] if found else told
    missing = MISSING.search(said)
    if missing:
        return (place, *steps, missing[1]), "Field required", "missing"
    return (place, *steps), said, "dict_type" if "`object`" in said else "string_type"


def _read_system(raw: bytes) -> bytes:
    if raw.startswith(b'"'):
        text.read(raw)
        return raw
    try:
        decode_texts(raw)
    except msgspec.ValidationError:
        raise wrong("Input should be a string or a list of blocks of text", "value_error") from None
    return raw


BLOCKS = {"type": "array", "items": {"type": "object", "properties": {"type": {"type": "string"}}, "required": ["type"]}}
TEXTS = {
    "type": "array",
    "items": {
        "type": "object",
        "properties": {"type": {"const": "text"}, "text": {"type": "string"}},
        "required": ["type", "text"],
    },
}


def _turn(*roles: str, says: tuple[str, ...] = ("content",)) -> Schema:
    content = {"anyOf": [{"type": "string"}, BLOCKS]}
    return {"type": "object", "properties": {"role": {"enum": roles}, "content": content}, "required": ["role", *says]}


turns = Reader(
    _read_turns,
    {
        "type": "array",
        "minItems": 1,
        "prefixItems": [_turn(ROLES[0])],
        "items": {"anyOf": [_turn(*(role for role in ROLES if role != SYSTEM)), _turn(SYSTEM, says=())]},
    },
)
"""`messages` of the Messages API: turns, of which the first is the user's."""

system = Reader(_read_system, {"anyOf": [{"type": "string"}, TEXTS]})
"""`system`: a text, or blocks of it."""
