"""Requests that wait for a deployment, over buckets: what they hold, how their turn comes and passes, what is left of them."""

from collections import Counter

from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from gateway.policy.admission import Acquire, Ending, Precedence, Row, Settle, Sign, Switch, Upstream, Wait
from gateway.policy.answers import Granted, Queued, Refused, Spent, Turn, Verdict
from gateway.policy.catalogue import Limits, Tier
from gateway.policy.charges import Dimension
from gateway.policy.claims import Event, ceiling_of
from gateway.policy.leases import Buckets
from gateway.policy.lifetimes import CONFIRM_MS, WAITER_TTL_MS
from gateway.policy.queue import Waiter
from tests.unit.policy.leases import NOW_MS, TTL_MS, deployment, figures, key, model

P, D, OVER, F = Precedence
OWN = key(Limits(rpm=1_000, concurrency=30))
WAIT = Wait("acme", "w1", patience_ms=30_000, max_waiters=32, max_of_org=16)


def row(precedence: Precedence = D, *, slots: int = 2, name: str = "a", rpm: int | None = None) -> Row:
    """Return a row of the deployment that has so many slots for this class."""
    supply = model(name, Limits(rpm=rpm)) + deployment(f"{name}/one", Limits(concurrency=slots))
    return Row(Upstream(), name, Tier.DEFAULT, OWN + supply, figures(), pool=name, precedence=precedence)


class World:
    """The reference, its events and its wakes."""

    def __init__(self) -> None:
        self.events: list[Event] = []
        self.woken: list[str] = []
        self.buckets = Buckets(self.events.append, lambda waiter: self.woken.append(waiter.id))
        self.now_ms = NOW_MS

    def ask(self, name: str, *rows: Row, wait: Wait | None = WAIT) -> Verdict:
        return self.buckets.acquire(Acquire(name, rows, TTL_MS, b"", wait), self.now_ms)

    def switch(self, name: str, *rows: Row, wait: Wait | None = WAIT, sign: Sign = Sign.BUSY) -> Verdict:
        return self.buckets.switch(Switch(name, Ending(sign), rows, TTL_MS, wait), self.now_ms)

    def end(self, name: str, *, certain: bool = True) -> bool:
        return self.buckets.settle(Settle(name, False, figures(), b"", certain), self.now_ms).opened

    def confirm(self, name: str) -> Verdict:
        return self.buckets.confirm(name, self.now_ms)

    def tick(self, *names: str) -> tuple[Turn, ...]:
        return self.buckets.tick(names, self.now_ms)

    def held(self, row: Row) -> int:
        ceiling = ceiling_of(row)
        return self.buckets.buckets[ceiling.scope, ceiling.dimension].held


def full(world: World, slots: int = 2) -> None:
    for n in range(slots):
        assert isinstance(world.ask(f"run{n}", row(slots=slots)), Granted)


def test_who_finds_no_room_waits_and_gets_the_turn_that_another_leaves() -> None:
    world = World()
    full(world)
    assert isinstance(world.ask("mine", row()), Queued)
    assert world.end("run0")
    assert world.woken == ["mine"]
    assert world.tick("mine") == (Turn.COME,)
    assert isinstance(world.confirm("mine"), Granted)
    assert [event.kind for event in world.events if event.id == "mine"] == ["open"]
    assert world.held(row()) == 2


def test_a_waiter_holds_what_it_takes_of_its_caller_and_nothing_of_the_provider() -> None:
    world = World()
    full(world)
    world.ask("mine", row())
    assert world.buckets.buckets["k:ci", OWN[-1].dimension].held == 3
    assert world.held(row()) == 2


def test_who_may_not_wait_is_refused_and_leaves_no_trace() -> None:
    world = World()
    full(world)
    assert isinstance(world.ask("mine", row(), wait=None), Refused)
    assert world.buckets.buckets["k:ci", OWN[-1].dimension].held == 2


def test_nobody_waits_for_a_limit_of_the_callers_own() -> None:
    world = World()
    full(world)
    own = key(Limits(concurrency=2))
    refused = replace(row(), charges=(*own, *row().charges[len(OWN) :]))
    assert isinstance(world.ask("mine", refused), Refused)


def test_service_over_the_limit_never_waits() -> None:
    world = World()
    full(world)
    assert isinstance(world.ask("mine", row(OVER)), Refused)


