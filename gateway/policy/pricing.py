"""What a request costs its org. Integer nano-USD, rounded up once after all classes and the tier (decision 44). Pure."""

from math import ceil

from gateway.policy.catalogue import Price
from gateway.wire.usage import Usage

NANO_USD = 1_000_000_000


def cost_nano_usd(usage: Usage, price: Price, multiplier: float) -> int:
    """Return the cost of `usage` at `price`, times the tier's multiplier, rounded up.

    A provider that reports more cached than input tokens is taken to have cached all of them.
    """
    cached = min(usage.cached, usage.input)
    cached_price = price.input if price.cached_input is None else price.cached_input
    base = (usage.input - cached) * price.input + cached * cached_price + usage.output * price.output
    # The multiplier comes from a decimal in the configuration: without the rounding 1.1 x 10 would cost 12, not 11.
    return ceil(round(base * multiplier, 6))
