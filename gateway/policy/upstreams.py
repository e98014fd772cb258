"""How upstreams are doing, and which of them may be asked now: cooldown, adaptive ceiling, breaker, and the operator's own word.

Cooldown: who had no room is left alone for as long as it asked, the longest wait of all that it asked for. Ceiling: congestion
takes three tenths of it, at most once in two seconds; each success while half of it is in use gives one part of it back, until
the declared one is reached again. Breaker: faults in a row, or too large a part of a window, open it for longer each time; then
one request at a time probes, and two good ones close it. Admission, 18, 21 to 23; resilience, B.4 and C. Unix milliseconds.
Pure.
"""

from collections.abc import Mapping

import msgspec

from gateway.faults import Failed, Fault
from gateway.policy.admission import Ending, Order, Row, Sign, Upstream, Word
from gateway.policy.answers import Cause
from gateway.policy.breaker import Breaker
from gateway.policy.charges import Charge, Reach, Unit

MILLI = 1_000
"""A ceiling is kept in thousandths of a slot: what a success gives back is a part of one."""

MILLION = 1_000_000

CUT_PAUSE_MS = 2_000
"""One congestion is one cut, however many requests it met."""

KEPT_PER_TEN = 7
"""What is left of a ceiling after a cut."""

COOLDOWN_MS = 1_000
"""How long who had no room is left alone where it did not say."""

FEWEST_ENDED = 20
"""A ratio of fewer says nothing."""

PROBES = 2
"""Good ones in a row that close a breaker."""

PROBE_MS = 30_000
"""How long a probe is waited for: a prober that died must not keep others from probing."""

MOST_DOUBLINGS = 20

CONGESTED = frozenset({Sign.BUSY, Sign.RATE, Sign.SLOW})
FAULTY = frozenset({Sign.SLOW, Sign.FAULT, Sign.DENIED})


SIGNS: Mapping[Fault, Sign] = {
    Fault.BUSY: Sign.BUSY,
    Fault.ACCOUNT_RATE: Sign.RATE,
    Fault.TIMEOUT: Sign.SLOW,
    Fault.CREDENTIAL: Sign.DENIED,
    Fault.BILLING: Sign.DENIED,
    Fault.STALE_MODEL: Sign.DENIED,
    Fault.REJECTED: Sign.NOTHING,
}
"""What attempts say of their upstream that failed otherwise than by a plain fault."""

SIGNS_OF_ONE: Mapping[Fault, Sign] = {
    **SIGNS,
    Fault.ACCOUNT_RATE: Sign.ONE_RATE,
    Fault.CREDENTIAL: Sign.ONE_DENIED,
    Fault.BILLING: Sign.ONE_DENIED,
}
"""The same of attempts with one of several credentials."""


class Bar(msgspec.Struct, frozen=True):
    """Why an upstream is not to be asked, and for how long as far as is known."""

    cause: Cause
    wait_ms: int | None


class Condition(msgspec.Struct):
    """How one deployment is doing. All zeros is well."""

    slots_milli: int = 0
    """The adaptive ceiling, 0 where what is declared holds."""
    cut_ms: int = 0
    cooled_until_ms: int = 0
    failures: int = 0
    """In a row."""
    window_ms: int = 0
    """When the counting of `ended` and `failed` began, with a failure; 0 while nothing is counted."""
    ended: int = 0
    failed: int = 0
    open_until_ms: int = 0
    """Until when the breaker is open; half-open after that, closed at 0."""
    openings: int = 0
    """Since it was last closed."""
    proven: int = 0
    probing_until_ms: int = 0
    probe: str = ""
    """The lease that probes."""
    disabled: bool = False


