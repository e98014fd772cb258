"""What each demo model does: how fast, how long, and how it fails. Times are milliseconds, lengths are words, a word is a token.

A model's name may carry changes of its script as a query: `demo-slow?first_ms=50&words=3`. Pure.
"""

from typing import Annotated
from urllib.parse import parse_qsl

import msgspec

Milliseconds = Annotated[int, msgspec.Meta(ge=0, le=60_000)]
Words = Annotated[int, msgspec.Meta(ge=0, le=10_000)]


class Script(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One model's behaviour.

    It waits `first_ms`, then says `words` words, one every `word_ms`. A `status` other than 200 is its whole answer.
    `break_after` words the connection breaks.
    """

    status: Annotated[int, msgspec.Meta(ge=200, le=599)] = 200
    first_ms: Milliseconds = 20
    word_ms: Milliseconds = 10
    words: Words = 16
    break_after: Words | None = None


SCRIPTS = {
    "demo-fast": Script(),
    "demo-brief": Script(words=3, word_ms=0, first_ms=0),
    "demo-slow": Script(first_ms=800, word_ms=60),
    "demo-silent": Script(first_ms=60_000),
    "demo-busy": Script(status=429),
    "demo-500": Script(status=500),
    "demo-flaky": Script(break_after=5),
}


def script(model: str) -> Script | None:
    """Return what this model does, or None where there is no such model or no such change of it."""
    name, _, query = model.partition("?")
    base = SCRIPTS.get(name)
    if base is None or not query:
        return base
    try:
        return msgspec.convert({**msgspec.to_builtins(base), **dict(parse_qsl(query))}, Script, strict=False)
    except msgspec.ValidationError:
        return None
