"""How long a request may take: from its receipt to the commit point, or as long as its client says. Seconds. Pure."""

from collections.abc import Mapping
from math import isfinite

import msgspec

from gateway.errors import InvalidValue

LONGEST_S = 600.0
"""From receipt to commit at the most: the official SDKs' own default, beyond which nobody listens."""

SDK_MARGIN_S = 2.0
"""How much earlier than an SDK's own timeout an answer must be there to arrive in time."""


class Deadline(msgspec.Struct, frozen=True, gc=False):
    """`commit_s` is when there must be an answer; `ends_s` when a stream must be over, None unless the client said so."""

    commit_s: float
    ends_s: float | None


def deadline(headers: Mapping[bytes, bytes], started_s: float, *, stream: bool) -> Deadline:
    """Return the deadline of a request received at `started_s`.

    `x-request-timeout` (decimal seconds) is the client's explicit word; `x-stainless-read-timeout` is an SDK's, taken on unary
    calls. Raises `InvalidValue` for an explicit word that is no positive number.
    """
    asked = headers.get(b"x-request-timeout")
    if asked is not None:
        asked_s = _seconds(asked)
        if asked_s is None:
            raise InvalidValue("x-request-timeout must be a positive number of seconds", param="x-request-timeout")
        return Deadline(started_s + min(asked_s, LONGEST_S), started_s + asked_s)
    hint = None if stream else headers.get(b"x-stainless-read-timeout")
    hint_s = None if hint is None else _seconds(hint)
    if hint_s is None:
        return Deadline(started_s + LONGEST_S, None)
    return Deadline(started_s + min(max(hint_s - SDK_MARGIN_S, hint_s / 2), LONGEST_S), None)


def _seconds(value: bytes) -> float | None:
    try:
        seconds = float(value)
    except ValueError:
        return None
    return seconds if isfinite(seconds) and seconds > 0 else None
