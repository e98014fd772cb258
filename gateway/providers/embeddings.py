"""Answers of OpenAI's embeddings endpoint: vectors that go out as the client wants them, however they came.

Clients ask for base64, which holds little-endian float32, or for lists of numbers; many providers know only the latter, and say
nothing of it. Vectors are large: their numbers are read only where they have to be written anew. The rest is edited as in every
answer. Pure.
"""

import struct
from base64 import b64decode, b64encode
from collections.abc import Mapping

import msgspec

from gateway.errors import InvalidJson, Unprocessable
from gateway.faults import Failed
from gateway.providers.editing import common_edits, encode, shown_usage
from gateway.providers.failures import NO_ANSWER
from gateway.providers.protocol import Answer, Edits
from gateway.wire.members import Members, splice, split
from gateway.wire.usage import Usage, read_usage

FLOAT32_BYTES = 4


class Vector(msgspec.Struct, gc=False):
    """One input's vector, as it is written."""

    embedding: msgspec.Raw


class Vectors(msgspec.Struct, gc=False):
    """What is looked at in a whole answer."""

    data: list[Vector]
    usage: object = None
    error: object = None


decode = msgspec.json.Decoder(Vectors).decode
decode_items = msgspec.json.Decoder(list[msgspec.Raw]).decode
decode_numbers = msgspec.json.Decoder(list[float]).decode
decode_text = msgspec.json.Decoder(str).decode


class NoVectorError(ValueError):
    """What stands in a vector's place cannot be read as one."""


def answer(body: bytes, edits: Edits) -> Answer | Failed | None:
    """Read a complete 2xx body; None for what is no answer of this endpoint, but may be an error in words.

    One vector an input is an answer: which one is missing nobody could tell.
    """
    try:
        members, found = split(body), decode(body)
        if found.error:
            return None
        if len(found.data) != edits.choices:
            return NO_ANSWER
        data = _converted(members, found.data, edits)
    except (InvalidJson, Unprocessable, msgspec.DecodeError, RecursionError):
        return None
    except NoVectorError:
        return NO_ANSWER
    edited = common_edits(edits, None)
    if data is not None:
        edited["data"] = data
    usage, raw = usage_of(found.usage), members.value("usage")
    if isinstance(found.usage, dict) and raw is not None:
        edited["usage"] = shown_usage(raw, usage, edits, None)
    # The tier is never sent here, so that no word of the provider's counts.
    return Answer(body=splice(members, edited), usage=usage, tier=None, output_bytes=0)


def usage_of(stated: object) -> Usage | None:
    """Return the usage of a decoded `usage` object: all of it is input, which some providers tell in the total alone."""
    if isinstance(stated, Mapping) and stated.get("prompt_tokens") is None:
        stated = {**stated, "prompt_tokens": stated.get("total_tokens")}
    usage = read_usage(stated)
    return None if usage is None else Usage(input=usage.input, cached=usage.cached, cache_write=usage.cache_write)


def as_base64(raw: msgspec.Raw | bytes) -> bytes:
    """Return a JSON list of numbers as a JSON string of base64. Raises `NoVectorError`."""
    try:
        numbers = decode_numbers(raw)
        return b'"%b"' % b64encode(struct.pack(f"<{len(numbers)}f", *numbers))
    except (msgspec.ValidationError, OverflowError) as error:
        raise NoVectorError(str(error)) from None


def as_numbers(raw: msgspec.Raw | bytes) -> bytes:
    """Return a JSON string of base64 as a JSON list of numbers, each exactly what it was. Raises `NoVectorError`."""
    try:
        packed = b64decode(decode_text(raw), validate=True)
        numbers = struct.unpack(f"<{len(packed) // FLOAT32_BYTES}f", packed)
    except (msgspec.ValidationError, ValueError, struct.error) as error:
        raise NoVectorError(str(error)) from None
    written = encode(numbers)
    if b"null" in written:
        raise NoVectorError("JSON has no such number")
    return written


def _converted(members: Members, vectors: list[Vector], edits: Edits) -> bytes | None:
    """Return the value of `data` with every vector as the client wants it, None where they all came so."""
    wanted, converted = (b'"', as_base64) if edits.base64 else (b"[", as_numbers)
    if all(memoryview(vector.embedding)[:1] == wanted for vector in vectors):
        return None
    items = map(bytes, decode_items(members.value("data") or b"[]"))
    written = (
        item if memoryview(vector.embedding)[:1] == wanted else splice(split(item), {"embedding": converted(vector.embedding)})
        for item, vector in zip(items, vectors, strict=True)
    )
    return b"[%b]" % b",".join(written)
