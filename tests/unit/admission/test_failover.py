from gateway.admission.local import Local
from gateway.policy.admission import Acquire, Lesson, Row, Settle, Upstream
from gateway.policy.answers import Granted
from gateway.policy.catalogue import Limits, Tier
from gateway.policy.charges import Estimate, Reach
from gateway.policy.limits import charges

COST = Estimate(1, 10, 20, 30)
ROW = Row(Upstream(), "m", Tier.DEFAULT, charges("k:ci", Limits(rpm=60), reach=Reach.REQUEST, tenant=True), COST)


def test_a_worker_alone_learns_nothing() -> None:
    local = Local(lambda: 1_000)
    assert isinstance(local.decide(Acquire("mine", (ROW,), 30_000, b""), 1), Granted)
    lesson = Lesson("acme", "m", 500_000, 100)
    local.settle(Settle("mine", capacity=False, actual=COST, closed=b"", lesson=lesson))
    assert "mine" not in local
    assert local._buckets.learning.ratios == {}
