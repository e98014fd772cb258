"""What a reply says about our own account at the provider: for how long it has nothing left.

By the rate-limit pages of each provider's documentation: what is left of a limit in one header, when the limit resets in another.

- OpenAI ("Rate limits in headers") and those that speak as it does: `x-ratelimit-remaining-{requests,tokens}` with
  `x-ratelimit-reset-{requests,tokens}`, a Go duration (`1s`, `6m0s`, `12ms`). Groq (`2m59.56s`) the same, for requests of a day.
- Azure OpenAI the same, where it sends a reset at all (whole seconds); what it does not count is -1 left and 0 seconds to wait.
- Together AI: `x-ratelimit-remaining` with `x-ratelimit-reset`, seconds.
- Cerebras: `x-ratelimit-remaining-{requests-day,tokens-minute}` with `x-ratelimit-reset-...`, seconds with a fraction.
- Anthropic: `anthropic-ratelimit-{requests,tokens,input-tokens,output-tokens}-remaining` with `-reset`, a time by RFC 3339.
- Mistral (`x-ratelimit-remaining-{req,tokens}-minute`) and Fireworks (`x-ratelimit-remaining-tokens-{prompt,generated}`) say what
  is left and not until when: nothing to go by.

A reset is when the limit is whole again. Where the limit refills all the time something is left before that: it is the longest
that the account can have nothing, not the shortest. Milliseconds. Pure: a point in time is read against the reply's own `date`.
"""

import re
from collections.abc import Mapping, Sequence
from datetime import datetime
from math import ceil

from gateway.providers.dates import http_date

MOST_WAIT_MS = 86_400_000

RESETS: Mapping[bytes, bytes] = {
    b"x-ratelimit-remaining-requests": b"x-ratelimit-reset-requests",
    b"x-ratelimit-remaining-tokens": b"x-ratelimit-reset-tokens",
    b"x-ratelimit-remaining": b"x-ratelimit-reset",
    b"x-ratelimit-remaining-requests-day": b"x-ratelimit-reset-requests-day",
    b"x-ratelimit-remaining-tokens-minute": b"x-ratelimit-reset-tokens-minute",
    b"anthropic-ratelimit-requests-remaining": b"anthropic-ratelimit-requests-reset",
    b"anthropic-ratelimit-tokens-remaining": b"anthropic-ratelimit-tokens-reset",
    b"anthropic-ratelimit-input-tokens-remaining": b"anthropic-ratelimit-input-tokens-reset",
    b"anthropic-ratelimit-output-tokens-remaining": b"anthropic-ratelimit-output-tokens-reset",
}
"""By the header that says what is left: the one that says until when."""

NOTHING = re.compile(rb"0{1,9}|-[0-9]{1,18}")

# Nine digits before the point: ten are the seconds since 1970 of some gateways, which is no wait.
NUMBER = rb"[0-9]{1,9}(?:\.[0-9]{1,20})?"
SECONDS_OR_DURATION = re.compile(rb"%b|(?:%b(?:h|ms|m|s|us|ns)){1,6}" % (NUMBER, NUMBER))
PART = re.compile(rb"(%b)(h|ms|m|s|us|ns|)" % NUMBER)
UNITS_MS: Mapping[bytes, float] = {b"h": 3_600_000, b"m": 60_000, b"s": 1000, b"": 1000, b"ms": 1, b"us": 1e-3, b"ns": 1e-6}


def exhausted_by(headers: Sequence[tuple[bytes, bytes]]) -> int | None:
    """Return the same of a reply's headers as they came: most have none of these, and are passed through once."""
    for name, _ in headers:
        if name in RESETS:
            return exhausted_ms(dict(headers))
    return None


def exhausted_ms(headers: Mapping[bytes, bytes]) -> int | None:
    """Return for how long the account has nothing left, a day at the most; None where it has, or where that is not said.

    Header names are in lower case. The longest of what has run out counts.
    """
    longest_ms = 0.0
    for left, reset in RESETS.items():
        if left in headers and NOTHING.fullmatch(headers[left]):
            longest_ms = max(longest_ms, _until_ms(headers.get(reset, b""), headers))
    return min(ceil(longest_ms), MOST_WAIT_MS) if longest_ms > 0 else None


def _until_ms(reset: bytes, headers: Mapping[bytes, bytes]) -> float:
    """Return how far off a reset is, 0 where it does not say."""
    if SECONDS_OR_DURATION.fullmatch(reset):
        return sum(float(number) * UNITS_MS[unit] for number, unit in PART.findall(reset))
    until, sent = _timestamp(reset), http_date(headers.get(b"date", b""))
    return 0 if until is None or sent is None else (until - sent).total_seconds() * 1000


def _timestamp(value: bytes) -> datetime | None:
    """Return a point in time as RFC 3339 writes it, None for anything else."""
    try:
        named = datetime.fromisoformat(value.decode("latin-1"))
    except ValueError:
        return None
    return named if named.tzinfo is not None else None
