"""The laws of leases over buckets, over random programs that never over-run: figures are fractions of one estimate per lease."""

from copy import deepcopy
from itertools import accumulate, combinations, pairwise

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from gateway.policy.admission import Row, Upstream
from gateway.policy.answers import Granted, Refused
from gateway.policy.catalogue import Limits, Tier
from gateway.policy.charges import Dimension
from gateway.policy.claims import place_of
from gateway.policy.limits import DAY_MS, MINUTE_MS, weight
from tests.unit.policy.leases import (
    TTL_MS,
    Store,
    deployment,
    figures,
    key,
    model,
)

SCOPES = (
    key(Limits(rpm=6, tpm=300, rpd=40, concurrency=4)),
    key(Limits(concurrency=4)),
)
SUPPLY = (
    model("a", Limits(rpm=5)) + deployment("a/one", Limits(concurrency=2)),
    model("b", Limits(tpm=200)) + deployment("b/one", Limits(concurrency=3, rpm=4)),
)
ROWS = tuple(own + supply for own in SCOPES for supply in SUPPLY)
CHARGES = {place_of(charge): charge for charges_of_row in ROWS for charge in charges_of_row}

Step = tuple[str, int, int, int, bool]
PROGRAMS = st.lists(
    st.tuples(
        st.sampled_from(("acquire", "acquire", "acquire", "settle", "switch", "progress", "expire")),
        st.integers(0, 11),
        st.integers(0, len(ROWS) - 1),
        st.sampled_from((0, 0, 1, 900, 5_000, 20_000, 40_000)),
        st.booleans(),
    ),
    min_size=10,
    max_size=40,
)


def tokens_of(number: int) -> int:
    return 20 + 10 * number


def run(store: Store, step: Step) -> object:
    kind, number, at, pause_ms, flag = step
    store.now_ms += pause_ms
    lease_id, tokens = f"lease-{number}", tokens_of(number)
    rows = [Row(Upstream(), "m", Tier.DEFAULT, ROWS[index % len(ROWS)], figures(tokens, tokens)) for index in (at, at + 1)]
    match kind:
        case "acquire":
            return store.acquire(lease_id, *rows)
        case "settle":
            return store.settle(lease_id, figures(tokens, tokens // 2), capacity=flag)
        case "switch":
            return store.switch(lease_id, *rows, capacity=flag)
        case "progress":
            return store.progress(lease_id, figures(tokens, tokens // 4, request=int(flag)))
        case _:
            return store.buckets.expire(store.now_ms)


def is_late(store: Store, step: Step) -> bool:
    """Say whether a step settles an expired lease: its hold is gone, so that what it posts is an over-run."""
    return step[0] == "settle" and f"lease-{step[1]}" in store.buckets.done


def posted(store: Store) -> dict[tuple[str, Dimension], int]:
    """Return each leaking bucket's debt as it would be now."""
    found = {}
    for place, bucket in store.buckets.buckets.items():
        copy = msgspec.structs.replace(bucket)
        copy.fold(CHARGES[place], store.now_ms)
        found[place] = copy.debt
    return found


@given(PROGRAMS)
def test_no_window_posts_more_than_burst_and_rate(program: list[Step]) -> None:
    store = Store()
    history: dict[tuple[str, Dimension], list[tuple[int, int]]] = {}
    for step in program:
        store.now_ms += step[3]
        if is_late(store, step):
            continue
        before = posted(store)
        run(store, (*step[:3], 0, step[4]))
        for place, debt in posted(store).items():
            history.setdefault(place, []).append((store.now_ms, debt - before.get(place, 0)))
    for place, entries in history.items():
        charge = CHARGES[place]
        if charge.dimension is Dimension.RPD:
            assert sum(units for _, units in entries) <= charge.capacity
            continue
        sums = [0, *accumulate(units for _, units in entries)]
        for first, last in combinations(range(len(entries)), 2):
            window_ms = entries[last][0] - entries[first][0]
            assert sums[last + 1] - sums[first] <= charge.capacity * weight(charge) + charge.rate * window_ms


@given(PROGRAMS)
def test_holds_are_those_of_live_leases_and_never_pass_the_bucket(program: list[Step]) -> None:
    store = Store()
    for step in program:
        if is_late(store, step):
            continue
        run(store, step)
        sums = dict.fromkeys(store.buckets.buckets, 0)
        for lease in store.buckets.leases.values():
            for place, claim in lease.claims.items():
                sums[place] += claim.held
        for place, bucket in store.buckets.buckets.items():
            assert bucket.held == sums[place]
            assert posted(store)[place] + bucket.held * weight(CHARGES[place]) <= CHARGES[place].capacity * weight(CHARGES[place])


@given(PROGRAMS)
def test_refusing_and_repeating_change_nothing(program: list[Step]) -> None:
    store = Store()
    for step in program:
        store.now_ms += step[3]
        while store.buckets.expire(store.now_ms):
            pass
        before = deepcopy((store.buckets.buckets, store.buckets.leases, store.events))
        verdict = run(store, (*step[:3], 0, step[4]))
        again = ("acquire", "settle")
        if isinstance(verdict, Refused) and step[0] == "acquire":
            assert (store.buckets.buckets, store.buckets.leases, store.events) == before
        elif step[0] in again:
            after = deepcopy((store.buckets.buckets, store.buckets.leases, store.events))
            run(store, (*step[:3], 0, not step[4]))
            assert (store.buckets.buckets, store.buckets.leases, store.events) == after


@given(PROGRAMS, st.integers(0, len(ROWS) - 1))
def test_a_wait_is_exact_and_a_larger_limit_never_refuses(program: list[Step], at: int) -> None:
    store = Store()
    for step in program:
        run(store, step)
    for lease_id in list(store.buckets.leases):
        store.settle(lease_id, figures(9, 9))
    asked = Row(Upstream(), "m", Tier.DEFAULT, ROWS[at], figures(60, 40))
    verdict = store.acquire("asked", asked)
    if isinstance(verdict, Granted):
        larger = tuple(msgspec.structs.replace(charge, capacity=2 * charge.capacity, rate=2 * charge.rate) for charge in ROWS[at])
        store.settle("asked", capacity=True)
        assert isinstance(store.acquire("larger", msgspec.structs.replace(asked, charges=larger)), Granted)
        return
    assert isinstance(verdict, Refused)
    (refusal,) = verdict.refusals
    assert refusal.wait_ms is not None
    store.now_ms += refusal.wait_ms - 1
    assert isinstance(store.acquire("asked", asked), Refused)
    store.now_ms += 1
    assert isinstance(store.acquire("asked", asked), Granted)


@given(PROGRAMS)
def test_at_rest_everything_is_as_new_and_the_ledger_is_whole(program: list[Step]) -> None:
    store = Store()
    for step in program:
        run(store, step)
    store.now_ms += TTL_MS
    while store.buckets.expire(store.now_ms):
        pass
    assert store.buckets.leases == {}
    store.now_ms += max(MINUTE_MS, DAY_MS)
    assert all(debt == 0 for debt in posted(store).values())
    assert all(bucket.held == 0 for bucket in store.buckets.buckets.values())
    for lease_id in {event.id for event in store.events}:
        kinds = [event.kind for event in store.events if event.id == lease_id]
        assert kinds[-1] != "open"
        assert all(pair != ("open", "open") for pair in pairwise(kinds))
