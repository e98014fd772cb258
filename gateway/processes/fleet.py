"""The workers: so many, all on one listening socket, each restarted when it ends, all on the newest configuration."""

import asyncio
from asyncio.subprocess import Process
from collections.abc import Awaitable, Callable, Sequence
from functools import partial

from msgspec.structs import replace

from gateway.config import Edition, encode_edition
from gateway.embedded.child import Child, spawn_python
from gateway.processes.assignment import Assignment, encode

SETTLE_S = 15.0
"""What a worker may take beyond its drain to settle and flush before it is killed."""

Tell = Callable[[str, bytes], Awaitable[str | None]]
"""Tells the worker at a socket of a reading of the configuration. Returns why it did not take it, None where it did."""


class Fleet:
    """The workers of one gateway."""

    def __init__(self, module: str, assignments: Sequence[Assignment]) -> None:
        self._module = module
        self._assignments = {place.name: place for place in assignments}
        self._workers = [Child(name, partial(self._spawn, name)) for name in self._assignments]

    def control_sockets(self) -> list[str]:
        """Return where the workers answer the supervisor."""
        return [str(place.control_path) for place in self._assignments.values()]

    def begin_with(self, edition: Edition) -> None:
        """Have workers that are started from now on begin with another reading of the configuration."""
        self._assignments = {name: replace(place, edition=edition) for name, place in self._assignments.items()}

    async def tell(self, edition: Edition, tell: Tell) -> dict[str, str]:
        """Tell every worker of a reading of the configuration. Return why not, by the names of those that did not take it."""
        told = encode_edition(edition)
        answers = await asyncio.gather(*(tell(socket, told) for socket in self.control_sockets()))
        return {name: reason for name, reason in zip(self._assignments, answers, strict=True) if reason is not None}

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

    async def _spawn(self, name: str) -> Process:
        place = self._assignments[name]
        return await spawn_python(self._module, encode(place), fds=[place.api_fd])
