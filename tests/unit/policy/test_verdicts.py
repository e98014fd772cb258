import pytest

from gateway.errors import Draining, GatewayError, Internal, LimiterUnavailable, RateLimited
from gateway.faults import Failed, Fault
from gateway.policy.admission import Row, Upstream
from gateway.policy.answers import Cause, Growth, Level, Refusal
from gateway.policy.catalogue import Budget, Dynamic, Limits, Tier
from gateway.policy.charges import Charge, Dimension, Estimate, Kind, Reach, Unit
from gateway.policy.growth import at_scale
from gateway.policy.limits import budget_charges, charges
from gateway.policy.record import Outcome
from gateway.policy.verdicts import duration, exhausted, outcome, rate_headers, refused, telling

DYNAMIC = Dynamic(window_ms=900_000, ceiling_milli=20_000)
ESTIMATE = Estimate(1, 10, 90, 100)


NOW_MS = 1_790_942_400_000
"""12:00 UTC of a Friday, 2026-10-02."""


def charge(dimension: Dimension = Dimension.RPM, *, tenant: bool = True, ends_walk: bool = True, limit: int = 10) -> Charge:
    unit = {Dimension.RPM: Unit.REQUEST, Dimension.CONCURRENCY: Unit.SLOT}.get(dimension, Unit.TOTAL)
    kind = Kind.HELD if unit is Unit.SLOT else Kind.RATE
    return Charge(
        "k:1" if tenant else "d:1", dimension, kind, unit, Reach.REQUEST, limit, limit, 60_000, limit, tenant, ends_walk
    )


def row(tier: Tier = Tier.DEFAULT) -> Row:
    return Row(Upstream(), "m", tier, (), ESTIMATE)


OWN, ROOM = charge(), charge(Dimension.CONCURRENCY, tenant=False, ends_walk=False)
PASSED = charge(ends_walk=False)


def no(at: int, by: Charge, wait_ms: int | None = 700, *, never: bool = False) -> Refusal:
    return Refusal(at, by, wait_ms, Cause.TOO_LARGE if never else Cause.LIMIT)


OFF = Refusal(0, ROOM, None, Cause.DISABLED)


@pytest.mark.parametrize(
    ("rows", "refusals", "code", "wait_ms"),
    [
        pytest.param([row()], [no(0, OWN)], "rate_limit_exceeded", 700, id="the caller's own limit"),
        pytest.param([row()], [no(0, ROOM, None)], "engine_overloaded", 1000, id="no room, and nobody knows when"),
        pytest.param([row(), row()], [no(0, ROOM, 900), no(1, ROOM, 300)], "engine_overloaded", 300, id="the soonest room"),
        pytest.param([row(Tier.FLEX)], [no(0, ROOM, None)], "flex_no_capacity", 1000, id="flex has words of its own"),
        pytest.param([row(Tier.FLEX)], [no(0, OWN)], "rate_limit_exceeded", 700, id="flex over its own guard"),
        pytest.param(
            [row(), row(Tier.OVER_LIMIT)],
            [no(0, PASSED), no(1, ROOM, None)],
            "rate_limit_exceeded",
            700,
            id="over the limit, without room",
        ),
        pytest.param(
            [row(), row(Tier.OVER_LIMIT)], [no(0, ROOM, None), no(1, ROOM, None)], "engine_overloaded", 1000, id="within it, full"
        ),
        pytest.param(
            [row(), row()], [no(0, PASSED), no(1, ROOM, None)], "engine_overloaded", 1000, id="one was within the limits"
        ),
        pytest.param([row(), row()], [no(0, ROOM, None), no(1, OWN)], "rate_limit_exceeded", 700, id="what ended the walk"),
        pytest.param([row(), row()], [OFF, OFF], "upstream_unavailable", 1000, id="nobody in service"),
        pytest.param([row(), row()], [OFF, no(1, ROOM, 300)], "engine_overloaded", 300, id="out of service, or full"),
    ],
)
def test_three_causes_stay_apart(rows: list[Row], refusals: list[Refusal], code: str, wait_ms: int) -> None:
    error = refused(rows, refusals, NOW_MS)
    assert (error.error_code, error.retry_after_ms) == (code, wait_ms)


@pytest.mark.parametrize(
    ("dimension", "kind", "text"),
    [
        (Dimension.RPM, "requests", "requests per minute (RPM): limit 10"),
        (Dimension.TPM, "tokens", "tokens per minute (TPM): limit 10"),
        (Dimension.CONCURRENCY, "requests", "Rate limited: 10 concurrent requests"),
    ],
)
def test_a_refusal_names_its_limit(dimension: Dimension, kind: str, text: str) -> None:
    error = refused([row()], [no(0, charge(dimension))], NOW_MS)
    assert isinstance(error, RateLimited)
    assert error.error_type == kind
    assert text in error.message


