"""What a request costs: its org, by the model's price, and the operator, by the deployment's. Integer nano-USD (decision 44).

All that can be worked out before a request is: a tier's rates are whole numbers of some fraction of a nano-USD, so that a cost is
one exact sum, rounded up once. Pure.
"""

from collections.abc import Sequence
from fractions import Fraction
from math import inf, lcm

import msgspec

from gateway.policy.catalogue import Tier
from gateway.policy.prices import Price, Rates, Stepped, at
from gateway.policy.tiers import NO_ECHOES, Echo, Echoes
from gateway.wire.usage import Usage

NANO_USD = 1_000_000_000

USUAL = Echo(Tier.DEFAULT, 1.0)

AS_LISTED = Fraction(1)

LONGEST_WAIT_MS = 3_600_000
"""No request waits longer for its admission, and no two clocks differ by more."""


class Fare(msgspec.Struct, frozen=True, gc=False):
    """Rates made ready for inputs of more than `above` tokens: in whole numbers, of which `scale` are a nano-USD.

    Those of parts are what such a token costs more than any other of its whole, or less.
    """

    above: int
    input: int
    cached_input: int
    cache_write: int
    cache_write_1h: int
    output: int
    reasoning: int
    per_request: int
    scale: int

    def cost_nano_usd(self, usage: Usage) -> int:
        """Return the cost, rounded up. What is said of a part beyond the whole counts for the whole."""
        given, produced, cached, written = usage.input, usage.output, usage.cached, usage.cache_write
        amount = given * self.input + produced * self.output + self.per_request
        if cached or written:
            cached = min(cached, given)
            written = min(written, given - cached)
            amount += cached * self.cached_input + written * self.cache_write
            amount += min(usage.cache_write_1h, written) * self.cache_write_1h
        if self.reasoning:
            amount += min(usage.reasoning, produced) * self.reasoning
        return -(-amount // self.scale)

    def most_nano_usd(self, input_tokens: int, output_tokens: int, *, an_hour: bool) -> int:
        """Return the most that so many tokens cost, whatever part of them is cached, written to a cache or reasoning."""
        written = self.cache_write + (max(0, self.cache_write_1h) if an_hour else 0)
        dearest = self.input + max(0, self.cached_input, written), self.output + max(0, self.reasoning)
        return -(-(input_tokens * dearest[0] + output_tokens * dearest[1] + self.per_request) // self.scale)


Fares = tuple[Fare, ...]
"""Those of one tier, for the longest inputs first; the last one is for any."""


class Tariff:
    """At what the answers of one target are charged from `since_unix_ms` on, and what the operator pays for them.

    `terms` are those of the tier that is served; `echoes` what the upstream may say of the tier that changes what is shown and
    charged. `cost` is the operator's own price: no multiplier of ours changes it. `rates` are those of the tier that is served,
    before its `multiplier`. `without_echoes` is for requests with which no tier is sent.
    """

    __slots__ = (
        *("_charged", "_paid", "_usual", "cost", "echoes", "multiplier", "price", "rates", "since_unix_ms", "tier"),
        "without_echoes",
    )

    def __init__(
        self,
        price: Price | None = None,
        terms: Echo = USUAL,
        echoes: Echoes = NO_ECHOES,
        cost: Price | None = None,
        since_unix_ms: int = 0,
    ) -> None:
        self.price, self.cost, self.tier = price, cost, terms.tier
        self.echoes = echoes
        self.since_unix_ms = since_unix_ms
        self.rates: Stepped | None = None
        self.multiplier = AS_LISTED
        if price is not None:
            self.rates, self.multiplier = sold(price, terms)
        self.without_echoes = self if echoes is NO_ECHOES else Tariff(price, terms, NO_ECHOES, cost, since_unix_ms)
        served = {each.tier: each for each in (*echoes, terms)}
        self._charged = {} if price is None else {tier: fares(*sold(price, each)) for tier, each in served.items()}
        self._usual = self._charged.get(terms.tier)
        self._paid = {} if cost is None else {tier: fares(cost.tiers.get(tier, cost), AS_LISTED) for tier in served}

    @property
    def version(self) -> str | None:
        """Return what the ledger knows the price by."""
        return None if self.price is None else self.price.version

    def echo(self, word: object) -> Echo | None:
        """Return what the upstream's own word for the tier changes, if anything."""
        return self.echoes.of(word)

    def cost_nano_usd(self, usage: Usage, echo: Echo | None) -> int | None:
        """Return what an answer costs its org, None where the model has no price."""
        return _cost_nano_usd(self._usual if echo is None else self._charged.get(echo.tier), usage)

    def own_cost_nano_usd(self, usage: Usage, echo: Echo | None) -> int | None:
        """Return what an answer costs the operator, None where nobody knows."""
        return _cost_nano_usd(self._paid.get(self.tier if echo is None else echo.tier), usage)

    def most_nano_usd(self, input_tokens: int, output_tokens: int, *, an_hour: bool = True) -> int:
        """Return the most that so many tokens cost, whichever tier is echoed and whatever part of them has a price of its own.

        `an_hour` is False where none can be written to a cache for so long. A model without a price costs nothing that anybody
        knows; `check` lets none be reached under a budget.
        """
        reached = (fare for ready in self._charged.values() for fare in ready if fare.above < input_tokens)
        return max((fare.most_nano_usd(input_tokens, output_tokens, an_hour=an_hour) for fare in reached), default=0)


FREE = Tariff()
"""Where nothing has a price."""


def timetable(price: Price | None, terms: Echo, echoes: Echoes, cost: Price | None) -> tuple[Tariff, ...]:
    """Return the tariffs that follow each other, the earliest first; the first one holds from ever."""
    starts = {0} | {era.since_unix_ms for each in (price, cost) if each is not None for era in each.eras()}
    return tuple(Tariff(at(price, start), terms, echoes, at(cost, start), start) for start in sorted(starts))


def in_force(tariffs: Sequence[Tariff], unix_ms: int) -> Tariff:
    """Return the tariff of a request that is admitted then."""
    if len(tariffs) == 1:
        return tariffs[0]
    return next((each for each in reversed(tariffs) if each.since_unix_ms <= unix_ms), tariffs[0])


def near(tariffs: Sequence[Tariff], unix_ms: int) -> Sequence[Tariff]:
    """Return those that may be in force when a request is admitted that is planned now."""
    if len(tariffs) == 1:
        return tariffs
    ends = (*(each.since_unix_ms for each in tariffs[1:]), inf)
    return [
        each
        for each, end in zip(tariffs, ends, strict=True)
        if each.since_unix_ms <= unix_ms + LONGEST_WAIT_MS and end > unix_ms - LONGEST_WAIT_MS
    ]


def sold(price: Price, terms: Echo) -> tuple[Stepped, Fraction]:
    """Return the rates of a tier and their multiplier, which is as written: 0.1 is a tenth. A tier's own rates have none."""
    own = price.tiers.get(terms.tier)
    return (price, Fraction(str(terms.multiplier))) if own is None else (own, AS_LISTED)


def fares(rates: Stepped, multiplier: Fraction) -> Fares:
    """Return rates times the multiplier, ready to be charged."""
    steps = sorted(rates.steps, key=lambda step: step.above, reverse=True)
    return (*(_fare(step.above, step, multiplier) for step in steps), _fare(-1, rates, multiplier))


def _fare(above: int, rates: Rates, multiplier: Fraction) -> Fare:
    written = rates.input if rates.cache_write is None else rates.cache_write
    parts = (rates.input, rates.cached_input, written, rates.cache_write_1h, rates.output, rates.reasoning, rates.per_request)
    wholes = (rates.input, rates.input, rates.input, written, rates.output, rates.output, 0)
    exact = [(whole if part is None else part) * multiplier for part, whole in zip(parts, wholes, strict=True)]
    scale = lcm(*(amount.denominator for amount in exact))
    given, cached, new, hour, produced, reasoning, once = (int(amount * scale) for amount in exact)
    return Fare(above, given, cached - given, new - given, hour - new, produced, reasoning - produced, once, scale)


def _cost_nano_usd(ready: Fares | None, usage: Usage) -> int | None:
    if ready is None:
        return None
    if not (usage.input or usage.output):
        # Nobody took the request on: there was none to charge for, either.
        return 0
    if len(ready) == 1:
        return ready[0].cost_nano_usd(usage)
    return next(fare for fare in ready if usage.input > fare.above).cost_nano_usd(usage)
