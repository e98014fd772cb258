"""What the room's tests ask for: a driven clock, small scopes that are easily full, and candidate rows over them."""

from gateway.policy.admission import Acquire, Ending, Progress, Row, Settle, Sign, Switch, Upstream
from gateway.policy.catalogue import Limits, Tier
from gateway.policy.charges import Charge, Estimate, Reach
from gateway.policy.limits import DAY_MS, MINUTE_MS, charges

TTL_MS = 30_000


class Clock:
    """The time that the scripts are told. It begins far in the future, so that no hash expires by the server's own clock."""

    def __init__(self) -> None:
        self.now_ms = 50_000 * DAY_MS + 23 * 60 * MINUTE_MS

    def __call__(self) -> int:
        return self.now_ms


def key_charges(limits: Limits, *, ends_walk: bool = True, scope: str = "k:ci") -> tuple[Charge, ...]:
    return charges(scope, limits, reach=Reach.REQUEST, tenant=True, ends_walk=ends_walk)


def model_charges(model: str, limits: Limits) -> tuple[Charge, ...]:
    return charges(f"m:{model}", limits, reach=Reach.MODEL, tenant=False)


def deployment_charges(deployment: str, limits: Limits) -> tuple[Charge, ...]:
    return charges(f"d:{deployment}", limits, reach=Reach.DEPLOYMENT, tenant=False)


def estimate(tokens_in: int = 10, tokens_out: int = 20) -> Estimate:
    return Estimate(1, tokens_in, tokens_out, tokens_in + tokens_out)


def row(*groups: tuple[Charge, ...], cost: Estimate | None = None) -> Row:
    return Row(Upstream(), "a", Tier.DEFAULT, sum(groups, ()), cost or estimate())


def acquire(lease_id: str, *rows: Row) -> Acquire:
    return Acquire(lease_id, rows, TTL_MS, b"opened " + lease_id.encode())


def switch(lease_id: str, *rows: Row, capacity: bool = False) -> Switch:
    return Switch(lease_id, Ending(Sign.BUSY if capacity else Sign.FAULT), rows, TTL_MS)


def settle(lease_id: str, actual: Estimate | None = None, *, capacity: bool = False, certain: bool = True) -> Settle:
    return Settle(lease_id, capacity, actual or estimate(), b"closed " + lease_id.encode(), certain)


def progress(lease_id: str, so_far: Estimate | None = None) -> Progress:
    return Progress(lease_id, so_far or estimate(10, 5))
