"""Whose turn is next, over random comings and goings: no class starves, no org is passed over, an org keeps its order."""

from collections import Counter
from itertools import pairwise

from hypothesis import example, given
from hypothesis import strategies as st

from gateway.policy.admission import Precedence, Wait
from gateway.policy.queue import PRIORITY_TURNS, WAITING_CLASSES, Pool, Waiter

P, D, F = WAITING_CLASSES


def waiter(name: str, precedence: Precedence = D, org: str = "acme", patience_ms: int = 30_000) -> Waiter:
    return Waiter(name, "m", precedence, Wait(org, "w1", patience_ms, max_waiters=32, max_of_org=16), ())


class Line:
    """A pool with the waiters that are in it, and who was served."""

    def __init__(self) -> None:
        self.pool = Pool()
        self.waiting: dict[str, Waiter] = {}
        self.served: list[Waiter] = []
        self.now_ms = 1_000

    def join(self, *waiters: Waiter, first: bool = False) -> None:
        for each in waiters:
            self.waiting[each.id] = each
            self.pool.join(each, first=first)

    def leave(self, name: str) -> None:
        self.pool.leave(self.waiting.pop(name))

    def serve(self, after_ms: int = 100) -> Waiter | None:
        self.now_ms += after_ms
        name = self.pool.next()
        if name is None:
            return None
        found = self.waiting.pop(name)
        self.pool.serve(found, self.now_ms)
        self.served.append(found)
        return found

    def names(self, count: int) -> str:
        return " ".join(found.id if (found := self.serve()) else "-" for _ in range(count))


def test_priority_goes_first_and_default_gets_one_turn_of_five() -> None:
    line = Line()
    line.join(*(waiter(f"p{n}", P) for n in range(9)), *(waiter(f"d{n}") for n in range(3)), waiter("f0", F))
    assert line.names(14) == "p0 p1 p2 p3 d0 p4 p5 p6 p7 d1 p8 d2 f0 -"


def test_priority_owes_nothing_to_a_default_that_came_later() -> None:
    line = Line()
    line.join(*(waiter(f"p{n}", P) for n in range(8)))
    assert line.names(3) == "p0 p1 p2"
    line.join(waiter("d0"))
    assert line.names(5) == "p3 p4 p5 p6 d0"


def test_an_org_with_a_long_line_waits_for_the_others_turn() -> None:
    line = Line()
    line.join(*(waiter(f"a{n}", org="a") for n in range(4)))
    assert line.names(1) == "a0"
    line.join(waiter("b0", org="b"), waiter("b1", org="b"))
    assert line.names(5) == "a1 b0 a2 b1 a3"


def test_who_leaves_costs_nobody_a_turn() -> None:
    line = Line()
    line.join(waiter("a0", org="a"), waiter("a1", org="a"), waiter("b0", org="b"))
    line.leave("a0")
    assert line.names(3) == "a1 b0 -"


def test_who_comes_back_is_the_first_of_its_org() -> None:
    line = Line()
    line.join(waiter("a0", org="a"), waiter("b0", org="b"))
    line.join(waiter("a-back", org="a"), first=True)
    assert line.names(3) == "a-back b0 a0"


def test_a_newcomer_passes_lower_classes_unless_default_is_owed_a_turn() -> None:
    line = Line()
    assert not any(line.pool.stands_before(each) for each in Precedence)
    line.join(waiter("f0", F))
    assert [line.pool.stands_before(each) for each in Precedence] == [False, False, False, True]
    line.join(*(waiter(f"d{n}") for n in range(2)))
    assert [line.pool.stands_before(each) for each in Precedence] == [False, True, True, True]
    for _ in range(PRIORITY_TURNS):
        assert not line.pool.stands_before(P)
        line.pool.count(P)
    assert line.pool.stands_before(P)


def test_the_line_is_bounded_in_all_and_for_each_org() -> None:
    line = Line()
    line.join(*(waiter(f"a{n}", org="a") for n in range(16)))
    assert not line.pool.is_open_to(waiter("a", org="a"))
    assert line.pool.is_open_to(waiter("b", org="b"))
    line.join(*(waiter(f"b{n}", org="b") for n in range(16)))
    assert not line.pool.is_open_to(waiter("c", org="c"))