def test_a_newcomer_does_not_pass_who_waits() -> None:
    world = World()
    full(world)
    world.ask("first", row(rpm=3))
    world.ask("large", row(rpm=3))
    world.end("run0")
    assert world.woken == ["first"]
    assert isinstance(world.ask("late", row(), wait=None), Refused)
    assert isinstance(world.ask("soon", row(P), wait=None), Refused), "there is no room yet"


def test_a_turn_that_nobody_takes_goes_to_the_next() -> None:
    world = World()
    full(world)
    world.ask("dead", row())
    world.ask("mine", row())
    world.end("run0")
    assert world.woken == ["dead"]
    world.now_ms += CONFIRM_MS
    assert world.tick("mine") == (Turn.COME,)
    assert world.confirm("dead") == Spent(world.now_ms)
    assert [event.id for event in world.events if event.kind == "abandoned"] == []


def test_waiters_of_a_dead_worker_are_passed_over_and_leave_nothing() -> None:
    world = World()
    full(world)
    world.ask("dead", row())
    world.now_ms += WAITER_TTL_MS - 1
    world.ask("mine", row())
    world.now_ms += 1
    world.end("run0")
    assert world.woken == ["mine"]
    assert {event.id for event in world.events} == {"run0", "run1"}


def test_a_client_that_leaves_the_queue_has_a_row_and_one_whose_time_is_up_has_none() -> None:
    world = World()
    full(world)
    world.ask("left", row())
    world.ask("late", row())
    assert world.end("left", certain=True)
    assert not world.end("late", certain=False)
    assert [event for event in world.events if event.id in ("left", "late")] == [Event("close", "left")]
    assert isinstance(world.ask("late", row()), Spent)


def test_an_attempt_that_was_refused_upstream_waits_before_its_orgs_others() -> None:
    world, elsewhere = World(), row(slots=1, name="b")
    full(world)
    world.ask("busy", elsewhere)
    world.ask("other", row())
    world.ask("third", elsewhere)
    assert isinstance(world.switch("run0", elsewhere), Queued)
    assert world.woken == ["other"], "its slot is free"
    world.end("busy")
    assert world.woken == ["other", "run0"]
    assert isinstance(world.confirm("run0"), Granted)
    assert [event.kind for event in world.events if event.id == "run0"] == ["open"]


def test_who_has_waited_long_enough_takes_other_rows_and_its_place_is_free() -> None:
    world, elsewhere = World(), row(slots=1, name="b")
    full(world)
    world.ask("mine", row())
    world.ask("next", row())
    assert isinstance(world.switch("mine", elsewhere), Granted)
    assert world.held(elsewhere) == 1
    world.end("run0")
    assert world.woken == ["next"]
    world.end("mine")
    assert [event.kind for event in world.events if event.id == "mine"] == ["open", "close"]


def test_who_has_waited_and_finds_no_other_row_leaves_nothing_behind() -> None:
    world = World()
    full(world)
    world.ask("mine", row())
    own = world.buckets.buckets["k:ci", OWN[-1].dimension]
    assert isinstance(world.switch("mine", row(), wait=None), Refused)
    assert own.held == 2
    assert isinstance(world.ask("mine", row()), Spent)
    assert not [event for event in world.events if event.id == "mine"]


def test_who_has_waited_may_wait_for_another_model() -> None:
    world, elsewhere = World(), row(slots=1, name="b")
    full(world)
    world.ask("busy", elsewhere)
    world.ask("mine", row())
    assert isinstance(world.switch("mine", elsewhere), Queued)
    world.end("run0")
    assert world.woken == []
    world.end("busy")
    assert world.woken == ["mine"]
    assert isinstance(world.confirm("mine"), Granted)


def test_a_turn_that_came_too_late_goes_on_when_its_waiter_takes_other_rows() -> None:
    world, elsewhere = World(), row(slots=1, name="b")
    full(world)
    world.ask("mine", row())
    world.ask("next", row())
    world.end("run0")
    requests = world.buckets.buckets["k:ci", Dimension.RPM]
    posted = requests.debt
    assert isinstance(world.switch("mine", elsewhere, sign=Sign.NOTHING), Granted)
    assert world.woken == ["mine", "next"]
    assert requests.debt == posted, "nothing was sent"


