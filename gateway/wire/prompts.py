"""What is asked, measured: how many prompts, and about how many tokens.

Token arrays are counted exactly, text from its bytes: three bytes a token is on the safe side for every common vocabulary, and
costs nothing however long the text is. Pure.
"""

import re
from contextlib import suppress
from math import ceil
from typing import Annotated

import msgspec

from gateway.wire.readers import messages, wrong

BYTES_PER_TOKEN = 3
TOKENS_PER_MESSAGE = 4
TOKENS_PER_FILE = 1_000
"""What an image or a sound inside a message is taken for: its base64 text says nothing about its tokens."""

INLINE_FILE = re.compile(rb'"data:[\w.+/-]+;base64,[A-Za-z0-9+/=]*"')


class Prompt(msgspec.Struct, frozen=True):
    """The size of what is asked. `of_tokens` tells token ids from text."""

    prompts: int
    tokens: int
    of_tokens: bool = False


TokenId = Annotated[int, msgspec.Meta(ge=0)]
decode_texts = msgspec.json.Decoder(list[str]).decode
decode_tokens = msgspec.json.Decoder(list[TokenId]).decode
decode_token_lists = msgspec.json.Decoder(list[list[TokenId]]).decode


def conversation(raw: bytes) -> Prompt:
    """Read `messages`. Raises `Wrong`."""
    count = messages(raw)
    files, length = 0, len(raw)
    if b'"data:' in raw:
        inline = [len(found) for found in INLINE_FILE.findall(raw)]
        files, length = len(inline), length - sum(inline)
    return Prompt(1, ceil(length / BYTES_PER_TOKEN) + TOKENS_PER_MESSAGE * count + TOKENS_PER_FILE * files)


def prompt(raw: bytes) -> Prompt:
    """Read a legacy prompt: text, texts, token ids, or lists of token ids. Raises `Wrong`."""
    if raw.startswith(b'"'):
        return Prompt(1, ceil(len(raw) / BYTES_PER_TOKEN))
    for read in (_texts, _tokens, _token_lists):
        with suppress(msgspec.ValidationError):
            return read(raw)
    raise wrong("Input should be a string, a list of strings, a list of token ids or a list of such lists", "string_type")


def _texts(raw: bytes) -> Prompt:
    return Prompt(max(1, len(decode_texts(raw))), ceil(len(raw) / BYTES_PER_TOKEN))


def _tokens(raw: bytes) -> Prompt:
    return Prompt(1, len(decode_tokens(raw)), of_tokens=True)


def _token_lists(raw: bytes) -> Prompt:
    lists = decode_token_lists(raw)
    return Prompt(len(lists), sum(map(len, lists)), of_tokens=True)
