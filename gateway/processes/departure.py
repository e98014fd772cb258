"""When a process leaves: its first signal lets what is under way end; where it insists, one more ends it at once."""

import asyncio
import signal
from collections.abc import Coroutine
from typing import Any

from gateway.tasks import Owned


class Departure:
    """The signals of one process and the life that they end.

    A supervisor is `insistent`: whoever signals it twice means now. A worker is not: a signal and the end of its supervisor say
    the same thing, and whoever means now kills it.
    """

    def __init__(self, *, insistent: bool) -> None:
        self.asked = asyncio.Event()
        self._insistent = insistent
        self._patient = False
        self._signal: int | None = None
        self._life: asyncio.Task[int] | None = None

    async def watch(self, life: Coroutine[Any, Any, int]) -> int:
        """Run a life to its end. Return its exit code, or 128 and the signal's number where a signal cut it short."""
        loop = asyncio.get_running_loop()
        for number in (signal.SIGINT, signal.SIGTERM):
            loop.add_signal_handler(number, self.ask, number)
        self._life = Owned().spawn(life, name="life")
        await asyncio.wait({self._life})
        if self._life.cancelled() and self._signal is not None:
            return 128 + self._signal
        return self._life.result()

    def be_patient(self) -> None:
        """From now on something is being served: the first signal starts a drain. Before that, it ends the process."""
        self._patient = True

    def ask(self, number: int = signal.SIGTERM) -> None:
        """Take note of a signal."""
        self._signal = number
        if self._patient and not self.asked.is_set():
            self.asked.set()
        elif self._life is not None and (self._insistent or not self._patient):
            self._life.cancel()
