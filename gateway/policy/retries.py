"""How much work one worker may repeat for one model: a share of its requests, so that retries never multiply an outage.

Counted by seconds of the clock, over the ten up to the one under way: what was repeated in them is never more than the share of
what was asked in the same ten, or thirty. Ten seconds that begin within one touch eleven, and may hold what the eleventh adds.
Seconds of any one clock; one that goes back stands still until it has caught up. Pure.
"""

from math import floor

from gateway.faults import EndClass, Failed, Fault

WINDOW_S = 10
LEAST = 3 * WINDOW_S
"""What may be repeated in a window at any rate, three a second: a share of little traffic would be nothing."""

NO_WORK_DONE = frozenset({Fault.CONNECT, Fault.TLS, Fault.CREDENTIAL, Fault.BILLING, Fault.STALE_MODEL})


def repeats_work(failed: Failed) -> bool:
    """Tell whether another attempt after this one may be work done twice.

    Not after one that never reached the provider's model, nor after a refusal of our account or for want of capacity, which cost
    nobody much.
    """
    return failed.sent and failed.fault.end_class is EndClass.UNAVAILABLE and failed.fault not in NO_WORK_DONE


class _Window:
    """The ten seconds up to one: each in the place of its number modulo ten."""

    def __init__(self, second: int) -> None:
        self.second = second
        self.requests = [0] * WINDOW_S
        self.repeats = [0] * WINDOW_S

    def move_to(self, second: int) -> None:
        for fresh in range(max(self.second, second - WINDOW_S) + 1, second + 1):
            self.requests[fresh % WINDOW_S] = self.repeats[fresh % WINDOW_S] = 0
        self.second = second


class RetryBudget:
    """What was asked for and what was repeated lately, by pool: the name of a model. `ratio` 1 or more is no bound."""

    def __init__(self, ratio: float) -> None:
        self.ratio = ratio
        self._pools: dict[str, _Window] = {}

    def request(self, pool: str, now_s: float) -> None:
        """Count one request, repeated work aside."""
        window = self._window(pool, now_s)
        window.requests[window.second % WINDOW_S] += 1

    def allows(self, pool: str, now_s: float) -> bool:
        """Tell whether work may be repeated once, and count it if so."""
        if self.ratio >= 1:
            return True
        window = self._window(pool, now_s)
        if sum(window.repeats) >= max(LEAST, floor(self.ratio * sum(window.requests))):
            return False
        window.repeats[window.second % WINDOW_S] += 1
        return True

    def _window(self, pool: str, now_s: float) -> _Window:
        second = floor(now_s)
        window = self._pools.get(pool)
        if window is None:
            window = self._pools[pool] = _Window(second)
        if second > window.second:
            window.move_to(second)
        return window
