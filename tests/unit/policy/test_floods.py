import pytest

from gateway.errors import RateLimited
from gateway.policy.catalogue import Limits
from gateway.policy.floods import TIMES, FloodGuard
from tests.catalogues import key


def test_a_key_may_ask_many_times_its_limit_and_no_more() -> None:
    guard, asking = FloodGuard(), key(limits=Limits(rpm=3))
    for _ in range(TIMES * 3):
        guard.count(asking, 1_000)
    with pytest.raises(RateLimited) as raised:
        guard.count(asking, 1_000)
    assert raised.value.retry_after_ms == 1_000
    guard.count(asking, 2_000)


def test_keys_do_not_share_a_guard_and_a_new_limit_starts_anew() -> None:
    guard = FloodGuard()
    for _ in range(TIMES):
        guard.count(key(limits=Limits(rpm=1)), 0)
    guard.count(key(id="k2", limits=Limits(rpm=1)), 0)
    guard.count(key(limits=Limits(rpm=2)), 0)


def test_a_key_without_a_limit_is_never_a_flood() -> None:
    guard = FloodGuard()
    for _ in range(100):
        guard.count(key(), 0)