def test_a_limit_of_a_project_names_it() -> None:
    [rpm, slots] = charges("p:acme:search", Limits(rpm=10, concurrency=3), reach=Reach.REQUEST, tenant=True, ends_walk=True)
    assert "requests per minute (RPM) of this project: limit 10" in refused([row()], [no(0, rpm)], NOW_MS).message
    assert "3 concurrent requests of this project are running" in refused([row()], [no(0, slots)], NOW_MS).message


def test_what_can_never_fit_says_so_and_suggests_no_wait() -> None:
    error = refused([row()], [no(0, charge(Dimension.TPM), None, never=True)], NOW_MS)
    assert (error.error_type, error.retryable, error.retry_after_ms) == ("tokens", False, None)
    assert "too large" in error.message
    assert "requested 100" in error.message


@pytest.mark.parametrize(
    ("failed", "tier", "code", "books"),
    [
        (Failed(fault=Fault.BUSY), Tier.DEFAULT, "engine_overloaded", "upstream_error"),
        (Failed(fault=Fault.ACCOUNT_RATE), Tier.DEFAULT, "engine_overloaded", "upstream_error"),
        (Failed(fault=Fault.BUSY), Tier.FLEX, "flex_no_capacity", "upstream_error"),
        (Failed(fault=Fault.CONNECT), Tier.DEFAULT, "upstream_unavailable", "upstream_error"),
        (Failed(fault=Fault.SERVER), Tier.DEFAULT, "upstream_unavailable", "upstream_error"),
        (Failed(fault=Fault.STALE_MODEL), Tier.DEFAULT, "upstream_unavailable", "upstream_error"),
        (Failed(fault=Fault.BAD_ANSWER), Tier.DEFAULT, "upstream_bad_response", "upstream_error"),
        (Failed(fault=Fault.CREDENTIAL), Tier.DEFAULT, "upstream_auth_error", "upstream_error"),
        (Failed(fault=Fault.TIMEOUT), Tier.DEFAULT, "upstream_timeout", "timeout"),
        (Failed(fault=Fault.REJECTED, status=400, code="invalid_value"), Tier.DEFAULT, "invalid_value", "client_error"),
    ],
)
def test_a_failed_provider_is_told_apart(failed: Failed, tier: Tier, code: str, books: str) -> None:
    error = exhausted(failed, tier, [])
    assert (error.error_code, outcome(error)) == (code, books)


def test_every_fault_has_words() -> None:
    for fault in Fault:
        assert exhausted(Failed(fault=fault, status=400), Tier.DEFAULT, []).message


def test_the_smallest_hint_is_passed_on() -> None:
    assert exhausted(Failed(fault=Fault.BUSY), Tier.DEFAULT, [7000, 3000]).retry_after_ms == 3000


def test_headers_show_the_tightest_of_the_callers_own_limits() -> None:
    levels = [
        Level(charge(limit=100), level=10, held=5, reset_ms=6000),
        Level(charge(limit=20), level=10, held=4, reset_ms=400),
        Level(charge(Dimension.TPM, limit=9), level=12, held=0, reset_ms=61_000),
        Level(charge(Dimension.TPM, tenant=False, limit=1), level=1, held=0, reset_ms=1),
    ]
    assert dict(rate_headers(levels)) == {
        b"x-ratelimit-limit-requests": b"20",
        b"x-ratelimit-remaining-requests": b"6",
        b"x-ratelimit-reset-requests": b"400ms",
        b"x-ratelimit-limit-tokens": b"9",
        b"x-ratelimit-remaining-tokens": b"0",
        b"x-ratelimit-reset-tokens": b"1m1s",
    }
    assert rate_headers([Level(ROOM, 0, 0, 0)]) == []


