"""A child's tie to its parent: the first line of stdin says what to do, and the end of stdin says that the parent is gone.

The pipe works on every system, however the parent ends, and tells it apart from an order to leave. A program that does not read
its stdin has the kernel's parent death signal instead, where there is one. Times are seconds.
"""

import ctypes
import os
import signal
import sys
import threading
import time
from collections.abc import Callable

PR_SET_PDEATHSIG = 1
ORPHAN_GRACE_S = 3.0
"""How long an orphan may take to leave by itself. Nothing of a killed gateway may be alive after five seconds."""
EXIT_ORPHANED = 70


def die_with(parent_pid: int) -> None:
    """Have the kernel send SIGTERM when the parent ends.

    Raises SystemExit when the parent has ended already: the signal is armed too late to tell of it.
    """
    if sys.platform == "linux":
        libc = ctypes.CDLL(None, use_errno=True)
        if libc.prctl(PR_SET_PDEATHSIG, signal.SIGTERM) != 0:
            raise OSError(ctypes.get_errno(), "prctl(PR_SET_PDEATHSIG)")
    if os.getppid() != parent_pid:
        raise SystemExit(EXIT_ORPHANED)


class Lifeline:
    """The child's end of the pipe; `severed` once the parent is gone."""

    def __init__(self, fd: int = 0, *, grace_s: float = ORPHAN_GRACE_S) -> None:
        self.severed = False
        self._fd = fd
        self._grace_s = grace_s

    def assignment(self) -> bytes:
        """Return the line that the parent sends first; empty when it is gone."""
        with open(self._fd, "rb", closefd=False) as pipe:
            return pipe.readline()

    def watch(self, orphaned: Callable[[], None]) -> None:
        """Call `orphaned` from a thread once the parent is gone, and end the process if it is still there after the grace.

        A thread, because an event loop that hangs must not keep an orphan alive.
        """
        threading.Thread(target=self._watch, args=(orphaned,), name="lifeline", daemon=True).start()

    def _watch(self, orphaned: Callable[[], None]) -> None:
        while os.read(self._fd, 4096):
            pass
        self.severed = True
        orphaned()
        time.sleep(self._grace_s)
        os._exit(EXIT_ORPHANED)
