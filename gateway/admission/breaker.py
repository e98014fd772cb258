"""When the store is left alone: it has not answered several calls in a row, or has answered many with errors.

Left alone, a store costs its callers nothing; somebody must still ask it now and then, and say when it does its work again.
Seconds of any steady clock. Pure.
"""

from collections import deque

UNANSWERED = 3
"""So many calls in a row that were not answered in time, or could not be made."""

ERRORS = 5
ERRORS_S = 1.0
"""So many errors within so long, whatever else was answered between them."""


class StoreBreaker:
    """Closed while the store does its work, open while it is left alone."""

    def __init__(self) -> None:
        self.is_open = False
        self._unanswered = 0
        self._errors: deque[float] = deque(maxlen=ERRORS)

    def answered(self) -> None:
        """Take note of an answer. It does not close the breaker: it may be to a question of before."""
        self._unanswered = 0

    def close(self) -> bool:
        """Leave the store alone no more. Return whether it was."""
        closed, self.is_open, self._unanswered = self.is_open, False, 0
        if closed:
            self._errors.clear()
        return closed

    def failed(self, now_s: float, *, with_error: bool) -> bool:
        """Take note of a call that failed, with an error or without an answer. Return whether it opened the breaker."""
        if with_error:
            self._errors.append(now_s)
        else:
            self._unanswered += 1
        many = len(self._errors) == ERRORS and now_s - self._errors[0] <= ERRORS_S
        opened = not self.is_open and (many or self._unanswered >= UNANSWERED)
        self.is_open = self.is_open or opened
        return opened
