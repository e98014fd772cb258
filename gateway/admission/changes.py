"""Changes of keys, told to all workers: counted in the store, where every grant and every tick shows the count, and published.

Who misses the message sees that the count has moved, and asks anew for every key; who hears it need only do so for the one.
"""

from collections.abc import Callable, Sequence

import msgspec
from redis.asyncio import Redis
from redis.exceptions import RedisError

from gateway.admission.client import changes_channel, epoch_key
from gateway.admission.listening import listen

ALL_KEYS = ""
"""In the place of a key's id: what changed may be any key's business, as with an org or a plan."""


class Change(msgspec.Struct, frozen=True, array_like=True):
    """One change: whose it is, its number, and whether what is under way for the key is to end too."""

    key_id: str
    epoch: int
    cuts: bool = False


class Herald:
    """Tells workers of changes; `prefix` is a cell's."""

    def __init__(self, redis: Redis, prefix: str) -> None:
        self._redis = redis
        self._prefix = prefix

    async def tell(self, key_ids: Sequence[str], *, cuts: bool = False) -> bool:
        """Tell that these keys were changed, once that is in the database; `cuts` ends what is under way for them.

        Return whether the store could be told: else workers see it when what they know of a key is too old to go by.
        """
        try:
            for key_id in key_ids:
                change = Change(key_id, await self._redis.incr(epoch_key(self._prefix)), cuts)
                await self._redis.publish(changes_channel(self._prefix), encode(change))
        except (RedisError, OSError):
            return False
        return True


async def heed(redis: Redis, prefix: str, heard: Callable[[Change], None]) -> None:
    """Hand each change on that is heard of, until the task is cancelled."""
    await listen(redis, changes_channel(prefix), lambda message: heard(decode(message)))


encode = msgspec.msgpack.Encoder().encode
decode = msgspec.msgpack.Decoder(Change).decode
