"""Limits that are counted and refuse nothing: what is taken from them, what they would have said, and who hears of it."""

import pytest
from msgspec.structs import replace

from gateway.policy.answers import Granted, Level
from gateway.policy.catalogue import Limits, Tier, TierTerms
from gateway.policy.charges import Charge, Dimension, Estimate, Kind, Reach
from gateway.policy.charging import Target, limits_on, target_charges, tenant_of
from gateway.policy.estimates import smallest_bucket_tokens
from gateway.policy.floods import TIMES, FloodGuard
from gateway.policy.limits import MINUTE_MS, Bucket, charges, uses
from gateway.policy.shadows import DIMENSIONS, SCOPES, Shadows, is_beyond
from gateway.policy.tiers import Wish
from gateway.policy.verdicts import rate_headers
from tests.catalogues import key, model
from tests.unit.policy import leases
from tests.unit.policy.leases import Store, figures, row

EVERY = Limits(rpm=2, rpd=2, tpm=40, concurrency=1, shadow=True)


def shadows(limits: Limits = EVERY, scope: str = "k:ci") -> tuple[Charge, ...]:
    return charges(scope, limits, reach=Reach.REQUEST, tenant=True, ends_walk=True)


def test_a_shadow_never_ends_a_walk() -> None:
    assert {(charge.shadow, charge.ends_walk) for charge in shadows()} == {(True, False)}


def test_everything_is_granted_and_each_shadow_says_what_it_would_have_refused() -> None:
    store, told = Store(), []
    for number in range(4):
        granted = store.acquire(f"{number}", row(shadows(), cost=figures(10, 10)))
        assert isinstance(granted, Granted)
        assert granted.refusals == ()
        told.append(Shadows().met(granted.levels, figures(10, 10)))
    assert told[0] == ()
    assert told[1] == ("key:concurrency",)
    assert set(told[2]) == set(told[3]) == {"key:rpm", "key:rpd", "key:tpm", "key:concurrency"}


def test_what_is_no_shadow_refuses_beside_one() -> None:
    store, real = Store(), leases.key(Limits(rpm=1))
    mixed = (*real, *shadows(replace(EVERY, rpm=None)))
    assert isinstance(store.acquire("first", row(mixed)), Granted)
    assert not isinstance(store.acquire("second", row(mixed)), Granted)


def test_a_rate_keeps_no_more_than_it_holds_so_that_it_tells_how_things_stand() -> None:
    store, [rpm] = Store(), shadows(Limits(rpm=2, shadow=True))
    for number in range(50):
        store.acquire(f"{number}", row((rpm,)))
        store.settle(f"{number}")
    store.now_ms += MINUTE_MS
    granted = store.acquire("later", row((rpm,)))
    assert isinstance(granted, Granted)
    assert Shadows().met(granted.levels, figures()) == ()


def test_a_bucket_that_is_over_already_is_not_lowered_by_what_comes() -> None:
    [rpm] = shadows(Limits(rpm=2, shadow=True))
    bucket = Bucket(debt=5 * MINUTE_MS)
    bucket.post(rpm, 1)
    assert bucket.debt == 5 * MINUTE_MS


def test_a_request_is_told_of_once_by_each_shadow_that_it_meets() -> None:
    def full(scope: str) -> Level:
        [charge] = shadows(Limits(rpm=1, shadow=True), scope)
        return Level(charge, level=1, held=1, reset_ms=0)

    met = Shadows()
    assert met.met([full("k:ci"), full("km:ci:a")], figures()) == ("key:rpm", "key_model:rpm")
    assert met.met([full("k:ci"), full("km:ci:b")], figures()) == ("key_model:rpm",)


def test_who_takes_nothing_is_refused_by_nobody() -> None:
    [tpm] = shadows(Limits(tpm=1, shadow=True))
    assert not is_beyond(Level(tpm, 5, 5, 0), cost=0)
    assert is_beyond(Level(tpm, 5, 5, 0), cost=1)
    assert not is_beyond(Level(replace(tpm, kind=Kind.USE), 5, 5, 0), cost=1)


@pytest.mark.parametrize(("scope", "owner"), [*zip(("k:x", "km:x:m", "p:o:p", "o:x", "om:x:m", "m:x"), SCOPES, strict=True)])
def test_every_scope_has_its_word(scope: str, owner: str) -> None:
    levels = [Level(charge, charge.capacity, 1, 0) for charge in shadows(replace(EVERY, tpm_in=1, tpm_out=1), scope)]
    found = Shadows().met(levels, Estimate(1, 1, 1, 2))
    assert [word.partition(":") for word in found] == [(owner, ":", dimension) for dimension in DIMENSIONS]


def test_clients_hear_nothing_of_shadows() -> None:
    assert rate_headers([Level(charge, 0, 0, 0) for charge in shadows()]) == []


def test_no_hold_is_made_smaller_and_no_flood_is_shed_for_a_shadow() -> None:
    [tpm] = shadows(Limits(tpm=5, shadow=True))
    assert smallest_bucket_tokens((tpm, replace(tpm, capacity=9, shadow=False))) == 9
    guard, asking = FloodGuard(), key(limits=Limits(rpm=1, shadow=True))
    for _ in range(TIMES + 5):
        guard.count(asking, Wish(Tier.DEFAULT), 1_000)


def test_service_over_a_shadow_counts_for_its_growth_like_any_other() -> None:
    assert [charge.dimension for charge in uses(shadows())] == []


def test_slots_of_a_key_and_model_are_shadows_with_the_limits_that_say_how_many() -> None:
    plain = key(limits=Limits(shadow=True), concurrency_per_model=3)
    own = key(limits=Limits(shadow=True), concurrency_per_model=3, per_model={"m": Limits(rpm=1)})
    for asking, shadow in ((plain, True), (own, False)):
        (_, limits, _), _ = limits_on(tenant_of(asking, {}), "m")
        assert (limits.concurrency, limits.shadow) == (3, shadow)


def test_rates_and_slots_of_one_scope_are_shadows_alike() -> None:
    target_model = model("m")
    found = target_charges(
        tenant_of(key(limits=EVERY), {}),
        Target(target_model, target_model.deployments[0], Tier.DEFAULT),
        TierTerms(),
        walks_past_rates=False,
    )
    own = [charge for charge in found if charge.scope.startswith("k:")]
    assert {charge.dimension for charge in own} == {Dimension.RPM, Dimension.RPD, Dimension.TPM, Dimension.CONCURRENCY}
    assert all(charge.shadow for charge in own)
    assert not any(charge.shadow for charge in found if charge.scope.startswith("d:"))