class Upstreams:
    """The conditions of all deployments that share one store, and until when each credential is left alone."""

    def __init__(self, breaker: Breaker) -> None:
        self.conditions: dict[str, Condition] = {}
        self.cooled_until_ms: dict[str, int] = {}
        """Below zero where it was refused: until minus that it is passed over like a deployment with an open breaker."""
        self.breaker = breaker

    def is_watched(self, upstream: Upstream) -> bool:
        """Return whether there is anything to be said of the deployment."""
        return upstream.deployment in self.conditions

    def slots(self, row: Row, charge: Charge) -> int:
        """Return how many of a charge's units may be taken: for a deployment's slots, what its ceiling leaves the row's tier."""
        condition = self.conditions.get(row.upstream.deployment)
        if condition is None or not condition.slots_milli or not is_slot_of_deployment(charge):
            return charge.capacity
        return min(charge.capacity, max(1, condition.slots_milli * row.upstream.share_ppm // (MILLI * MILLION)))

    def bar(self, row: Row, now_ms: int) -> Bar | None:
        """Return why the row's upstream may not be asked now, and when nothing of this would stand against it any more."""
        condition = self.conditions.get(row.upstream.deployment) or Condition()
        if condition.disabled:
            return Bar(Cause.DISABLED, None)
        of_credential_ms = self.cooled_until_ms.get(row.upstream.credential, 0)
        cooled_until_ms = max(condition.cooled_until_ms, of_credential_ms)
        open_until_ms = 0 if row.last else max(condition.open_until_ms, -of_credential_ms)
        until_ms = max(cooled_until_ms, open_until_ms)
        if until_ms > now_ms:
            return Bar(Cause.COOLING if cooled_until_ms > now_ms else Cause.OPEN, until_ms - now_ms)
        if condition.open_until_ms and condition.probing_until_ms > now_ms and not row.last:
            return Bar(Cause.OPEN, None)
        return None

    def ask(self, upstream: Upstream, lease_id: str, now_ms: int) -> None:
        """Take note of a request on its way: through a breaker that is half-open it is the probe."""
        condition = self.conditions.get(upstream.deployment)
        if condition is not None and 0 < condition.open_until_ms <= now_ms and condition.probing_until_ms <= now_ms:
            condition.probe, condition.probing_until_ms = lease_id, now_ms + PROBE_MS

    def note(self, upstream: Upstream, lease_id: str, ending: Ending, running: int, now_ms: int) -> None:
        """Take note of how an attempt of this lease ended, while so many were running, itself included."""
        known = self.conditions.get(upstream.deployment)
        if not upstream.deployment or (known is None and not ending.is_news):
            return
        condition = self.conditions[upstream.deployment] = known or Condition()
        probed = condition.probe == lease_id
        if probed:
            condition.probe, condition.probing_until_ms = "", 0
        if ending.sign is not Sign.NOTHING:
            self._tidy(condition, now_ms)
            self._adapt(upstream, ending, running, now_ms)
        if ending.sign is Sign.GOOD or ending.sign in FAULTY:
            self._count(condition, ending, now_ms, probed=probed)
        if condition == Condition():
            del self.conditions[upstream.deployment]

    def obey(self, order: Order) -> None:
        """Do as the operator says."""
        for upstream in order.upstreams:
            condition = self.conditions.pop(upstream.deployment, None) or Condition()
            if order.word is Word.RESET:
                condition = Condition(disabled=condition.disabled)
                self.cooled_until_ms.pop(upstream.credential, None)
            else:
                condition.disabled = order.word is Word.DISABLE
            if condition != Condition():
                self.conditions[upstream.deployment] = condition

    def _adapt(self, upstream: Upstream, ending: Ending, running: int, now_ms: int) -> None:
        """Lower or raise the ceiling, and cool down what had no room."""
        condition = self.conditions[upstream.deployment]
        if ending.exhausted_ms:
            self._cool_credential(upstream.credential, Ending(Sign.RATE, ending.exhausted_ms), now_ms)
        if ending.sign in CONGESTED:
            cut(condition, upstream.slots or running, now_ms)
        if ending.sign is Sign.BUSY:
            condition.cooled_until_ms = max(condition.cooled_until_ms, now_ms + self._cooldown_ms(ending))
        elif ending.sign in (Sign.RATE, Sign.ONE_RATE):
            self._cool_credential(upstream.credential, ending, now_ms)
        elif ending.sign is Sign.ONE_DENIED:
            longest = Ending(ending.sign, self.breaker.cooldown_max_ms, ending.dice)
            self._cool_credential(upstream.credential, longest, now_ms)
        elif ending.sign is Sign.GOOD:
            grow(condition, upstream.slots, running)

    def _tidy(self, condition: Condition, now_ms: int) -> None:
        """Forget what is over."""
        if condition.cooled_until_ms <= now_ms:
            condition.cooled_until_ms = 0
        if now_ms >= condition.window_ms + self.breaker.window_ms:
            condition.window_ms = condition.ended = condition.failed = 0

    def _cool_credential(self, credential: str, ending: Ending, now_ms: int) -> None:
        until_ms = max(abs(self.cooled_until_ms.get(credential, 0)), now_ms + self._cooldown_ms(ending))
        self.cooled_until_ms[credential] = -until_ms if ending.sign is Sign.ONE_DENIED else until_ms

    def _cooldown_ms(self, ending: Ending) -> int:
        """Return the wait that was asked for and up to a tenth more."""
        wait_ms = min(ending.hint_ms or COOLDOWN_MS, self.breaker.cooldown_max_ms)
        return wait_ms + wait_ms * ending.dice // 10_000

    def _count(self, condition: Condition, ending: Ending, now_ms: int, *, probed: bool) -> None:
        """Count what the breaker goes by. While it is open, only the probe's word counts."""
        failed = ending.sign in FAULTY
        if condition.open_until_ms:
            if probed and failed:
                self._open(condition, ending, now_ms)
            elif probed:
                condition.proven += 1
                if condition.proven >= PROBES:
                    condition.open_until_ms = condition.openings = condition.proven = 0
            return
        condition.failures = condition.failures + 1 if failed else 0
        if failed and not condition.window_ms:
            condition.window_ms = now_ms
        if condition.window_ms:
            condition.ended += 1
            condition.failed += failed
        if failed and (ending.sign is Sign.DENIED or self._is_bad(condition)):
            self._open(condition, ending, now_ms)

    def _is_bad(self, condition: Condition) -> bool:
        breaker = self.breaker
        if condition.failures >= breaker.failures:
            return True
        return condition.ended >= FEWEST_ENDED and condition.failed * MILLION >= breaker.ratio_ppm * condition.ended

    def _open(self, condition: Condition, ending: Ending, now_ms: int) -> None:
        """Open the breaker, twice as long each time, give or take a fifth."""
        rest_ms = min(self.breaker.max_open_ms, self.breaker.open_ms * 2 ** min(condition.openings, MOST_DOUBLINGS))
        condition.open_until_ms = now_ms + rest_ms * (8_000 + 4 * ending.dice) // 10_000
        condition.openings += 1
        condition.proven = condition.failures = condition.window_ms = condition.ended = condition.failed = 0


def cut(condition: Condition, slots: int, now_ms: int) -> None:
    """Lower the ceiling, from `slots` where there is none yet."""
    if now_ms >= condition.cut_ms + CUT_PAUSE_MS:
        ceiling_milli = condition.slots_milli or slots * MILLI
        condition.slots_milli = max(1, ceiling_milli * KEPT_PER_TEN // (10 * MILLI)) * MILLI
        condition.cut_ms = now_ms


def grow(condition: Condition, slots: int, running: int) -> None:
    """Raise a lowered ceiling where it is in use, until what was declared holds again."""
    if condition.slots_milli and 2 * running * MILLI >= condition.slots_milli:
        condition.slots_milli += max(1, MILLI * MILLI // condition.slots_milli)
    if slots and condition.slots_milli >= slots * MILLI:
        condition.slots_milli = condition.cut_ms = 0


def is_slot_of_deployment(charge: Charge) -> bool:
    """Return whether a charge takes one of a deployment's slots."""
    return charge.unit is Unit.SLOT and charge.reach is Reach.DEPLOYMENT


def ending_of(failed: Failed, dice: int, *, of_one: bool = False) -> Ending:
    """Return how a failed attempt ended, as its upstream is judged by it; `dice` are random bits.

    `of_one`: it was made with one of several credentials.
    """
    signs = SIGNS_OF_ONE if of_one else SIGNS
    return Ending(signs.get(failed.fault, Sign.FAULT), failed.retry_after_ms or 0, dice % 1000)
