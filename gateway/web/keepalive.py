"""Comments in the silences of a stream, for what stands between gateway and client and cuts quiet connections. Seconds.

A comment says nothing of the answer: it is no progress and commits to no content.
"""

import asyncio
from collections.abc import Awaitable, Callable

from gateway.tasks import Owned

COMMENT = b": keep-alive\n\n"


class KeepAlive:
    """Calls `say` after each silence of `every_s`, between `begin` and `end`."""

    def __init__(self, every_s: float, say: Callable[[], Awaitable[None]], tasks: Owned) -> None:
        self._every_s = every_s
        self._say = say
        self._tasks = tasks
        self._clock = asyncio.get_running_loop().time
        self._spoke_s = self._clock()
        self._task: asyncio.Task[None] | None = None

    def begin(self) -> None:
        """Begin to listen for silence."""
        self.note()
        self._task = self._tasks.spawn(self._fill(), name="keep-alive")

    def note(self) -> None:
        """Take note that something was said."""
        self._spoke_s = self._clock()

    def end(self) -> None:
        """Say nothing more, from this moment on: what waits for room to be said is not said."""
        task, self._task = self._task, None
        if task is not None:
            task.cancel()

    async def _fill(self) -> None:
        while True:
            rest_s = self._spoke_s + self._every_s - self._clock()
            if rest_s > 0:
                await asyncio.sleep(rest_s)
            else:
                await self._say()
                self.note()
