"""How a rate grows with use: what a window's use makes of its scale, and what a charge is at one. Scales are thousandths. Pure.

Use is measured against what the bucket gives back in the window at the scale in force: from 80 % of it on the next window gives
1.2 times as much, up to 50 % of it two thirds, between one and the ceiling. Burst and rate grow alike, so that a limit that is
strict is still one: no minute passes it at its scale.
"""

from msgspec.structs import replace

from gateway.policy.catalogue import Dynamic
from gateway.policy.charges import Charge

BASE_MILLI = 1000
"""The scale of what is written."""


def next_scale(dynamic: Dynamic, scale_milli: int, posted: int, quota: int) -> int:
    """Return the scale after a window that could have given `quota`, in which `posted` was used."""
    if posted <= quota // 2:
        scale_milli = max(BASE_MILLI, scale_milli * 2 // 3)
    elif posted >= -(-quota * 4 // 5):
        scale_milli = scale_milli * 6 // 5
    return min(dynamic.ceiling_milli, scale_milli)


def at_scale(charge: Charge, scale_milli: int) -> Charge:
    """Return a charge as it is in force at a scale."""
    if scale_milli == BASE_MILLI:
        return charge
    capacity, rate, limit = (figure * scale_milli // BASE_MILLI for figure in (charge.capacity, charge.rate, charge.limit))
    return replace(charge, capacity=capacity, rate=rate, limit=limit)


def window_quota(charge: Charge, dynamic: Dynamic) -> int:
    """Return what a window can give of a charge that is in force: no more than it leaks, whatever its burst."""
    return charge.rate * dynamic.window_ms // charge.period_ms
