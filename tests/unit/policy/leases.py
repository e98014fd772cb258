"""The reference with its events, small scopes that are easily full, and candidate rows over them."""

from gateway.policy.admission import Acquire, Ending, Progress, Row, Settle, Sign, Switch, Upstream
from gateway.policy.answers import Posted, Verdict
from gateway.policy.catalogue import Limits, Tier
from gateway.policy.charges import Charge, Dimension, Estimate, Reach
from gateway.policy.claims import Event, place_of
from gateway.policy.leases import Buckets
from gateway.policy.limits import DAY_MS, charges, weight

NOW_MS = 20_000 * DAY_MS
TTL_MS = 30_000


def key(limits: Limits, *, ends_walk: bool = True) -> tuple[Charge, ...]:
    return charges("k:ci", limits, reach=Reach.REQUEST, tenant=True, ends_walk=ends_walk)


def model(name: str, limits: Limits) -> tuple[Charge, ...]:
    return charges(f"m:{name}", limits, reach=Reach.MODEL, tenant=False)


def deployment(name: str, limits: Limits) -> tuple[Charge, ...]:
    return charges(f"d:{name}", limits, reach=Reach.DEPLOYMENT, tenant=False)


def figures(tokens_in: int = 10, tokens_out: int = 20, request: int = 1) -> Estimate:
    return Estimate(request, tokens_in, tokens_out, tokens_in + tokens_out)


def row(*groups: tuple[Charge, ...], cost: Estimate | None = None) -> Row:
    return Row(Upstream(), "a", Tier.DEFAULT, sum(groups, ()), cost or figures())


class Store:
    """The reference with its events, and calls short enough to read."""

    def __init__(self) -> None:
        self.events: list[Event] = []
        self.buckets = Buckets(self.events.append)
        self.now_ms = NOW_MS

    def acquire(self, lease_id: str, *rows: Row) -> Verdict:
        return self.buckets.acquire(Acquire(lease_id, rows, TTL_MS, b""), self.now_ms)

    def switch(self, lease_id: str, *rows: Row, capacity: bool = False) -> Verdict:
        return self.buckets.switch(Switch(lease_id, Ending(Sign.BUSY if capacity else Sign.FAULT), rows, TTL_MS), self.now_ms)

    def settle(self, lease_id: str, actual: Estimate | None = None, *, capacity: bool = False, certain: bool = True) -> Posted:
        return self.buckets.settle(Settle(lease_id, capacity, actual or figures(), b"", certain), self.now_ms)

    def progress(self, lease_id: str, so_far: Estimate) -> tuple[str, ...]:
        return self.buckets.progress([Progress(lease_id, so_far)], self.now_ms)

    def level(self, scope: str, dimension: Dimension) -> tuple[int, int]:
        """Return what is posted and what is held, in units."""
        for lease_charges in (RPM, TPM, RPD, SLOTS, *OTHERS):
            for charge in lease_charges:
                if place_of(charge) == (scope, dimension) and (scope, dimension) in self.buckets.buckets:
                    bucket = self.buckets.buckets[scope, dimension]
                    return bucket.debt // weight(charge), bucket.held
        return 0, 0

    def kinds(self) -> list[str]:
        return [event.kind for event in self.events]


RPM = key(Limits(rpm=2))
TPM = key(Limits(tpm=100))
RPD = key(Limits(rpd=2))
SLOTS = key(Limits(concurrency=1))
MODEL_A, MODEL_B = model("a", Limits(rpm=1, tpm=50)), model("b", Limits(rpm=1))
ONE, TWO = deployment("a/one", Limits(concurrency=1, rpm=9)), deployment("a/two", Limits(concurrency=1))
OTHERS = (MODEL_A, MODEL_B, ONE, TWO)
