"""How candidates end."""

import pytest

from gateway.faults import Failed, Fault
from gateway.policy.answers import Cause, Refusal
from gateway.policy.catalogue import Limits, Tier
from gateway.policy.charges import Reach
from gateway.policy.ends import End, end_of, refused_attempt, refused_end
from gateway.policy.limits import charges
from gateway.policy.record import Attempt
from gateway.policy.routing import Planner
from gateway.policy.tiers import Wish
from gateway.policy.trace import reason_of
from tests.catalogues import catalogue, key, model, request

ROOM = charges("d:a/one", Limits(concurrency=1), reach=Reach.DEPLOYMENT, tenant=False)[0]


@pytest.mark.parametrize("fault", list(Fault))
def test_a_failure_is_one_credentials_alone_where_the_account_was_refused_and_nothing_was_taken(fault: Fault) -> None:
    alone = fault in (Fault.ACCOUNT_RATE, Fault.CREDENTIAL, Fault.BILLING)
    for sent in (False, True):
        assert end_of(3, Failed(fault=fault, sent=sent)) == End(3, fault.end_class, sent, alone)


def test_a_refusal_ends_what_was_refused_and_its_trail_says_why() -> None:
    refusal = Refusal(0, ROOM, 700, Cause.COOLING)
    assert refused_end(2, refusal) == End(2, "capacity", sent=False, alone=True)
    [candidate] = Planner(catalogue(model("A"))).plan(key(), request("A"), Wish(Tier.DEFAULT), dice=1).candidates
    assert refused_attempt(candidate.target, refusal) == Attempt(
        model="A", provider="p", status=429, outcome="refused", sent=False, reason=reason_of(refusal)
    )
