"""The workers: so many, all on one listening socket, each restarted when it ends."""

import asyncio
from asyncio.subprocess import Process
from collections.abc import Sequence
from functools import partial

from gateway.embedded.child import Child, spawn_python
from gateway.processes.assignment import Assignment, encode

SETTLE_S = 15.0
"""What a worker may take beyond its drain to settle and flush before it is killed."""


class Fleet:
    """The workers of one gateway."""

    def __init__(self, module: str, assignments: Sequence[Assignment]) -> None:
        self._assignments = assignments
        self._workers = [Child(place.name, partial(self._spawn, module, place)) for place in assignments]

    def control_sockets(self) -> list[str]:
        """Return where the workers answer the supervisor."""
        return [str(place.control_path) for place in self._assignments]

    async def start(self) -> None:
        """Start every worker."""
        for worker in self._workers:
            await worker.start()

    async def drain(self, drain_s: float) -> bool:
        """Let every worker finish what it has under way. Return whether all of them did."""
        return all(await asyncio.gather(*(worker.stop(drain_s + SETTLE_S) for worker in self._workers)))

    async def kill(self) -> None:
        """End every worker at once."""
        await asyncio.gather(*(worker.kill() for worker in self._workers))

    @staticmethod
    async def _spawn(module: str, place: Assignment) -> Process:
        return await spawn_python(module, encode(place), fds=[place.api_fd])
