"""A worker's own guard against floods: a key that asks far more often than it may is turned away without a call to the store.

The exact limit stays where all workers share it; this one is so wide that no client within its limit ever meets it, and costs
nothing to be refused by. Unix milliseconds of any one clock. Pure.
"""

from gateway.errors import RateLimited
from gateway.policy.catalogue import Key
from gateway.policy.charges import Charge, Dimension, Kind, Reach, Unit
from gateway.policy.limits import MINUTE_MS, Bucket, weight
from gateway.policy.remembered import Remembered
from gateway.policy.tiers import SPENDS_NO_RATES, Wish

TIMES = 20
"""How many times its limit of requests a minute a key may ask each worker: retries and bursts stay far below, loops do not."""


class FloodGuard:
    """What each key has asked of this worker lately, refused requests included; the exact limit holds where it begins anew."""

    def __init__(self) -> None:
        self._keys = Remembered[str, tuple[Charge, Bucket]]()

    def count(self, key: Key, wanted: Wish | None, now_ms: int) -> None:
        """Count one request, `wanted` None where it could not be read. Raises `RateLimited` where it is one too many.

        Only where the key's limit would refuse it as well: not without a limit, nor at a tier that the limit does not hold for.
        """
        rpm = key.limits.rpm
        if rpm is None or key.limits.shadow or (wanted is not None and (wanted.overflow or wanted.tier in SPENDS_NO_RATES)):
            return
        known = self._keys.get(key.id)
        if known is None or known[0].limit != rpm:
            known = self._keys[key.id] = (_charge(key.id, rpm), Bucket())
        charge, bucket = known
        bucket.fold(charge, now_ms)
        if bucket.excess(charge, 1) > 0:
            text = f"Rate limit reached on requests per minute (RPM): limit {rpm}, asked many times as often"
            raise RateLimited(text, dimension="requests", retry_after_ms=bucket.wait_ms(charge, 1, now_ms))
        bucket.debt += weight(charge)


def _charge(key_id: str, rpm: int) -> Charge:
    most = TIMES * rpm
    return Charge(
        f"k:{key_id}",
        Dimension.RPM,
        Kind.RATE,
        Unit.REQUEST,
        Reach.REQUEST,
        most,
        most,
        MINUTE_MS,
        rpm,
        tenant=True,
        ends_walk=True,
    )
