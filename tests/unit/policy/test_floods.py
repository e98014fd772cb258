import pytest

from gateway.errors import RateLimited
from gateway.policy.catalogue import Limits, Tier
from gateway.policy.floods import TIMES, FloodGuard
from gateway.policy.tiers import Wish
from tests.catalogues import key

DEFAULT = Wish(Tier.DEFAULT)


def test_a_key_may_ask_many_times_its_limit_and_no_more() -> None:
    guard, asking = FloodGuard(), key(limits=Limits(rpm=3))
    for _ in range(TIMES * 3):
        guard.count(asking, DEFAULT, 1_000)
    with pytest.raises(RateLimited) as raised:
        guard.count(asking, DEFAULT, 1_000)
    assert raised.value.retry_after_ms == 1_000
    guard.count(asking, DEFAULT, 2_000)


def test_what_could_not_be_read_counts_too() -> None:
    guard, asking = FloodGuard(), key(limits=Limits(rpm=1))
    for _ in range(TIMES):
        guard.count(asking, None, 0)
    with pytest.raises(RateLimited):
        guard.count(asking, None, 0)
    with pytest.raises(RateLimited):
        guard.count(asking, DEFAULT, 0)


def test_keys_do_not_share_a_guard_and_a_new_limit_starts_anew() -> None:
    guard = FloodGuard()
    for _ in range(TIMES):
        guard.count(key(limits=Limits(rpm=1)), DEFAULT, 0)
    guard.count(key(id="k2", limits=Limits(rpm=1)), DEFAULT, 0)
    guard.count(key(limits=Limits(rpm=2)), DEFAULT, 0)


def test_a_key_without_a_limit_is_never_a_flood() -> None:
    guard = FloodGuard()
    for _ in range(100):
        guard.count(key(), DEFAULT, 0)


@pytest.mark.parametrize("wanted", [Wish(Tier.FLEX), Wish(Tier.NO_LIMIT), Wish(Tier.DEFAULT, overflow=True)])
def test_a_tier_that_the_limit_does_not_hold_for_is_never_a_flood(wanted: Wish) -> None:
    guard, asking = FloodGuard(), key(limits=Limits(rpm=1))
    for _ in range(2 * TIMES):
        guard.count(asking, wanted, 0)
    guard.count(asking, DEFAULT, 0)
