"""What may cut a request short: its client leaving, a timer, the end of a drain or of its key.

A cut is a cancellation with a reason. Whoever awaits on the request's task sees `CancelledError`, and `Watch.cut` says why. One
coarse sweep looks at every open request: a timer of its own for every await would cost more than the await. Seconds of the
monotonic clock.
"""

import asyncio
from collections.abc import Callable
from enum import StrEnum

NEVER = float("inf")


class Cut(StrEnum):
    """Why a request was cut short."""

    DEPARTED = "departed"
    DEADLINE = "deadline"
    QUEUE = "queue"
    FIRST_CONTENT = "first_content"
    IDLE = "idle"
    TOTAL = "total"
    CLIENT_STALL = "client_stall"
    DRAIN = "drain"
    REVOKED = "revoked"


FINAL = frozenset({Cut.DEPARTED, Cut.DRAIN, Cut.REVOKED})
"""Cuts that come once, from outside, and hold for the whole request; timers are armed anew."""


class Watch:
    """The interruptions of one request: its task, the nearest timer, and why it was cut if it was.

    A task is cancelled once only. A cut that leads to another attempt is taken back with `resume`, so that the next one can be
    cut. An end from outside that comes between a timer and its answer takes the timer's place: it is never taken back.
    """

    __slots__ = ("_task", "cut", "due_cut", "due_s", "key_id")

    def __init__(self, task: asyncio.Task[object]) -> None:
        self._task = task
        self.cut: Cut | None = None
        self.due_s = NEVER
        self.due_cut = Cut.DEADLINE
        self.key_id: str | None = None
        """Whose request it is, once that is known."""

    def arm(self, first: tuple[Cut, float], *others: tuple[Cut, float]) -> None:
        """Set the timers that count from now on; the earliest one is kept."""
        self.due_cut, self.due_s = first
        for cut, due_s in others:
            if due_s < self.due_s:
                self.due_cut, self.due_s = cut, due_s

    def cancel(self, cut: Cut) -> None:
        """Cut the request short, unless it was before; a final cut replaces a timer's, since nothing would repeat it."""
        if self.cut is None:
            self.cut = cut
            self._task.cancel()
        elif cut in FINAL and self.cut not in FINAL:
            self.cut = cut

    def resume(self) -> None:
        """Take back a cut that the request has answered itself."""
        self.cut = None
        self.due_s = NEVER
        self._task.uncancel()


class Sweep:
    """Looks over all open requests every `PERIOD_S` and cuts those whose timer is due."""

    PERIOD_S = 0.1
    """How late a timer may be: nothing to a model, and a look over a thousand open streams takes a tenth of a millisecond."""

    def __init__(self, now: Callable[[], float]) -> None:
        self._now = now
        self._watches: set[Watch] = set()
        self._timer: asyncio.TimerHandle | None = None
        self.empty = asyncio.Event()
        """Set while no request is open."""
        self.empty.set()

    def __len__(self) -> int:
        return len(self._watches)

    def open(self) -> Watch:
        """Return the watch of the running task; it counts as open until `close`."""
        task = asyncio.current_task()
        if task is None:
            raise RuntimeError("a request is watched from inside its own task")
        watch = Watch(task)
        self._watches.add(watch)
        self.empty.clear()
        return watch

    def close(self, watch: Watch) -> None:
        """Forget a request that has ended."""
        self._watches.discard(watch)
        if not self._watches:
            self.empty.set()

    def standing(self) -> frozenset[Watch]:
        """Return the requests that are open now, to be asked about later."""
        return frozenset(self._watches)

    def outlast(self, watches: frozenset[Watch]) -> bool:
        """Return whether any of these is still open."""
        return not self._watches.isdisjoint(watches)

    def look(self) -> None:
        """Cut what is due."""
        now_s = self._now()
        for watch in [watch for watch in self._watches if watch.due_s <= now_s]:
            watch.cancel(watch.due_cut)

    def cut_all(self, cut: Cut) -> None:
        """Cut every open request."""
        for watch in list(self._watches):
            watch.cancel(cut)

    def cut_key(self, key_id: str, cut: Cut) -> None:
        """Cut every open request of a key."""
        for watch in [watch for watch in self._watches if watch.key_id == key_id]:
            watch.cancel(cut)

    def cut_waiting(self, cut: Cut) -> None:
        """Cut every request that waits for its turn: its timer is then the queue's."""
        for watch in [watch for watch in self._watches if watch.due_cut is Cut.QUEUE]:
            watch.cancel(cut)

    def start(self) -> None:
        """Begin to look, on the running loop."""
        self._timer = asyncio.get_running_loop().call_later(self.PERIOD_S, self._turn)

    def stop(self) -> None:
        """Look no more."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _turn(self) -> None:
        self.look()
        self.start()
