"""A channel of the store, listened to for as long as its task lives. What is published while nobody listens is lost."""

import asyncio
from collections.abc import Callable

from redis.asyncio import Redis
from redis.exceptions import RedisError

LISTEN_S = 1.0
PAUSE_S = 0.5
"""How long to leave a store alone that cannot be listened to."""


async def listen(redis: Redis, channel: str, told: Callable[[bytes], None]) -> None:
    """Tell each message, until the task is cancelled. Where the store is away, it is listened to again when it is back."""
    this = asyncio.current_task()
    # Asked again at each turn: Python 3.11's wait_for, which the Redis client uses, can swallow a cancellation.
    while this is None or not this.cancelling():
        try:
            async with redis.pubsub(ignore_subscribe_messages=True) as heard:
                await heard.subscribe(channel)
                while this is None or not this.cancelling():
                    message = await heard.get_message(timeout=LISTEN_S)
                    if message is not None:
                        told(message["data"])
        except (RedisError, OSError):
            await asyncio.sleep(PAUSE_S)
