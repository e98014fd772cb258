"""One of many: a lease in Valkey that at most one candidate holds at a time.

The lease ends by itself when its holder stops renewing it. Work that must not happen twice needs more than this: a holder that
was suspended may believe in its lease a moment too long. Durations are seconds.
"""

import time
from secrets import token_hex

from redis.asyncio import Redis

_HOLD = """
local holder = redis.call('GET', KEYS[1])
if holder and holder ~= ARGV[1] then return 0 end
redis.call('SET', KEYS[1], ARGV[1], 'PX', ARGV[2])
return 1
"""
_RESIGN = "if redis.call('GET', KEYS[1]) == ARGV[1] then return redis.call('DEL', KEYS[1]) end return 0"


class Election:
    """One candidate. `name` is for people who look at the lease; what sets candidates apart is made here."""

    def __init__(self, redis: Redis, key: str, name: str, ttl_s: float) -> None:
        self._redis = redis
        self._key = key
        self._name = f"{name}:{token_hex(8)}".encode()
        self._ttl_s = ttl_s
        self._elected = False
        self._ask_at_s = 0.0

    @property
    def elected(self) -> bool:
        """Say what the last `hold` found."""
        return self._elected

    async def hold(self) -> bool:
        """Renew the lease, or try to get it, at most five times within its life. Return whether it is ours.

        Raises RedisError; the lease then counts as lost.
        """
        now_s = time.monotonic()
        if now_s < self._ask_at_s:
            return self._elected
        self._elected = False
        self._elected = bool(await self._redis.eval(_HOLD, 1, self._key, self._name, int(self._ttl_s * 1000)))
        self._ask_at_s = now_s + self._ttl_s / 5
        return self._elected

    async def resign(self) -> None:
        """Give the lease up, so that the next candidate need not wait for its end.

        Raises RedisError; the lease then ends by itself.
        """
        if self._elected:
            self._elected = False
            self._ask_at_s = 0.0
            await self._redis.eval(_RESIGN, 1, self._key, self._name)
