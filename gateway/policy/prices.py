"""What is asked for tokens: rates, their steps by the length of the input, a tier's own, and what follows them from a day on.

Nano-USD a token, whole or a fraction: a rate is exact, however small. Pure.
"""

from collections.abc import Iterator, Mapping
from fractions import Fraction

import msgspec

Exact = int | Fraction
"""An amount of which nothing is rounded away."""


class Rates(msgspec.Struct, frozen=True, kw_only=True):
    """Nano-USD a token, and `per_request` nano-USD.

    `cached_input` and `cache_write` are parts of the input, `cache_write_1h` is one of `cache_write`, `reasoning` one of the
    output; None asks what the whole does.
    """

    input: Exact
    output: Exact
    cached_input: Exact | None = None
    cache_write: Exact | None = None
    cache_write_1h: Exact | None = None
    reasoning: Exact | None = None
    per_request: Exact = 0


class Step(Rates, frozen=True, kw_only=True):
    """The rates of a whole request whose input has more than `above` tokens."""

    above: int


class Stepped(Rates, frozen=True, kw_only=True):
    """Rates, and the steps that replace them for long inputs, the lowest first."""

    steps: tuple[Step, ...] = ()


class Price(Stepped, frozen=True, kw_only=True):
    """What a model costs from `since_unix_ms` on. `tiers`, by name, have rates of their own, which no multiplier changes.

    `source` is whose price it is, in words, and `version` what the ledger knows it by; `later` is what replaces it.
    """

    tiers: Mapping[str, Stepped] = {}
    source: str = "the model's price"
    version: str = ""
    since_unix_ms: int = 0
    later: "Price | None" = None

    def eras(self) -> "Iterator[Price]":
        """Yield the price and those that follow it, the earliest first."""
        price: Price | None = self
        while price is not None:
            yield price
            price = price.later


def at(price: Price | None, unix_ms: int) -> Price | None:
    """Return the price in force, None where there is none (yet)."""
    found = None
    for era in () if price is None else price.eras():
        if era.since_unix_ms <= unix_ms:
            found = era
    return found
