"""What a request costs its org. Integer nano-USD, rounded up once after all classes and the tier (decision 44). Pure."""

from math import ceil

import msgspec
from msgspec.structs import replace

from gateway.policy.catalogue import Price
from gateway.policy.tiers import NO_ECHOES, Echo, Echoes
from gateway.wire.usage import Usage

NANO_USD = 1_000_000_000


class Tariff(msgspec.Struct, frozen=True, gc=False):
    """At what answers of one target are charged: the model's price times the multiplier of the tier.

    `echoes` are what the upstream may say of the tier that changes what is shown and charged.
    """

    price: Price | None = None
    multiplier: float = 1.0
    echoes: Echoes = NO_ECHOES

    def echo(self, word: object) -> Echo | None:
        """Return what the upstream's own word for the tier changes, if anything."""
        return self.echoes.of(word)

    def without_echoes(self) -> "Tariff":
        """Return the same for requests with which no tier is sent."""
        return self if self.echoes is NO_ECHOES else replace(self, echoes=NO_ECHOES)

    def cost_nano_usd(self, usage: Usage, echo: Echo | None) -> int | None:
        """Return what an answer costs, None where the model has no price."""
        if self.price is None:
            return None
        return cost_nano_usd(usage, self.price, self.multiplier if echo is None else echo.multiplier)

    def most_nano_usd(self, input_tokens: int, output_tokens: int) -> int:
        """Return the most that so many tokens cost, however much of the input is cached and whatever tier is echoed.

        A model without a price costs nothing that anybody knows; `check` lets none be reached under a budget.
        """
        if self.price is None:
            return 0
        multiplier = max(self.multiplier, *(echo.multiplier for echo in self.echoes), 0.0)
        usages = (Usage(input=input_tokens, output=output_tokens, cached=cached) for cached in (0, input_tokens))
        return max(cost_nano_usd(usage, self.price, multiplier) for usage in usages)


def cost_nano_usd(usage: Usage, price: Price, multiplier: float) -> int:
    """Return the cost of `usage` at `price`, times the tier's multiplier, rounded up.

    A provider that reports more cached than input tokens is taken to have cached all of them.
    """
    base = usage.input * price.input + usage.output * price.output
    if usage.cached and price.cached_input is not None:
        base += min(usage.cached, usage.input) * (price.cached_input - price.input)
    # The multiplier comes from a decimal in the configuration: without the rounding 1.1 x 10 would cost 12, not 11.
    return ceil(round(base * multiplier, 6))
