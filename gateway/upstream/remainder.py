"""What is left of an answer whose client has gone: read on for nobody, so that the provider tells what it all came to.

The request has ended by then. Who reads on is a task of its own, bounded in number and in time. Seconds.
"""

import asyncio
import contextlib
from collections.abc import Coroutine
from typing import Any

from gateway.faults import Failed
from gateway.tasks import Owned
from gateway.upstream.attempt import Flowing
from gateway.upstream.transport import TransportError

AT_ONCE = 32
"""How many answers a worker reads on for nobody; beyond it providers are cancelled, as those are that bill by what was read."""

LONGEST_S = 10.0
"""How long one is read on. What takes longer costs the provider enough to be cancelled."""


class Remainders:
    """The answers that one worker reads on, until `stop`."""

    def __init__(self, *, at_once: int = AT_ONCE, longest_s: float = LONGEST_S) -> None:
        self._reading = Owned()
        self._stopped = False
        self._at_once = at_once
        self._longest_s = longest_s

    def __len__(self) -> int:
        return len(self._reading)

    @property
    def full(self) -> bool:
        """Return whether no more may be read on."""
        return self._stopped or len(self._reading) >= self._at_once

    def read(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        """Return the task that does this work, for as long as may be."""
        return self._reading.spawn(self._bounded(work), name="remainder")

    async def ended(self) -> None:
        """Wait until nothing is read on."""
        await self._reading.wait()

    async def stop(self) -> None:
        """End what is read on now, and begin nothing more."""
        self._stopped = True
        await self._reading.drain(0)

    async def _bounded(self, work: Coroutine[Any, Any, None]) -> None:
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(self._longest_s):
                await work


async def read_on(flow: Flowing) -> Failed | None:
    """Read a stream to its end from where it is. Return what broke it, if anything did."""
    reader, ended = flow.reader, False
    while not (ended or reader.done):
        try:
            piece = await flow.reply.next()
        except TransportError as broken:
            return Failed(fault=broken.fault)
        ended = not piece
        step = reader.feed(piece) if piece else reader.end()
        if step.failed is not None:
            return step.failed
    return None
