"""The usual way to a store, to measure ours against: redis-py, with the script calls of one loop turn in one pipeline."""

import asyncio
from collections.abc import Sequence
from typing import Any

from redis.asyncio import Redis

from gateway.admission.client import Admission
from gateway.admission.connection import Argument, Connection, Reply
from gateway.admission.scripts import Script
from gateway.tasks import Owned

Call = tuple[tuple[Argument, ...], asyncio.Future[Reply]]


class Batch:
    """Gathers commands for the rest of the loop's turn, then sends them together."""

    def __init__(self, redis: Redis, owned: Owned) -> None:
        self._redis = redis
        self._owned = owned
        self._calls: list[Call] = []

    def call(self, *command: Argument) -> asyncio.Future[Reply]:
        """Send a command soon."""
        loop = asyncio.get_running_loop()
        if not self._calls:
            loop.call_soon(self._flush)
        call = loop.create_future()
        self._calls.append((command, call))
        return call

    def _flush(self) -> None:
        calls, self._calls = self._calls, []
        self._owned.detach(self._send(calls), name="batch")

    async def _send(self, calls: list[Call]) -> None:
        pipeline: Any = self._redis.pipeline(transaction=False)
        for command, _ in calls:
            pipeline.execute_command(*command)
        for (_, call), reply in zip(calls, await pipeline.execute(), strict=True):
            call.set_result(reply)


class BatchedAdmission(Admission):
    """The same scripts, called through a batch. The connection has loaded them."""

    def __init__(self, connection: Connection, batch: Batch) -> None:
        super().__init__(connection)
        self._batch = batch

    async def _run(self, script: Script, keys: Sequence[str], arguments: Sequence[Argument]) -> Reply:
        return await self._batch.call("EVALSHA", script.digest, len(keys), *keys, b"", *arguments)
