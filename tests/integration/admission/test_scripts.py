"""What the scripts owe the store: keys that live as long as they must, a ledger that can be read, and nothing else."""

from datetime import UTC, datetime
from random import Random

import msgspec
import pytest

from gateway.admission.client import LEASES_AT_ONCE, Admission, cell_prefix, ledger_key
from gateway.admission.connection import Connection
from gateway.policy.admission import Order, Row, Seed, Upstream, Word
from gateway.policy.answers import Granted, Posted, Refused, Spent, Unseeded
from gateway.policy.catalogue import Budget, Limits
from gateway.policy.charges import Dimension, Estimate
from gateway.policy.claims import place_of
from gateway.policy.lifetimes import LATE_MS, REAPED_AT_ONCE
from gateway.policy.limits import MINUTE_MS, budget_charges
from gateway.policy.periods import PERIODS, bounds_ms
from tests.integration.admission.rows import TTL_MS, Clock, acquire, estimate, key_charges, progress, row, settle, switch
from tests.integration.admission.state import PREFIX, ask, ledger, pairs, stored

LIMITS = key_charges(Limits(rpm=5, tpm=600, rpd=9, concurrency=2))
CHARGES = {place_of(charge): charge for charge in LIMITS}


async def reaped(admission: Admission, connection: Connection) -> int:
    """Return how many leases one tick ends."""
    before = await ask(connection, "ZCARD", PREFIX + "leases")
    await admission.tick("w1", ())
    return int(before - await ask(connection, "ZCARD", PREFIX + "leases"))


async def test_a_refusal_leaves_no_trace(admission: Admission, connection: Connection) -> None:
    verdict = await admission.acquire(acquire("mine", row(LIMITS, cost=estimate(600, 1))))
    assert isinstance(verdict, Refused)
    assert verdict.refusals[0].never
    assert await ask(connection, "KEYS", "*") == []


async def test_every_key_lies_in_the_cells_slot(admission: Admission, connection: Connection) -> None:
    await admission.acquire(acquire("mine", row(LIMITS)))
    await admission.acquire(acquire("other", row(LIMITS)))
    await admission.settle(settle("mine"))
    assert {key.decode().startswith(PREFIX) for key in await ask(connection, "KEYS", "*")} == {True}
    assert PREFIX == cell_prefix("tg", "c0") == "tg:v1:{c0}:"


async def test_two_cells_know_nothing_of_each_other(admission: Admission, connection: Connection, clock: Clock) -> None:
    elsewhere = Admission(connection, prefix=cell_prefix("tg", "c1"), clock=clock)
    await admission.acquire(acquire("mine", row(LIMITS)))
    verdict = await elsewhere.acquire(acquire("mine", row(LIMITS)))
    assert isinstance(verdict, Granted)
    assert verdict.levels[0].held == 1


async def test_a_hash_never_expires_under_holds(admission: Admission, connection: Connection) -> None:
    await admission.acquire(acquire("mine", row(LIMITS)))
    assert await ask(connection, "PTTL", PREFIX + "k:ci") == -1
    await admission.acquire(acquire("other", row(LIMITS)))
    await admission.settle(settle("mine"))
    assert await ask(connection, "PTTL", PREFIX + "k:ci") == -1


async def test_a_hash_at_rest_stays_until_it_is_drained(admission: Admission, connection: Connection, clock: Clock) -> None:
    rates = key_charges(Limits(tpm=600))
    await admission.acquire(acquire("mine", row(rates)))
    await admission.settle(settle("mine", estimate(600, 1_200)))
    assert await ask(connection, "PEXPIRETIME", PREFIX + "k:ci") == clock.now_ms + 3 * MINUTE_MS
    await admission.acquire(acquire("next", row(rates, cost=estimate(0, 0))))
    assert await ask(connection, "PTTL", PREFIX + "k:ci") == -1
    await admission.settle(settle("next", capacity=True))
    assert await ask(connection, "PEXPIRETIME", PREFIX + "k:ci") == clock.now_ms + 3 * MINUTE_MS


async def test_a_short_limit_does_not_shorten_the_day(admission: Admission, connection: Connection, clock: Clock) -> None:
    await admission.acquire(acquire("mine", row(LIMITS)))
    await admission.settle(settle("mine"))
    slots = tuple(charge for charge in LIMITS if charge.dimension is Dimension.CONCURRENCY)
    await admission.acquire(acquire("flex", row(slots)))
    await admission.settle(settle("flex"))
    midnight_ms = clock.now_ms + 60 * MINUTE_MS
    assert await ask(connection, "PEXPIRETIME", PREFIX + "k:ci") == midnight_ms


async def test_an_empty_hash_goes_at_once_by_the_stores_own_clock(connection: Connection) -> None:
    admission = Admission(connection)
    await admission.acquire(acquire("mine", row(LIMITS)))
    await admission.settle(settle("mine", capacity=True))
    assert await ask(connection, "EXISTS", PREFIX + "k:ci") == 0


