"""What one gateway of several may grant alone: together never more than the limit, and never nothing."""

from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from gateway.errors import FlexNoCapacity
from gateway.policy import verdicts
from gateway.policy.admission import Row, Upstream
from gateway.policy.allowances import Allowances
from gateway.policy.answers import Granted, Level, Refusal, Refused
from gateway.policy.catalogue import Budget, Dynamic, Limits, Tier
from gateway.policy.charges import Kind
from gateway.policy.limits import budget_charges
from gateway.policy.shares import Waived, placed, shared, without_flex
from tests.unit.policy.leases import deployment, figures, key

USD = 10**9
[BUDGET] = budget_charges("kb:ci", Budget(nano_usd=1_000 * USD))
LIMITS = Limits(rpm=60, tpm=6_000, rpd=100, concurrency=10)


def row(tier: Tier = Tier.DEFAULT, limits: Limits = LIMITS, tokens: int = 10) -> Row:
    return Row(Upstream(), "a", tier, key(limits) + deployment("a/one", Limits(concurrency=7)), figures(tokens, tokens))


def test_a_share_of_each_kind_is_rounded_as_it_must_be() -> None:
    _, [one] = shared([row()], 4, Allowances())
    assert [(charge.capacity, charge.rate) for charge in one.charges] == [(15, 15), (25, 0), (1_500, 1_500), (3, 0), (1, 0)]
    assert [charge.limit for charge in one.charges] == [60, 100, 6_000, 10, 7]


def test_one_request_that_the_whole_bucket_would_hold_fits() -> None:
    _, [one] = shared([row(tokens=2_000)], 4, Allowances())
    assert next(charge.capacity for charge in one.charges if charge.dimension == "tpm") == 4_000


def test_only_priority_and_default_are_served_and_keep_their_places() -> None:
    rows = [row(tier) for tier in (Tier.FLEX, Tier.DEFAULT, Tier.OVER_LIMIT, Tier.NO_LIMIT, Tier.PRIORITY)]
    places, found = shared(rows, 1, Allowances())
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
    assert isinstance(verdicts.refused([row(Tier.NO_LIMIT), row(Tier.FLEX)], refused.refusals, 7), FlexNoCapacity)
    assert without_flex([row(Tier.NO_LIMIT)], 7) is None


def test_what_is_waived_holds_nobody_and_protects_providers_all_the_same() -> None:
    poor = row(limits=Limits(rpm=60, rpd=100, concurrency=10))
    poor = replace(poor, charges=(BUDGET, *poor.charges), estimate=replace(poor.estimate, cost_nano_usd=1))
    assert shared([poor], 4, Allowances()) == ((), ())
    assert shared([poor], 4, Allowances(), Waived(rates=True)) == ((), ()), "money is another matter"
    _, [spends] = shared([poor], 4, Allowances(), Waived(budgets=True))
    assert [(charge.dimension, charge.capacity) for charge in spends.charges] == [
        ("rpm", 15),
        ("rpd", 25),
        ("conc", 3),
        ("conc", 1),
    ]
    _, [held] = shared([poor], 4, Allowances(), Waived(rates=True, budgets=True))
    assert [(charge.dimension, charge.tenant) for charge in held.charges] == [("conc", True), ("conc", False)]


def test_limits_are_as_they_are_written_however_far_they_have_grown() -> None:
    _, [one] = shared(
        [row(limits=Limits(rpm=60, tpm=6_000, dynamic=Dynamic(window_ms=1_000, ceiling_milli=2_000)))], 4, Allowances()
    )
    assert [(charge.capacity, charge.dynamic) for charge in one.charges] == [(15, None), (1_500, None), (1, None)]


@given(st.integers(1, 10_000), st.integers(1, 10_000), st.integers(1, 50))
def test_all_shares_together_are_the_limit_where_it_can_be_shared(rpm: int, concurrency: int, gateways: int) -> None:
    limits = Limits(rpm=rpm, concurrency=concurrency)
    _, [one] = shared([Row(Upstream(), "a", Tier.DEFAULT, key(limits), figures())], gateways, Allowances())
    for charge, limit in zip(one.charges, (rpm, concurrency), strict=True):
        assert charge.capacity >= 1
        if limit >= gateways and charge.kind is Kind.RATE:
            assert charge.capacity * gateways <= limit
            assert charge.rate * gateways <= limit
        assert charge.capacity * gateways < limit + gateways or charge.capacity == 1


def spends(nano_usd: int) -> Row:
    estimate = replace(figures(), cost_nano_usd=nano_usd)
    return Row(Upstream(), "a", Tier.DEFAULT, (BUDGET, *key(LIMITS)), estimate)


def known(left_usd: float) -> Allowances:
    allowances = Allowances()
    spent, held = BUDGET.capacity - round(left_usd * USD), 5 * USD
    allowances.note((Level(BUDGET, spent - held, held, 0), Level(key(LIMITS)[0], 1, 1, 0)))
    return allowances


def test_of_a_budget_a_two_hundredth_is_spent_alone_and_no_more_than_its_share_of_what_was_left() -> None:
    assert shared([spends(1)], 4, Allowances()) == ((), ()), "nothing is known of it"
    for left_usd, gateways, usd in ((400, 4, 5), (21, 4, 5), (400, 100, 4), (20, 4, 5)):
        _, [one] = shared([spends(1)], gateways, known(left_usd))
        assert (one.charges[0].capacity, one.charges[0].limit) == (usd * USD, 1_000 * USD)
    assert shared([spends(5 * USD)], 4, known(400))[0] == (0,)
    assert shared([spends(5 * USD + 1)], 4, known(400)) == ((), ()), "it costs more than that"
    assert shared([spends(1)], 4, known(19.99)) == ((), ()), "little was left, and may be gone"


def test_less_than_a_dollar_is_little_of_any_budget() -> None:
    [small] = budget_charges("kb:ci", Budget(nano_usd=2 * USD))
    allowances = Allowances()
    allowances.note((Level(small, USD, 0, 0),))
    assert allowances.of(small, 1) == USD // 100
    allowances.note((Level(small, USD + 1, 0, 0),))
    assert allowances.of(small, 1) == 0


def test_of_tokens_a_share_is_little_and_no_figure() -> None:
    [small] = budget_charges("kb:ci", Budget(tokens=1_000))
    allowances = Allowances()
    assert allowances.of(small, 1) == 0, "nothing is known of it"
    for left, allowed in ((1_000, 5), (20, 5), (19, 0)):
        allowances.note((Level(small, 1_000 - left, 0, 0),))
        assert allowances.of(small, 1) == allowed
    asking = replace(spends(0), charges=(small, *key(LIMITS)), estimate=replace(figures(), budget_tokens=6))
    allowances.note((Level(small, 0, 0, 0),))
    assert not allowances.cover(asking, 1)
    assert allowances.cover(replace(asking, estimate=replace(figures(), budget_tokens=5)), 1)


@given(st.integers(0, 10**15), st.integers(0, 10**15), st.integers(1, 100))
def test_all_allowances_together_never_pass_what_was_left(whole: int, spent: int, gateways: int) -> None:
    [budget] = budget_charges("kb:ci", Budget(nano_usd=whole))
    allowances = Allowances()
    allowances.note((Level(budget, spent, 0, 0),))
    assert gateways * allowances.of(budget, gateways) <= max(0, whole - spent)
    assert allowances.of(budget, gateways) * 200 <= whole