def growing(limits: Limits, *growths: Growth) -> list[Level]:
    """Return what is told of limits that have grown so far, each with a fifth of its minute used."""
    found = []
    for written, growth in zip(charges("k:1", limits, reach=Reach.REQUEST, tenant=True), growths, strict=True):
        at = at_scale(written, growth.scale_milli)
        found.append(Level(at, level=at.limit // 5, held=0, reset_ms=0, growth=growth))
    return found


def test_headers_show_how_far_the_keys_limits_have_grown() -> None:
    limits = Limits(rpm=10, tpm=1_000, tpm_out=500, dynamic=Dynamic(window_ms=120_000, ceiling_milli=20_000))
    levels = growing(limits, Growth(1200, 6, 9_001), Growth(1000, 400, 9_000), Growth(1440, 1_080, 9_500))
    tighter_org = Level(charge(limit=3), level=1, held=0, reset_ms=0)
    assert dict(rate_headers([*levels, tighter_org])) == {
        b"x-ratelimit-limit-requests": b"3",
        b"x-ratelimit-remaining-requests": b"2",
        b"x-ratelimit-reset-requests": b"0ms",
        b"x-ratelimit-limit-tokens": b"720",
        b"x-ratelimit-remaining-tokens": b"576",
        b"x-ratelimit-reset-tokens": b"0ms",
        b"x-ratelimit-dynamic-scale-requests": b"1.20",
        b"x-ratelimit-dynamic-scale-tokens": b"1.44",
        b"x-ratelimit-dynamic-period-remaining": b"9s",
        b"x-ratelimit-dynamic-period-usage-requests": b"25%",
        b"x-ratelimit-dynamic-period-usage-tokens": b"75%",
    }


def test_a_kind_that_does_not_grow_has_no_headers_of_it() -> None:
    names = [name for name, _ in rate_headers(growing(Limits(rpm=10, dynamic=DYNAMIC), Growth(1000, 0, 900_000)))]
    assert [name for name in names if b"dynamic" in name] == [
        b"x-ratelimit-dynamic-scale-requests",
        b"x-ratelimit-dynamic-period-remaining",
        b"x-ratelimit-dynamic-period-usage-requests",
    ]


@pytest.mark.parametrize(
    ("milliseconds", "text"),
    [(0, b"0ms"), (12, b"12ms"), (1000, b"1s"), (1001, b"2s"), (360_000, b"6m0s"), (3_600_000, b"1h0m0s")],
)
def test_durations_read_as_in_go(milliseconds: int, text: bytes) -> None:
    assert duration(milliseconds) == text


@pytest.mark.parametrize("error", [Draining("x"), Internal("x"), LimiterUnavailable("x")])
def test_what_the_gateway_itself_ended_is_no_fault_of_a_provider(error: GatewayError) -> None:
    assert outcome(error) is Outcome.INTERRUPTED


def test_a_limit_that_ends_a_walk_comes_after_a_providers_failure() -> None:
    assert outcome(RateLimited("x", dimension="requests")) is Outcome.UPSTREAM_ERROR


@pytest.mark.parametrize(
    ("owner", "words"),
    [
        ("kb:k1", "may cost more than is left of the budget of this key, 2.5 USD a week"),
        ("pb:a:s", "may cost more than is left of the budget of this project, 2.5 USD a week"),
        ("ob:a", "may cost more than is left of the budget of this organization, 2.5 USD a week"),
        ("ob:a:tokens", "may take more than is left of the budget of this organization, 7000 tokens a week"),
    ],
)
def test_a_budget_ends_the_walk_whatever_else_refused(owner: str, words: str) -> None:
    both = budget_charges(owner.removesuffix(":tokens"), Budget(nano_usd=2_500_000_000, tokens=7_000, period="week"))
    spent = both[owner.endswith(":tokens")]
    words = f"{words}, which begins anew on 2026-10-05 at 00:00 UTC"
    for refusals in ([no(0, spent, None, never=True)], [no(0, ROOM), no(1, spent, None)], [no(0, PASSED), no(1, spent)]):
        error = refused([row(), row()], refusals, NOW_MS)
        assert (error.error_code, error.error_type, error.retryable) == ("insufficient_quota", "insufficient_quota", False)
        assert (error.retry_after_ms, words in error.message) == (None, True)


@pytest.mark.parametrize(
    ("earlier", "later", "told"),
    [
        (None, Fault.SERVER, "later"),
        (Fault.BUSY, Fault.SERVER, "later"),
        (Fault.SERVER, Fault.BUSY, "later"),
        (Fault.BUSY, Fault.REJECTED, "later"),
        (Fault.REJECTED, Fault.REJECTED, "later"),
        *((Fault.REJECTED, fault, "earlier") for fault in Fault if fault is not Fault.REJECTED),
        *((fault, Fault.CREDENTIAL, "earlier") for fault in (Fault.BUSY, Fault.ACCOUNT_RATE, Fault.TIMEOUT, Fault.SERVER)),
        *((Fault.BUSY, fault, "earlier") for fault in (Fault.CREDENTIAL, Fault.BILLING, Fault.STALE_MODEL)),
        (Fault.CREDENTIAL, Fault.BILLING, "later"),
        (Fault.CREDENTIAL, Fault.BUSY, "later"),
    ],
)
def test_the_client_hears_of_what_it_can_act_on(earlier: Fault | None, later: Fault, told: str) -> None:
    before, after = None if earlier is None else Failed(fault=earlier), Failed(fault=later)
    assert telling(before, after) is (before if told == "earlier" else after)