async def test_the_clock_is_the_stores(connection: Connection) -> None:
    seconds, _ = await ask(connection, "TIME")
    verdict = await Admission(connection).acquire(acquire("mine", row(LIMITS)))
    assert 0 <= verdict.now_ms - 1000 * int(seconds) < 5_000


async def test_tombstones_stay_for_two_leases_and_an_hour(admission: Admission, connection: Connection, clock: Clock) -> None:
    await admission.acquire(acquire("settled", row(LIMITS)))
    await admission.settle(settle("settled"))
    await admission.acquire(acquire("lapsed", row(LIMITS)))
    clock.now_ms += TTL_MS
    assert await reaped(admission, connection) == 1
    assert 0 <= 2 * TTL_MS - await ask(connection, "PTTL", PREFIX + "done:settled") < 5_000
    assert 0 <= LATE_MS - await ask(connection, "PTTL", PREFIX + "done:lapsed") < 5_000
    assert isinstance(await admission.acquire(acquire("lapsed", row(LIMITS))), Spent)


async def test_the_ledger_has_what_each_end_was_given(admission: Admission, connection: Connection, clock: Clock) -> None:
    await admission.acquire(acquire("settled", row(LIMITS)))
    await admission.settle(settle("settled"))
    await admission.acquire(acquire("lapsed", row(LIMITS)))
    await admission.progress([progress("lapsed", estimate(10, 5))])
    clock.now_ms += TTL_MS
    await admission.tick("w1", ())
    await admission.settle(settle("lapsed"))
    kinds = ["open", "close", "open", "abandoned", "close"]
    assert [kind for kind, _ in await ledger(connection)] == kinds
    entries = [dict(pairs(flat)) for _, flat in await ask(connection, "XRANGE", ledger_key(), "-", "+")]
    blobs = [entry[b"blob"] for entry in entries]
    assert (blobs[0], blobs[1], blobs[4]) == (b"opened settled", b"closed settled", b"closed lapsed")
    assert msgspec.msgpack.decode(blobs[3]) == ["opened lapsed", 1, 10, 5, 15, 0]


async def test_a_hold_that_the_store_lost_is_counted_and_is_no_credit(
    admission: Admission, connection: Connection, clock: Clock
) -> None:
    await admission.acquire(acquire("mine", row(LIMITS)))
    await ask(connection, "DEL", PREFIX + "k:ci")
    await admission.settle(settle("mine", estimate(10, 5)))
    faults = dict(pairs(await ask(connection, "HGETALL", PREFIX + "faults")))
    assert int(faults[b"negative_hold"]) > 0
    state = await stored(connection, CHARGES, clock.now_ms)
    assert {place[1]: figures for place, figures in state.buckets.items()} == {
        "rpm": (MINUTE_MS, 0),
        "tpm": (15 * MINUTE_MS, 0),
        "rpd": (1, 0),
    }


@pytest.mark.parametrize("absurd", [10**18, 2**63, -1])
async def test_absurd_figures_are_bounded(admission: Admission, connection: Connection, absurd: int, clock: Clock) -> None:
    await admission.acquire(acquire("mine", row(LIMITS)))
    assert await admission.settle(settle("mine", Estimate(1, absurd, 5, absurd))) == Posted(clock.now_ms, opened=True)
    state = await stored(connection, CHARGES, clock.now_ms)
    assert state.buckets.get(("k:ci", "tpm"), (0, 0))[0] == max(0, min(absurd, 2**31 - 1)) * MINUTE_MS


async def test_the_largest_bucket_is_counted_to_the_unit(admission: Admission, connection: Connection, clock: Clock) -> None:
    vast = key_charges(Limits(tpm=150_000_000_000))
    await admission.acquire(acquire("mine", row(vast)))
    for number in range(3):
        await admission.acquire(acquire(f"{number}", row(vast)))
        await admission.settle(settle(f"{number}", estimate(2**31 - 2, 0)))
    state = await stored(connection, {place_of(charge): charge for charge in vast}, clock.now_ms)
    assert state.buckets["k:ci", "tpm"] == (3 * (2**31 - 2) * MINUTE_MS, 30)


async def test_forgotten_scripts_are_not_noticed(admission: Admission, connection: Connection) -> None:
    await admission.acquire(acquire("mine", row(LIMITS)))
    await ask(connection, "SCRIPT", "FLUSH")
    assert isinstance(await admission.switch(switch("mine", row(LIMITS))), Granted)
    await ask(connection, "SCRIPT", "FLUSH")
    assert await admission.progress([progress("mine")]) == ()
    await ask(connection, "SCRIPT", "FLUSH")
    assert (await admission.settle(settle("mine"))).opened
    await ask(connection, "SCRIPT", "FLUSH")
    assert await reaped(admission, connection) == 0


