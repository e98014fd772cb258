"""What requests teach: how many tokens a byte of the prompts to a model has, and how long an org's answers from it are.

In plain Python what learning.lua does. A ratio is an exponentially weighted mean in millionths. Lengths are counted in buckets,
each an eighth wider than the one before, and all counts are halved when there are many: what is recent weighs most, and all stays
in whole numbers. The 95th percentile is read as its bucket's upper bound. An org's lengths are its own. What nobody has added to
for more than a week is forgotten. Unix milliseconds. Pure.
"""

from bisect import bisect_left
from itertools import accumulate, repeat

import msgspec

from gateway.policy.admission import Lesson
from gateway.policy.answers import Learned
from gateway.policy.periods import DAY_MS
from gateway.wire.prompts import USUAL_RATIO_PPM

SMOOTHING = 16
"""The part of its difference by which a prompt moves the ratio: about as many prompts are remembered."""

BUCKETS, FIRST_BOUND, GROWTH = 37, 128, 8

BOUNDS = tuple(accumulate(repeat(GROWTH, BUCKETS - 1), lambda bound, growth: bound + bound // growth, initial=FIRST_BOUND))
"""The longest answer that each bucket counts, up to 8,679 tokens; the last one counts longer ones too: no hold is for more."""

MOST_SAMPLES = 256
"""When counts are halved."""

KEPT_DAYS = 7


class Ratio(msgspec.Struct, gc=False):
    """Tokens a byte in millionths, and the day of the last lesson."""

    day: int
    ppm: int


class Lengths(msgspec.Struct):
    """How many recent answers fell into each bucket, and the day of the last one."""

    day: int
    counts: list[int]

    def add(self, output_tokens: int) -> None:
        """Count one answer."""
        self.counts[min(bisect_left(BOUNDS, output_tokens), BUCKETS - 1)] += 1
        if sum(self.counts) >= MOST_SAMPLES:
            self.counts = [count // 2 for count in self.counts]

    def p95_tokens(self) -> int:
        """Return a bound that 19 of 20 answers keep, 0 where there were none."""
        samples, seen = sum(self.counts), 0
        for bound, count in zip(BOUNDS, self.counts, strict=True):
            seen += count
            if samples and 20 * seen >= 19 * samples:
                return bound
        return 0


class Learning:
    """All that one store has learned: ratios by model, lengths by org and model."""

    def __init__(self) -> None:
        self.ratios: dict[str, Ratio] = {}
        self.lengths: dict[tuple[str, str], Lengths] = {}

    def hear(self, lesson: Lesson | None, now_ms: int) -> Learned | None:
        """Take a lesson in where there is one."""
        return None if lesson is None else self.learn(lesson, now_ms)

    def learn(self, lesson: Lesson, now_ms: int) -> Learned:
        """Take a lesson in, and return all that is known for its org and model."""
        today = now_ms // DAY_MS
        ratio = self.ratios.get(lesson.model)
        if ratio is None or today - ratio.day > KEPT_DAYS:
            ratio = self.ratios[lesson.model] = Ratio(today, USUAL_RATIO_PPM)
        ratio.day = today
        if lesson.ratio_ppm:
            ratio.ppm += (lesson.ratio_ppm - ratio.ppm) // SMOOTHING
        lengths = self.lengths.get((lesson.org, lesson.model))
        if lengths is None or today - lengths.day > KEPT_DAYS:
            lengths = Lengths(today, [0] * BUCKETS)
        if lesson.output_tokens:
            lengths.day = today
            lengths.add(lesson.output_tokens)
            self.lengths[lesson.org, lesson.model] = lengths
        return Learned(ratio.ppm, lengths.p95_tokens(), sum(lengths.counts))