def test_flex_waits_for_room_below_its_ceiling_and_behind_everybody() -> None:
    world = World()
    full(world, slots=3)
    assert isinstance(world.ask("flex", row(F, slots=2)), Queued)
    world.ask("mine", row(slots=3))
    world.end("run0")
    assert world.woken == ["mine"]
    world.end("run1")
    assert world.woken == ["mine"], "two still run, and flex may have two slots of three"
    world.end("run2")
    assert world.woken == ["mine", "flex"]


NAMES = tuple(f"w{n}" for n in range(12))
ROWS = (row(P, slots=3), row(D, slots=3), row(OVER, slots=2), row(F, slots=2), row(D, slots=1, name="b", rpm=4))
WAITS = (None, WAIT, replace(WAIT, org="other", worker="w2"), replace(WAIT, max_waiters=3))
kinds = st.sampled_from(("ask", "ask", "ask", "end", "end", "confirm", "confirm", "switch", "tick", "expire"))
Program = list[tuple[str, str, list[Row], Wait | None, int, bool]]


def programs_over(rows: tuple[Row, ...]) -> st.SearchStrategy[Program]:
    step = st.tuples(
        kinds,
        st.sampled_from(NAMES),
        st.lists(st.sampled_from(rows), min_size=1, max_size=2),
        st.sampled_from(WAITS),
        st.sampled_from((0, 0, 1, 400, 900, 3_000, 6_000)),
        st.booleans(),
    )
    return st.lists(step, min_size=5, max_size=50)


programs = programs_over(ROWS)


def run(world: World, step: tuple[str, str, list[Row], Wait | None, int, bool]) -> None:
    kind, name, rows, wait, pause_ms, flag = step
    world.now_ms += pause_ms
    match kind:
        case "ask":
            world.ask(name, *rows, wait=wait)
        case "end":
            world.end(name, certain=flag)
        case "confirm":
            world.confirm(name)
        case "switch":
            world.switch(name, *rows, wait=wait)
        case "tick":
            world.tick(*NAMES[::2] if flag else NAMES)
        case _:
            world.buckets.expire(world.now_ms)


def waiting(world: World) -> dict[str, Waiter]:
    return {lease.id: lease.waiter for lease in world.buckets.leases.values() if lease.waiter is not None}


@given(programs)
def test_no_deployment_runs_more_than_it_has_room_for(program: Program) -> None:
    world = World()
    for step in program:
        run(world, step)
        for place, bucket in world.buckets.buckets.items():
            claims = [lease.claims[place] for lease in world.buckets.leases.values() if place in lease.claims]
            assert bucket.held == sum(claim.held for claim in claims)
            assert all(bucket.held <= 3 for _ in claims if place[0].startswith("d:"))


@given(programs_over(ROWS[:4]))
def test_room_and_somebody_who_could_have_it_never_stand_side_by_side(program: Program) -> None:
    world = World()
    for step in program:
        run(world, step)
        if any(lease.expires_ms <= world.now_ms for lease in world.buckets.leases.values()):
            continue
        woken = [*world.woken]
        world.tick(*waiting(world))
        assert world.woken == woken


@given(programs)
def test_every_waiter_is_in_its_queue_once_and_nobody_else_is(program: Program) -> None:
    world = World()
    for step in program:
        run(world, step)
        queued = Counter(
            (name, waiter_id)
            for name, pool in world.buckets.pools.items()
            for lane in pool.lanes.values()
            for org in lane.orgs.values()
            for waiter_id in org
        )
        assert queued == Counter((waiter.pool, waiter_id) for waiter_id, waiter in waiting(world).items())


@given(programs)
def test_once_all_have_left_nothing_is_held_and_the_ledger_is_whole(program: Program) -> None:
    world = World()
    for step in program:
        run(world, step)
    world.now_ms += 2 * TTL_MS
    while world.buckets.expire(world.now_ms):
        pass
    assert not world.buckets.leases
    assert not any(len(pool) for pool in world.buckets.pools.values())
    assert not any(bucket.held for bucket in world.buckets.buckets.values())
    kinds_of: dict[str, list[str]] = {}
    for event in world.events:
        kinds_of.setdefault(event.id, []).append(event.kind)
    for kinds_of_one in kinds_of.values():
        assert kinds_of_one.count("open") <= 1
        assert kinds_of_one[0] in ("open", "close")
        assert "open" not in kinds_of_one or len(kinds_of_one) >= 2