async def test_a_thousand_leases_are_renewed_a_few_at_a_time(admission: Admission, connection: Connection) -> None:
    await admission.acquire(acquire("mine", row()))
    await admission.progress([progress("mine")])
    await ask(connection, "CONFIG", "RESETSTAT")
    reports = [progress("mine" if number == 2 * LEASES_AT_ONCE else f"gone-{number}") for number in range(2 * LEASES_AT_ONCE + 1)]
    lost = await admission.progress(reports)
    assert lost == tuple(f"gone-{number}" for number in range(2 * LEASES_AT_ONCE))
    stats = (await ask(connection, "INFO", "commandstats")).decode()
    assert "cmdstat_evalsha:calls=3," in stats


async def test_an_expiry_ends_a_few_leases_at_a_time(admission: Admission, connection: Connection, clock: Clock) -> None:
    for number in range(REAPED_AT_ONCE + 3):
        await admission.acquire(acquire(f"lease-{number}", row()))
    clock.now_ms += TTL_MS
    assert [await reaped(admission, connection) for _ in range(3)] == [REAPED_AT_ONCE, 3, 0]


async def test_an_attempt_in_a_hundred_never_passes_the_slots(admission: Admission) -> None:
    verdicts = [await admission.acquire(acquire(f"lease-{number}", row(LIMITS))) for number in range(100)]
    assert sum(isinstance(verdict, Granted) for verdict in verdicts) == 2


async def test_what_is_disabled_stays_so_for_ever(admission: Admission, connection: Connection) -> None:
    upstream = Upstream("a/one", "p", 8)
    await admission.order(Order(Word.DISABLE, (upstream,)))
    assert await ask(connection, "PTTL", PREFIX + "up:a/one") == -1
    await admission.order(Order(Word.RESET, (upstream,)))
    assert await ask(connection, "PTTL", PREFIX + "up:a/one") == -1
    assert [each.state for each in await admission.standings((upstream,))] == ["disabled"]
    await admission.order(Order(Word.ENABLE, (upstream,)))
    assert await ask(connection, "KEYS", "*") == []


def budget_row(period: str, cost_nano_usd: int = 10) -> Row:
    [budget] = budget_charges("kb:ci", Budget(nano_usd=100, period=period))
    return row((budget,), LIMITS, cost=Estimate(1, 1, 1, 2, cost_nano_usd=cost_nano_usd))


@pytest.mark.parametrize("period", PERIODS)
async def test_periods_end_when_the_calendar_says(admission: Admission, clock: Clock, period: str) -> None:
    charge = budget_row(period).charges[0]
    random = Random(period)
    first, last = (int(datetime(year, 1, 1, tzinfo=UTC).timestamp() * 1000) for year in (2090, 2500))
    ends = {bounds_ms(random.randint(first, last), charge.period_ms)[1] for _ in range(300)}
    for at_ms in sorted(ends | {each - 1 for each in ends}):
        clock.now_ms = at_ms
        await admission.seed([Seed(charge, at_ms, 0)])
        verdict = await admission.acquire(acquire(f"{at_ms}", budget_row(period)))
        await admission.settle(settle(f"{at_ms}", capacity=True))
        assert isinstance(verdict, Granted)
        assert verdict.levels[0].reset_ms == bounds_ms(at_ms, charge.period_ms)[1] - at_ms


async def test_a_budget_is_known_until_its_period_ends(admission: Admission, connection: Connection, clock: Clock) -> None:
    asked = budget_row("month")
    key, ends_ms = PREFIX + asked.charges[0].scope, bounds_ms(clock.now_ms, asked.charges[0].period_ms)[1]
    assert await admission.acquire(acquire("mine", asked)) == Unseeded(clock.now_ms, asked.charges[:1])
    assert await ask(connection, "KEYS", "*") == []
    await admission.seed([Seed(asked.charges[0], clock.now_ms, 5)])
    assert await ask(connection, "PEXPIRETIME", key) == ends_ms
    await admission.acquire(acquire("mine", asked))
    assert await ask(connection, "PTTL", key) == -1
    await admission.settle(settle("mine", capacity=True))
    assert await ask(connection, "PEXPIRETIME", key) == ends_ms


async def test_of_two_who_tell_the_first_is_believed(admission: Admission, clock: Clock) -> None:
    asked = budget_row("week")
    for spent in (95, 0):
        await admission.seed([Seed(asked.charges[0], clock.now_ms, spent)])
    assert isinstance(await admission.acquire(acquire("mine", asked)), Refused)


async def test_what_comes_late_does_not_make_a_budget_known(admission: Admission, connection: Connection, clock: Clock) -> None:
    asked = budget_row("month")
    await admission.seed([Seed(asked.charges[0], clock.now_ms, 5)])
    await admission.acquire(acquire("mine", asked))
    clock.now_ms += TTL_MS
    await admission.tick("w1", ())
    await ask(connection, "DEL", PREFIX + asked.charges[0].scope)
    assert (await admission.settle(settle("mine", Estimate(1, 1, 1, 2, cost_nano_usd=7)))).opened
    assert await ask(connection, "EXISTS", PREFIX + asked.charges[0].scope) == 0
    assert isinstance(await admission.acquire(acquire("next", asked)), Unseeded)
