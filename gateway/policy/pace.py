"""How fast a deployment answered of late: an exponentially weighted mean that fades with time. Seconds of any one clock. Pure.

An answer is told with what it brought: a stream's first content is one unit, a whole answer has one for each token. The mean is
the seconds of all answers by the units of all, so that a short answer tells as little as there is of it, and how long prompts are
weighs alike on whoever gets them.
"""

import msgspec

NEWEST = 0.25
"""The share of the newest answer in the mean. The last seven or so make it, which even out what answers differ by anyway."""

FADES_S = 300.0
"""The time in which a figure counts half that nothing is added to: what was ten times slower is looked at again in 17 minutes."""

FAULT = 4.0
"""How many usual answers a fault counts as. One lets those go before it that take up to 1.75 times as long, two up to thrice."""

LONGEST_S = 30.0
"""What a fault counts as at least where no answer came yet: how long a first content is waited for, where no file says more."""

MOST_S = 900.0
"""The most that a fault counts as, however many came before it: the longest that an answer may take."""


class Pace(msgspec.Struct, frozen=True, gc=False):
    """What the latest answers took: seconds, units and a count, of older ones the less. `latest_s` is a unit's, of the latest."""

    sum_s: float
    units: float
    answers: float
    latest_s: float
    told_s: float
    """When the latest was told."""

    @property
    def seconds(self) -> float:
        """Return what a unit takes: the mean, or what the latest took where that is less.

        So one answer is enough to learn that a slow deployment has become fast, and a few that a fast one has become slow.
        """
        return min(self.sum_s / self.units, self.latest_s)

    def faded(self, now_s: float) -> float:
        """Return the same, the less the longer nothing was told."""
        return self.seconds * _kept(self, now_s)


def after_answer(pace: Pace | None, seconds: float, units: float, now_s: float) -> Pace:
    """Return the pace with one answer more, that took so long and brought so much."""
    if pace is None:
        return Pace(seconds, units, 1.0, seconds / units, now_s)
    kept = (1 - NEWEST) * _kept(pace, now_s)
    return Pace(kept * pace.sum_s + seconds, kept * pace.units + units, kept * pace.answers + 1, seconds / units, now_s)


def after_fault(pace: Pace | None, seconds: float, now_s: float) -> Pace:
    """Return the pace with one fault more, that came after so long."""
    if pace is None:
        return after_answer(None, max(seconds, LONGEST_S), 1.0, now_s)
    usual_s = pace.sum_s / pace.answers
    return after_answer(pace, max(seconds, min(FAULT * usual_s, MOST_S)), pace.units / pace.answers, now_s)


def after_departure(pace: Pace | None, seconds: float, now_s: float) -> Pace:
    """Return the pace after a request that left so long after it came, without an answer.

    It tells something only where others had theirs by then; and where there were no others, that it was not worth the wait.
    """
    if pace is None:
        return after_fault(None, seconds, now_s)
    if seconds * pace.answers <= pace.sum_s:
        return pace
    return after_answer(pace, seconds, pace.units / pace.answers, now_s)


def _kept(pace: Pace, now_s: float) -> float:
    return float(0.5 ** (max(0.0, now_s - pace.told_s) / FADES_S))
