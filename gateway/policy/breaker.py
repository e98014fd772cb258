"""When a deployment is left alone for a while, as the configuration says. Milliseconds. Pure."""

import msgspec


class Breaker(msgspec.Struct, frozen=True, kw_only=True):
    """When a deployment is left alone: its breaker opens after `failures` in a row, or `ratio_ppm` millionths of a window.

    It does for `open_ms`, doubled each time up to `max_open_ms`. `cooldown_max_ms` is the longest that a provider may ask for.
    """

    failures: int = 5
    ratio_ppm: int = 500_000
    window_ms: int = 30_000
    open_ms: int = 10_000
    max_open_ms: int = 300_000
    cooldown_max_ms: int = 60_000


USUAL_BREAKER = Breaker()
