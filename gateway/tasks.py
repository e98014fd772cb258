"""Background work with an owner: every task is referenced until it ends, and none is forgotten at shutdown."""

import asyncio
from collections.abc import Coroutine
from typing import Any


class Owned:
    """A set of running tasks. asyncio itself keeps only weak references, so an unowned task may vanish in mid-flight."""

    def __init__(self) -> None:
        self._tasks: set[asyncio.Task[Any]] = set()

    def __len__(self) -> int:
        return len(self._tasks)

    def spawn(self, work: Coroutine[Any, Any, Any], *, name: str) -> asyncio.Task[Any]:
        """Start `work` and keep it until it ends."""
        task = asyncio.get_running_loop().create_task(work, name=name)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    def detach(self, work: Coroutine[Any, Any, Any], *, name: str) -> None:
        """Start `work` whose result nobody waits for."""
        _ = self.spawn(work, name=name)

    async def wait(self) -> None:
        """Wait until nothing runs."""
        while self._tasks:
            await asyncio.wait(self._tasks)

    async def drain(self, timeout_s: float) -> bool:
        """Wait for what runs, then cancel the rest. Return whether everything ended by itself."""
        if not self._tasks:
            return True
        _, late = await asyncio.wait(self._tasks, timeout=timeout_s)
        for task in late:
            task.cancel()
        if late:
            await asyncio.wait(late)
        return not late
