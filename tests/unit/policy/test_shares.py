"""What one gateway of several may grant alone: together never more than the limit, and never nothing."""

from hypothesis import given
from hypothesis import strategies as st

from gateway.errors import FlexNoCapacity
from gateway.policy import verdicts
from gateway.policy.admission import Kind, Row, Upstream
from gateway.policy.answers import Granted, Refusal, Refused
from gateway.policy.catalogue import Budget, Dynamic, Limits, Tier
from gateway.policy.limits import budget_charge
from gateway.policy.shares import placed, shared, without_flex
from tests.unit.policy.leases import deployment, figures, key

LIMITS = Limits(rpm=60, tpm=6_000, rpd=100, concurrency=10)


def row(tier: Tier = Tier.DEFAULT, limits: Limits = LIMITS, tokens: int = 10) -> Row:
    return Row(Upstream(), "a", tier, key(limits) + deployment("a/one", Limits(concurrency=7)), figures(tokens, tokens))


def test_a_share_of_each_kind_is_rounded_as_it_must_be() -> None:
    _, [one] = shared([row()], 4)
    assert [(charge.capacity, charge.rate) for charge in one.charges] == [(15, 15), (25, 0), (1_500, 1_500), (3, 0), (1, 0)]
    assert [charge.limit for charge in one.charges] == [60, 100, 6_000, 10, 7]


def test_one_request_that_the_whole_bucket_would_hold_fits() -> None:
    _, [one] = shared([row(tokens=2_000)], 4)
    assert next(charge.capacity for charge in one.charges if charge.dimension == "tpm") == 4_000


def test_only_priority_and_default_are_served_and_keep_their_places() -> None:
    rows = [row(tier) for tier in (Tier.FLEX, Tier.DEFAULT, Tier.OVER_LIMIT, Tier.NO_LIMIT, Tier.PRIORITY)]
    places, found = shared(rows, 1)
    assert (places, [each.tier for each in found]) == ((1, 4), [Tier.DEFAULT, Tier.PRIORITY])
    refused = Refusal(0, found[0].charges[0], None)
    granted = placed(Granted(1, 7, (), (refused,)), places)
    assert isinstance(granted, Granted)
    assert (granted.row, granted.refusals[0].row, granted.local) == (4, 1, True)
    assert placed(Refused(7, (refused,), ()), places).refusals[0].row == 1


def test_flex_hears_that_nothing_is_left_and_what_nobody_counts_hears_nothing() -> None:
    refused = without_flex([row(Tier.NO_LIMIT), row(Tier.FLEX)], 7)
    assert refused is not None
    assert ([each.row for each in refused.refusals], refused.local) == ([1], True)
    assert isinstance(verdicts.refused([row(Tier.NO_LIMIT), row(Tier.FLEX)], refused.refusals), FlexNoCapacity)
    assert without_flex([row(Tier.NO_LIMIT)], 7) is None


def test_limits_are_as_they_are_written_however_far_they_have_grown() -> None:
    _, [one] = shared([row(limits=Limits(rpm=60, tpm=6_000, dynamic=Dynamic(window_ms=1_000, ceiling_milli=2_000)))], 4)
    assert [(charge.capacity, charge.dynamic) for charge in one.charges] == [(15, None), (1_500, None), (1, None)]


@given(st.integers(1, 10_000), st.integers(1, 10_000), st.integers(1, 50))
def test_all_shares_together_are_the_limit_where_it_can_be_shared(rpm: int, concurrency: int, gateways: int) -> None:
    limits = Limits(rpm=rpm, concurrency=concurrency)
    _, [one] = shared([Row(Upstream(), "a", Tier.DEFAULT, key(limits), figures())], gateways)
    for charge, limit in zip(one.charges, (rpm, concurrency), strict=True):
        assert charge.capacity >= 1
        if limit >= gateways and charge.kind is Kind.RATE:
            assert charge.capacity * gateways <= limit
            assert charge.rate * gateways <= limit
        assert charge.capacity * gateways < limit + gateways or charge.capacity == 1


def test_nothing_that_spends_a_budget_is_served_alone() -> None:
    budget = budget_charge("kb:ci", Budget(nano_usd=10**12))
    spends = Row(Upstream(), "a", Tier.DEFAULT, (budget, *key(LIMITS)), figures())
    assert shared([spends], 4) == ((), ())
