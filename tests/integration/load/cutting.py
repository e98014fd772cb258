"""Cuts a request short at a chosen wait, in one of the two ways that a cancellation meets one."""

from asyncio import Future, Task, isfuture
from collections.abc import Callable, Coroutine, Generator
from enum import Enum
from types import TracebackType
from typing import Any


class Moment(Enum):
    """When at its wait a task is cut: while it waits, or when it has its answer and has not been told."""

    WAITING = "waiting"
    ANSWERED = "answered"


class CutAt(Coroutine[Any, Any, None]):
    """A coroutine that is let run to its `at`-th wait (from 1), where `cut` is called; it counts its waits in `waits`."""

    def __init__(self, work: Coroutine[Any, Any, None], at: int, moment: Moment, cut: Callable[[], object]) -> None:
        self.waits = 0
        self._work = work
        self._at = at
        self._moment = moment
        self._cut = cut

    def send(self, value: Any) -> Any:
        return self._noted(self._work.send(value))

    def throw(self, kind: type[BaseException] | BaseException, value: Any = None, trace: TracebackType | None = None, /) -> Any:
        error = kind if isinstance(kind, BaseException) else (value if isinstance(value, BaseException) else kind())
        return self._noted(self._work.throw(error))

    def close(self) -> None:
        self._work.close()

    def __await__(self) -> Generator[Any, Any, None]:
        return self._work.__await__()

    def _noted(self, awaited: Any) -> Any:
        self.waits += 1
        if self.waits == self._at:
            if isfuture(awaited) and self._moment is Moment.ANSWERED:
                # Called before the task's own wake-up, which is added when this returns.
                awaited.add_done_callback(self._cut_now)
            else:
                self._cut()
        return awaited

    def _cut_now(self, _: "Future[Any] | Task[Any]") -> None:
        self._cut()