def test_who_would_wait_too_long_is_told_at_once() -> None:
    line = Line()
    line.join(*(waiter(f"d{n}") for n in range(6)))
    assert line.pool.expected_ms(D) == 0, "nothing is known yet"
    line.serve()
    line.serve(after_ms=1_000)
    assert line.pool.expected_ms(D) == 5_000
    assert line.pool.expected_ms(P) == 1_000
    assert line.pool.is_open_to(waiter("d", patience_ms=5_000))
    assert not line.pool.is_open_to(waiter("d", patience_ms=4_999))


def test_a_time_without_waiters_says_nothing_of_how_long_a_turn_takes() -> None:
    line = Line()
    line.join(waiter("d0"), waiter("d1"), waiter("d2"))
    line.names(3)
    line.now_ms += 3_600_000
    line.join(waiter("d3"), waiter("d4"))
    line.serve()
    assert line.pool.expected_ms(D) == 200


ORGS = ("a", "b", "c")
orgs = st.sampled_from(ORGS)
classes = st.sampled_from(WAITING_CLASSES)
steps = st.lists(
    st.one_of(
        st.tuples(st.just("join"), classes, orgs, st.booleans()),
        st.tuples(st.just("leave"), st.integers(0, 99), st.none(), st.none()),
        st.tuples(st.just("serve"), st.integers(0, 3_000), st.none(), st.none()),
    ),
    max_size=60,
)


Program = list[tuple[str, object, object, object]]


def advance(line: Line, number: int, step: tuple[str, object, object, object]) -> None:
    kind, one, org, first = step
    if kind == "join" and isinstance(one, Precedence):
        line.join(waiter(f"w{number}", one, str(org)), first=bool(first))
    elif kind == "leave" and line.waiting and isinstance(one, int):
        line.leave([*line.waiting][one % len(line.waiting)])
    elif kind == "serve" and isinstance(one, int):
        line.serve(one)


def walked(program: Program) -> tuple[Line, list[tuple[Waiter, dict[str, Waiter]]]]:
    """Return a line after a program, and whoever was served with all who waited then."""
    line, turns = Line(), []
    for number, step in enumerate(program):
        before = {**line.waiting}
        count = len(line.served)
        advance(line, number, step)
        turns += [(served, before) for served in line.served[count:]]
    return line, turns


@given(steps)
def test_everybody_who_waits_is_there_once_and_is_served_in_the_end(program: Program) -> None:
    line, _ = walked(program)
    assert len(line.pool) == len(line.waiting)
    left = len(line.waiting)
    assert [line.serve() is not None for _ in range(left + 1)] == [True] * left + [False]
    assert len(line.pool) == 0
    assert not any(lane.orgs or lane.tags for lane in line.pool.lanes.values())


@given(steps)
def test_no_class_is_passed_by_a_lower_one_and_default_gets_its_turn(program: Program) -> None:
    _, turns = walked(program)
    streak = 0
    for served, waiting in turns:
        there = {each.precedence for each in waiting.values()}
        streak = streak + 1 if served.precedence is P and D in there else 0
        assert streak <= PRIORITY_TURNS
        if served.precedence is F:
            assert there == {F}
        elif served.precedence is D and P in there:
            assert streak == 0


@example(["a", "a", "c", "c", None, "b", "b", None, None, None])
@given(st.lists(st.sampled_from((*ORGS, *ORGS, None, None)), max_size=60))
def test_orgs_that_wait_all_along_differ_by_one_turn_at_most(comings: list[str | None]) -> None:
    line = Line()
    ahead: Counter[tuple[str, str]] = Counter()
    for number, org in enumerate(comings):
        if org is not None:
            line.join(waiter(f"w{number}", org=org))
        elif (served := line.serve()) is not None:
            ahead.update({(served.wait.org, other): 1 for other in ORGS})
            ahead.subtract({(other, served.wait.org): 1 for other in ORGS})
        there = {each.wait.org for each in line.waiting.values()}
        ahead = Counter({pair: turns for pair, turns in ahead.items() if {*pair} <= there})
        assert max(ahead.values(), default=0) <= 1


@given(st.lists(orgs, min_size=1, max_size=30), classes)
def test_an_orgs_requests_keep_their_order(comers: list[str], precedence: Precedence) -> None:
    line = Line()
    line.join(*(waiter(f"{org}{n}", precedence, org) for n, org in enumerate(comers)))
    while line.waiting:
        line.serve()
    for org in set(comers):
        numbers = [int(each.id[1:]) for each in line.served if each.wait.org == org]
        assert all(before < after for before, after in pairwise(numbers))
