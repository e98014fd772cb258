"""What a walk is given: one snapshot of the configuration, the admission store, and the request with its plan."""

from collections.abc import Callable, Mapping

import msgspec

from gateway.admission.heartbeat import Leases
from gateway.admission.reports import Reports
from gateway.admission.turns import Turns
from gateway.budgets import Budgeted
from gateway.errors import GatewayError
from gateway.exchange import Reservation
from gateway.keys import Principal
from gateway.policy.catalogue import Catalogue
from gateway.policy.deadlines import Deadline
from gateway.policy.figures import Figures
from gateway.policy.retries import RetryBudget
from gateway.policy.routing import Plan, Planner
from gateway.providers.protocol import Dialect
from gateway.upstream.transport import Transport
from gateway.watch import Watch
from gateway.wire.request import InferenceRequest


class Snapshot(msgspec.Struct, frozen=True, kw_only=True):
    """One configuration as requests see it; a request keeps the one that it began with."""

    catalogue: Catalogue
    planner: Planner
    dialects: Mapping[str, Dialect]
    """By credential."""
    transports: Mapping[str, Transport]
    """By deployment: none can take another's connections."""
    lease_ttl_ms: int
    hash_user: Callable[[str, str], str]
    """What the ledger tells a user of an org by."""
    figures: Figures | None = None
    """What some model's deployments are ordered by; None where all are by weight, and nobody has to be told of requests."""
    generation: int = 1
    """Which one it is of those that followed each other."""


class Store(msgspec.Struct, frozen=True):
    """The admission store, and what this worker does with it: leases kept alive, turns waited for, words on upstreams.

    `retries` is this worker's alone: how much work it may repeat.
    """

    admission: Budgeted
    leases: Leases
    turns: Turns
    reports: Reports
    retries: RetryBudget


class Job(msgspec.Struct, frozen=True, kw_only=True):
    """What the walk is about: the request, its plan, what it holds and what may cut it short."""

    snapshot: Snapshot
    principal: Principal
    request: InferenceRequest
    plan: Plan
    reservation: Reservation
    watch: Watch
    due: Deadline
    opened: bytes
    dice: int
    now_s: Callable[[], float]

    async def check_principal(self) -> None:
        """Raise the `GatewayError` of a key that may enter no more; what was granted to it then posts nothing."""
        try:
            await self.principal.ask_again()
        except GatewayError:
            self.reservation.capacity = True
            raise
