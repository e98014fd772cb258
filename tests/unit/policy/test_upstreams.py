"""How upstreams are judged: cooldown, adaptive ceiling, breaker."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from gateway.faults import EndClass, Failed, Fault
from gateway.policy.admission import Ending, Order, Precedence, Row, Sign, Upstream, Word
from gateway.policy.answers import Cause
from gateway.policy.breaker import Breaker
from gateway.policy.catalogue import Limits, Tier
from gateway.policy.claims import ceiling_of
from gateway.policy.upstreams import Bar, Condition, Upstreams, ending_of
from tests.unit.policy.leases import deployment, figures

ONE = Upstream("a/one", "p", 10)
OPEN_MS = 10_000
BREAKER = Breaker(open_ms=OPEN_MS, max_open_ms=40_000)
MIDDLE = 500
"""The dice that open for exactly as long as is said."""


def row(upstream: Upstream = ONE, *, last: bool = False) -> Row:
    slots = deployment(upstream.deployment, Limits(concurrency=upstream.slots or 2**31 - 1))
    return Row(upstream, "a", Tier.DEFAULT, slots, figures(), "a", Precedence.DEFAULT, last)


class World:
    """Upstreams and a clock."""

    def __init__(self, breaker: Breaker = BREAKER) -> None:
        self.upstreams = Upstreams(breaker)
        self.now_ms = 1_000_000

    def end(self, sign: Sign, *, by: str = "r", running: int = 10, hint_ms: int = 0, upstream: Upstream = ONE) -> None:
        self.upstreams.note(upstream, by, Ending(sign, hint_ms, MIDDLE), running, self.now_ms)

    def bar(self, upstream: Upstream = ONE, *, last: bool = False) -> Bar | None:
        return self.upstreams.bar(row(upstream, last=last), self.now_ms)

    def slots(self, share_ppm: int = 1_000_000) -> int:
        asked = row(Upstream(ONE.deployment, ONE.credential, ONE.slots, share_ppm))
        return self.upstreams.slots(asked, ceiling_of(asked))

    def open(self) -> None:
        for _ in range(BREAKER.failures):
            self.end(Sign.FAULT)


def test_who_had_no_room_is_left_alone_for_a_second_or_as_long_as_it_asked() -> None:
    world = World()
    world.end(Sign.BUSY)
    assert world.bar() == Bar(Cause.COOLING, 1_050)
    world.end(Sign.BUSY, hint_ms=4_000)
    world.end(Sign.BUSY, hint_ms=2_000)
    assert world.bar(last=True) == Bar(Cause.COOLING, 4_200), "the longest wins, even where nothing comes after it"
    world.now_ms += 4_200
    assert world.bar() is None


def test_nobody_is_left_alone_for_longer_than_the_operator_wants() -> None:
    world = World(Breaker(cooldown_max_ms=5_000))
    world.end(Sign.BUSY, hint_ms=86_400_000)
    assert world.bar() == Bar(Cause.COOLING, 5_250)


def test_an_account_that_is_out_cools_all_that_takes_its_credential_and_nothing_else() -> None:
    world = World()
    world.end(Sign.RATE, hint_ms=3_000)
    assert world.bar(Upstream("b/one", "p")) == Bar(Cause.COOLING, 3_150)
    assert world.bar(Upstream("a/two", "q")) is None
    world.upstreams.note(Upstream("a/two", "q"), "r", Ending(Sign.GOOD, exhausted_ms=700), 1, world.now_ms)
    assert world.bar(Upstream("b/two", "q")) == Bar(Cause.COOLING, 700)


def test_of_several_accounts_one_that_is_out_cools_itself_and_lowers_nothing() -> None:
    world = World()
    world.end(Sign.ONE_RATE, hint_ms=3_000)
    assert world.bar(last=True) == Bar(Cause.COOLING, 3_150)
    assert world.bar(Upstream(ONE.deployment, "p#2", 10)) is None
    assert (world.slots(), world.upstreams.conditions) == (ONE.slots, {})


def test_of_several_accounts_one_that_is_refused_is_passed_over_for_as_long_as_any_may_be() -> None:
    world = World(Breaker(cooldown_max_ms=4_000))
    world.end(Sign.ONE_DENIED, hint_ms=1)
    assert world.bar() == Bar(Cause.OPEN, 4_200)
    assert world.bar(last=True) is None, "where nothing comes after it, it may be tried all the same"
    assert world.bar(Upstream(ONE.deployment, "p#2", 10)) is None
    assert world.upstreams.conditions == {}, "nobody else is the worse for it"
    world.end(Sign.ONE_RATE, hint_ms=1_000)
    assert world.bar(last=True) == Bar(Cause.COOLING, 4_200), "the latest word, and the longest wait"
    world.now_ms += 4_200
    assert world.bar() is None


def test_a_probe_that_meets_an_account_which_is_out_proves_nothing_and_lets_the_next_one_probe() -> None:
    world = World()
    world.open()
    world.now_ms += 2 * OPEN_MS
    before = world.upstreams.conditions[ONE.deployment].proven
    for sign in (Sign.ONE_RATE, Sign.ONE_DENIED):
        world.upstreams.ask(ONE, "probe", world.now_ms)
        world.end(sign, by="probe")
        assert world.upstreams.conditions[ONE.deployment].proven == before
        assert world.bar(Upstream(ONE.deployment, "p#2", 10)) is None


def test_who_is_cooling_behind_an_open_breaker_is_left_alone_until_both_are_over() -> None:
    world = World()
    world.open()
    open_ms = (world.bar() or Bar(Cause.OPEN, 0)).wait_ms
    world.end(Sign.BUSY, hint_ms=1_000)
    assert world.bar() == Bar(Cause.COOLING, open_ms)
    assert world.bar(last=True) == Bar(Cause.COOLING, 1_050)


def test_fifty_refusals_at_once_are_one_cut() -> None:
    world = World()
    for _ in range(50):
        world.end(Sign.BUSY)
    assert (world.slots(), world.slots(share_ppm=700_000)) == (7, 4)
    world.now_ms += 2_000
    world.end(Sign.SLOW)
    assert world.slots() == 4


def test_a_ceiling_is_never_nothing() -> None:
    world = World()
    for _ in range(20):
        world.end(Sign.BUSY)
        world.now_ms += 2_000
    assert (world.slots(), world.slots(share_ppm=700_000)) == (1, 1)


def test_success_gives_back_what_congestion_took_and_no_more() -> None:
    world = World()
    world.end(Sign.BUSY)
    world.end(Sign.GOOD, running=3)
    assert world.slots() == 7, "less than half of it is in use: nothing was learned"
    for _ in range(100):
        world.end(Sign.GOOD, running=7)
        assert world.slots() <= ONE.slots
    assert world.slots() == ONE.slots
    world.now_ms += 2_000
    world.end(Sign.GOOD)
    assert not world.upstreams.is_watched(ONE)


def test_without_a_ceiling_congestion_makes_one_of_what_is_running() -> None:
    world, boundless = World(), Upstream("a/free", "p")
    asked = row(boundless)
    assert world.upstreams.slots(asked, ceiling_of(asked)) == 2**31 - 1
    world.end(Sign.BUSY, running=9, upstream=boundless)
    assert world.upstreams.slots(asked, ceiling_of(asked)) == 6


def test_faults_in_a_row_open_the_breaker_and_a_success_between_them_does_not() -> None:
    world = World()
    for _ in range(3):
        for _ in range(BREAKER.failures - 1):
            world.end(Sign.FAULT)
        assert world.bar() is None
        world.end(Sign.GOOD)
    world.open()
    assert world.bar() == Bar(Cause.OPEN, OPEN_MS)
    assert world.bar(last=True) is None, "where nothing comes after it, it is tried"


def test_half_of_a_window_opens_the_breaker_too() -> None:
    world = World()
    for number in range(19):
        world.end(Sign.FAULT if number % 2 == 0 else Sign.GOOD)
        assert world.bar() is None
    world.end(Sign.FAULT)
    assert world.bar() == Bar(Cause.OPEN, OPEN_MS)


def test_a_window_forgets() -> None:
    world = World()
    for _ in range(40):
        world.end(Sign.FAULT)
        world.end(Sign.GOOD)
        world.now_ms += BREAKER.window_ms // 8
        assert world.bar() is None


@pytest.mark.parametrize("sign", [Sign.NOTHING, Sign.BUSY, Sign.RATE])
def test_neither_clients_nor_a_lack_of_room_open_it(sign: Sign) -> None:
    world = World()
    for _ in range(100):
        world.end(sign)
    world.now_ms += 60_000
    assert world.bar() is None


def test_a_refused_credential_opens_it_at_once() -> None:
    world = World()
    world.end(Sign.DENIED)
    assert world.bar() == Bar(Cause.OPEN, OPEN_MS)


def test_one_probe_at_a_time_and_two_good_ones_close_it() -> None:
    world = World()
    world.open()
    world.now_ms += OPEN_MS
    for probe in ("first", "second"):
        assert world.bar() is None
        world.upstreams.ask(ONE, probe, world.now_ms)
        assert world.bar() == Bar(Cause.OPEN, None)
        world.end(Sign.GOOD, by="somebody else")
        assert world.bar() == Bar(Cause.OPEN, None), "only the probe's word counts"
        world.end(Sign.GOOD, by=probe)
    assert not world.upstreams.is_watched(ONE)


def test_a_probe_that_fails_opens_it_for_twice_as_long_up_to_the_most() -> None:
    world = World()
    world.open()
    for rest_ms in (20_000, 40_000, 40_000):
        bar = world.bar()
        world.now_ms += bar.wait_ms or 0 if bar else 0
        world.upstreams.ask(ONE, "probe", world.now_ms)
        world.end(Sign.FAULT, by="probe")
        assert world.bar() == Bar(Cause.OPEN, rest_ms)


@pytest.mark.parametrize("client_left", [True, False])
def test_a_probe_without_an_end_gives_its_place_to_another(client_left: bool) -> None:
    world = World()
    world.open()
    world.now_ms += OPEN_MS
    world.upstreams.ask(ONE, "probe", world.now_ms)
    if client_left:
        world.end(Sign.NOTHING, by="probe")
    else:
        world.now_ms += 30_000
    assert world.bar() is None


@given(st.integers(0, 999))
def test_what_opens_at_once_does_not_come_back_at_once(dice: int) -> None:
    upstreams = Upstreams(BREAKER)
    upstreams.note(ONE, "r", Ending(Sign.DENIED, 0, dice), 1, 0)
    bar = upstreams.bar(row(), 0)
    assert bar is not None
    assert 0.8 * OPEN_MS <= (bar.wait_ms or 0) <= 1.2 * OPEN_MS


@given(st.lists(st.tuples(st.sampled_from(Sign), st.integers(0, 3_000), st.integers(0, 12)), max_size=60))
def test_whatever_happens_a_ceiling_stays_between_one_and_what_was_declared(story: list[tuple[Sign, int, int]]) -> None:
    world = World()
    for sign, passed_ms, running in story:
        world.now_ms += passed_ms
        world.end(sign, running=running)
        assert 1 <= world.slots() <= ONE.slots


@pytest.mark.parametrize("fault", list(Fault))
def test_an_ending_says_of_its_upstream_what_its_class_says_of_the_walk(fault: Fault) -> None:
    ending = ending_of(Failed(fault=fault, retry_after_ms=700), dice=2**62 - 1)
    assert ending.sign.is_capacity == (fault.end_class is EndClass.CAPACITY)
    assert (ending.sign is Sign.NOTHING) == (fault.end_class is EndClass.CLIENT)
    assert (ending.hint_ms, ending.dice) == (700, (2**62 - 1) % 1000)


@pytest.mark.parametrize("fault", list(Fault))
def test_an_ending_with_one_of_several_credentials_blames_that_one_for_what_is_the_accounts(fault: Fault) -> None:
    of_one = {Fault.ACCOUNT_RATE: Sign.ONE_RATE, Fault.CREDENTIAL: Sign.ONE_DENIED, Fault.BILLING: Sign.ONE_DENIED}
    usual, found = (ending_of(Failed(fault=fault, retry_after_ms=700), dice=7, of_one=each) for each in (False, True))
    assert found == replace(usual, sign=of_one.get(fault, usual.sign))
    assert found.sign.is_capacity == (fault.end_class is EndClass.CAPACITY)


def test_the_operators_word_stands_above_what_is_learned() -> None:
    world = World()
    world.upstreams.obey(Order(Word.DISABLE, (ONE,)))
    assert world.bar(last=True) == Bar(Cause.DISABLED, None)
    world.open()
    world.upstreams.obey(Order(Word.RESET, (ONE,)))
    assert world.upstreams.conditions == {ONE.deployment: Condition(disabled=True)}
    world.end(Sign.FAULT)
    world.upstreams.obey(Order(Word.ENABLE, (ONE,)))
    assert world.upstreams.conditions[ONE.deployment].failures == 1, "who comes back is known as it was"
    assert world.bar() is None


def test_a_reset_forgets_condition_and_credential_of_those_named_alone() -> None:
    world, other = World(), Upstream("b/two", "q")
    for upstream in (ONE, other):
        world.end(Sign.RATE, upstream=upstream, hint_ms=4_000)
    world.upstreams.obey(Order(Word.RESET, (ONE,)))
    assert ONE.deployment not in world.upstreams.conditions
    assert world.bar() is None
    assert world.bar(other) == Bar(Cause.COOLING, 4_200)
