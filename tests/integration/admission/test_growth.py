"""Rates that grow with use, as the scripts keep them: beside holds of other tiers, over expiry, over a changed configuration."""

from msgspec.structs import replace

from gateway.admission.client import Admission
from gateway.admission.connection import Connection
from gateway.policy.answers import Granted, Growth, Refused
from gateway.policy.catalogue import Dynamic, Limits
from gateway.policy.charges import Charge, Dimension
from gateway.policy.claims import place_of
from gateway.policy.limits import MINUTE_MS, Bucket
from tests.integration.admission.rows import Clock, acquire, estimate, key_charges, progress, row, settle
from tests.integration.admission.state import PREFIX, ask, stored

WINDOW_MS = MINUTE_MS
DYNAMIC = Dynamic(window_ms=WINDOW_MS, ceiling_milli=1_800)
FIXED = Limits(rpm=10, tpm=600, concurrency=3)
LIMITS = key_charges(replace(FIXED, dynamic=DYNAMIC))
SLOTS = key_charges(Limits(concurrency=3))
CHARGES = {place_of(charge): charge for charge in LIMITS}


async def growths(admission: Admission, charged: tuple[Charge, ...] = LIMITS) -> list[Growth | None]:
    """Return how far limits have grown, by a request that uses nothing of them."""
    verdict = await admission.acquire(acquire("asks", row(charged, cost=estimate(0, 0))))
    assert isinstance(verdict, Granted | Refused)
    if isinstance(verdict, Granted):
        await admission.settle(settle("asks", capacity=True))
        await ask(admission._connection, "DEL", PREFIX + "done:asks")
    return [level.growth for level in verdict.levels if level.charge.dimension is not Dimension.CONCURRENCY]


async def use(admission: Admission, clock: Clock, windows: int) -> None:
    """Use all tokens of so many windows, from now on."""
    for window in range(windows):
        name = f"uses-{clock.now_ms}-{window}"
        await admission.acquire(acquire(name, row(LIMITS, cost=estimate(1, 0))))
        await admission.settle(settle(name, estimate(900, 0)))
        clock.now_ms += WINDOW_MS


async def test_a_window_of_use_makes_the_next_one_larger_up_to_the_ceiling(admission: Admission, clock: Clock) -> None:
    assert await growths(admission) == 2 * [Growth(1000, 0, WINDOW_MS)]
    for scale_milli in (1200, 1440, 1728, 1800, 1800):
        await use(admission, clock, 1)
        requests, tokens = await growths(admission)
        assert (requests, tokens) == (Growth(1000, 0, WINDOW_MS), Growth(scale_milli, 0, WINDOW_MS))


async def test_what_fits_is_told_by_the_scale_in_force(admission: Admission, clock: Clock) -> None:
    await use(admission, clock, 1)
    clock.now_ms += WINDOW_MS - 1
    refused = await admission.acquire(acquire("large", row(LIMITS, cost=estimate(721, 0))))
    assert isinstance(refused, Refused)
    assert refused.refusals[0].never
    granted = await admission.acquire(acquire("whole", row(LIMITS, cost=estimate(720, 0))))
    assert isinstance(granted, Granted)
    assert [level.charge.limit for level in granted.levels] == [10, 720, 3]


async def test_who_takes_no_rate_leaves_windows_as_they_are(admission: Admission, clock: Clock) -> None:
    await use(admission, clock, 2)
    await admission.acquire(acquire("flex", row(SLOTS)))
    await admission.settle(settle("flex"))
    assert (await growths(admission))[1] == Growth(1440, 0, WINDOW_MS)


async def test_a_long_stream_counts_in_the_windows_in_which_it_used(admission: Admission, clock: Clock) -> None:
    await admission.acquire(acquire("long", row(LIMITS, cost=estimate(100, 500))))
    for tokens in (600, 1_300, 1_900):
        await admission.progress([progress("long", estimate(0, tokens))])
        clock.now_ms += WINDOW_MS
    assert (await growths(admission))[1] == Growth(1440, 0, WINDOW_MS)


async def test_a_scope_stays_until_it_is_as_if_it_had_never_been(
    admission: Admission, connection: Connection, clock: Clock
) -> None:
    """The store forgets a scope no sooner than its figures say nothing any more."""
    await use(admission, clock, 5)
    forgotten_ms = int(await ask(connection, "PEXPIRETIME", PREFIX + "k:ci"))
    found = (await stored(connection, CHARGES, clock.now_ms)).buckets["k:ci", "tpm"]
    assert found[2] == 1800
    debt, held, scale_milli, began_ms, posted = found
    tokens = CHARGES["k:ci", Dimension.TPM]
    kept, fresh = Bucket(debt, clock.now_ms, held, scale_milli, began_ms, posted), Bucket()
    kept.fold(tokens, forgotten_ms)
    fresh.fold(tokens, forgotten_ms)
    assert kept == fresh


async def test_a_limit_that_is_told_to_grow_begins_at_its_base(
    admission: Admission, connection: Connection, clock: Clock
) -> None:
    fixed = key_charges(FIXED)
    await admission.acquire(acquire("before", row(fixed)))
    await admission.settle(settle("before", estimate(300, 0)))
    clock.now_ms += 1
    assert await growths(admission) == 2 * [Growth(1000, 0, WINDOW_MS)]
    await use(admission, clock, 1)
    await admission.acquire(acquire("since", row(fixed)))
    await admission.settle(settle("since", estimate(300, 0)))
    assert await growths(admission, fixed) == [None, None]
