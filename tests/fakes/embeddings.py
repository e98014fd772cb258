"""Providers of vectors, as scripts: what they know of `encoding_format`, and the vector that each input has everywhere."""

import struct
from base64 import b64encode
from collections.abc import Sequence
from hashlib import sha256
from typing import Any

import msgspec

from tests.fakes.http_server import Call, Script
from tests.fakes.openai import JSON, encode, error

DIMENSIONS = 6
MOST_DIMENSIONS = 4_096
USAGE = {"prompt_tokens": 9, "total_tokens": 9}


def vector_of(given: str | list[int], dimensions: int = DIMENSIONS) -> list[float]:
    """Return what an input is embedded as: every number is a float32."""
    digest = sha256(repr(given).encode()).digest()
    return [(digest[place % 32] - 127.5) / 1024 for place in range(dimensions)]


def base64_of(numbers: Sequence[float]) -> str:
    """Return numbers as little-endian float32 in base64."""
    return b64encode(struct.pack(f"<{len(numbers)}f", *numbers)).decode()


def inputs_of(given: Any) -> list[Any]:
    """Return the inputs that a request's `input` holds."""
    return given if isinstance(given, list) and not isinstance(given[0], int) else [given]


def vectors(body: Any, *, base64: bool, **members: Any) -> bytes:
    """Return the whole answer to a request, with members of its own."""
    dimensions = min(body.get("dimensions") or DIMENSIONS, MOST_DIMENSIONS)
    rows = (vector_of(each, dimensions) for each in inputs_of(body["input"]))
    data = [
        {"object": "embedding", "index": place, "embedding": base64_of(row) if base64 else row} for place, row in enumerate(rows)
    ]
    return encode({"object": "list", "data": data, "model": body["model"], "usage": USAGE, **members})


def embeds(knows: str = "float", **members: Any) -> Script:
    """Make a script that answers in `float` or `base64` whatever it is asked, or as `asked`; `none` refuses the field."""

    async def act(call: Call) -> None:
        body = msgspec.json.decode(call.request.body)
        wanted = body.get("encoding_format")
        if knows == "none" and wanted is not None:
            call.reply(400, error("Unrecognized request argument supplied: encoding_format"), JSON)
            return
        call.reply(200, vectors(body, base64=(wanted if knows == "asked" else knows) == "base64", **members), JSON)

    return act
