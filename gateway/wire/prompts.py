"""What is asked, measured: how many prompts, and about how many tokens.

Token arrays are counted exactly, text from its bytes, which costs nothing however long it is: three bytes a token is on the safe
side for every common vocabulary, while nothing is known of the model's. Pure.
"""

import re
from contextlib import suppress
from typing import Annotated

import msgspec

from gateway.wire.readers import Problem, Reader, Wrong, raw_list, value_of, wrong

MILLION = 1_000_000
USUAL_RATIO_PPM = 333_333
"""Tokens a byte of text, in millionths, where nothing has been learned."""

TOKENS_PER_MESSAGE = 4
TOKENS_PER_FILE = 1_000
"""What an image or a sound is taken for: neither its base64 text nor its address says anything about its tokens."""

MOST_INPUTS = 2_048
"""How many texts one request may have embedded, as OpenAI documents it for `input`: clients cut their batches by that."""

EMPTY_LIST = re.compile(rb"\[[ \t\n\r]*\]")
INLINE_FILE = re.compile(rb'"data:[\w.+/-]+;base64,[A-Za-z0-9+/=]*"')
REMOTE_FILE = re.compile(rb'"(?:url|image_url|file_url)"[ \t\n\r]*:[ \t\n\r]*"https?:')
"""One that the provider fetches. In a text such quotes would be escaped."""


class Prompt(msgspec.Struct, frozen=True, gc=False):
    """The size of what is asked. `tokens` are estimated for text from `text_bytes`, which are 0 for token ids.

    `files` are those inside messages, or named by them. `has_empty`: there is an empty text, or no text at all. `beyond_chat` is
    the path of the first thing in it that chat has no words for.
    """

    prompts: int
    tokens: int
    text_bytes: int = 0
    of_tokens: bool = False
    files: int = 0
    has_empty: bool = False
    beyond_chat: str | None = None
    refers: bool = False
    """It names what its provider has kept of another answer."""


class Message(msgspec.Struct, gc=False):
    """A chat message as far as the gateway reads it."""

    role: str


TokenId = Annotated[int, msgspec.Meta(ge=0)]
decode_messages = msgspec.json.Decoder(list[Message]).decode
decode_message = msgspec.json.Decoder(Message).decode
decode_texts = msgspec.json.Decoder(list[str]).decode
decode_tokens = msgspec.json.Decoder(list[TokenId]).decode
decode_token_lists = msgspec.json.Decoder(list[list[TokenId]]).decode


def text_tokens(text_bytes: int, ratio_ppm: int = USUAL_RATIO_PPM) -> int:
    """Return about how many tokens a text has, rounded up."""
    return -(-text_bytes * ratio_ppm // MILLION)


def without_files(raw: bytes, inline: re.Pattern[bytes], remote: re.Pattern[bytes] = REMOTE_FILE) -> tuple[int, int]:
    """Return how many files stand in what is asked or are named there, and its length without those that stand in it."""
    found = [len(each) for each in inline.findall(raw)]
    return len(found) + len(remote.findall(raw)), len(raw) - sum(found)


def _read_conversation(raw: bytes) -> Prompt:
    count = _count(raw)
    files, length = 0, len(raw)
    if b'"data:' in raw or b'url"' in raw:
        files, length = without_files(raw, INLINE_FILE)
    tokens = text_tokens(length) + TOKENS_PER_MESSAGE * count + TOKENS_PER_FILE * files
    return Prompt(1, tokens, length, files=files)


def _read_prompt(raw: bytes) -> Prompt:
    if raw.startswith(b'"'):
        return Prompt(1, text_tokens(len(raw)), len(raw), has_empty=raw == b'""')
    for read in (_texts, _tokens, _token_lists):
        with suppress(msgspec.ValidationError):
            return read(raw)
    raise wrong("Input should be a string, a list of strings, a list of token ids or a list of such lists", "string_type")


def _read_inputs(raw: bytes) -> Prompt:
    if EMPTY_LIST.fullmatch(raw):
        raise wrong("List should have at least 1 item", "too_short")
    found = _read_prompt(raw)
    if found.prompts > MOST_INPUTS:
        raise wrong(f"List should have at most {MOST_INPUTS} items, not {found.prompts}", "too_long")
    return found


def _texts(raw: bytes) -> Prompt:
    texts = decode_texts(raw)
    return Prompt(max(1, len(texts)), text_tokens(len(raw)), len(raw), has_empty=not all(texts) or not texts)


def _tokens(raw: bytes) -> Prompt:
    return Prompt(1, len(decode_tokens(raw)), of_tokens=True)


def _token_lists(raw: bytes) -> Prompt:
    lists = decode_token_lists(raw)
    return Prompt(len(lists), sum(map(len, lists)), of_tokens=True)


def _count(raw: bytes) -> int:
    try:
        count = len(decode_messages(raw))
    except msgspec.ValidationError:
        raise Wrong(*_message_problems(raw)) from None
    if not count:
        raise wrong("List should have at least 1 item", "too_short")
    return count


def _message_problems(raw: bytes) -> list[Problem]:
    problems: list[Problem] = []
    for place, entry in enumerate(raw_list(raw)):
        try:
            decode_message(entry)
        except msgspec.ValidationError:
            found = value_of(bytes(entry))
            if not isinstance(found, dict):
                problems.append(((place,), "Input should be an object", "dict_type"))
            elif "role" not in found:
                problems.append(((place, "role"), "Field required", "missing"))
            else:
                problems.append(((place, "role"), "Input should be a valid string", "string_type"))
    return problems


conversation = Reader(
    _read_conversation,
    {
        "type": "array",
        "minItems": 1,
        "items": {"type": "object", "properties": {"role": {"type": "string"}, "content": {}}, "required": ["role"]},
    },
)
"""`messages`: at least one object with a role; what they say stays unread."""

TOKENS = {"type": "array", "items": {"type": "integer", "minimum": 0}}
prompt = Reader(
    _read_prompt,
    {"anyOf": [{"type": "string"}, {"type": "array", "items": {"type": "string"}}, TOKENS, {"type": "array", "items": TOKENS}]},
)
"""A legacy prompt: text, texts, token ids, or lists of token ids."""

SEVERAL = {"type": "array", "minItems": 1, "maxItems": MOST_INPUTS}
inputs = Reader(
    _read_inputs,
    {
        "anyOf": [
            {"type": "string"},
            {**SEVERAL, "items": {"type": "string"}},
            {**TOKENS, "minItems": 1},
            {**SEVERAL, "items": TOKENS},
        ]
    },
)
"""What is to be embedded, in the forms of a legacy prompt: one input at least, and no more than OpenAI takes."""
