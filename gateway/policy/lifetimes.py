"""How long leases, waiters and turns live, and what stays of those that ended. Unix milliseconds. Pure."""

from collections.abc import Callable

from gateway.policy.claims import Done, Event

REAPED_AT_ONCE = 8
"""How many lapsed leases one call ends: enough to keep up, too few to be felt."""

LATE_MS = 3_600_000
"""How long an expired lease waits for its settlement: an hour covers any stream's longest life."""

WAITER_TTL_MS = 5_000
"""How long a waiter counts without a word from its worker, which asks for it twice a second."""

CONFIRM_MS = 3_000
"""How long a turn is kept for a waiter that does not take it."""

TURNS_AT_ONCE = 64
"""How many turns one call gives."""


class Ends:
    """What stays of ended leases, and of those that are not to come true. `note` hears what the ledger would."""

    def __init__(self, note: Callable[[Event], None]) -> None:
        self.done: dict[str, Done] = {}
        self._note = note

    def of(self, lease_id: str, now_ms: int) -> Done | None:
        """Return what stays of a lease, None where it has not ended or is forgotten."""
        done = self.done.get(lease_id)
        return done if done is not None and done.until_ms > now_ms else None

    def close(self, lease_id: str, keep_ms: int, now_ms: int) -> None:
        """Settle a lease, for the ledger too."""
        self.done[lease_id] = Done(now_ms + keep_ms)
        self._note(Event("close", lease_id))

    def forestall(self, lease_id: str, now_ms: int) -> None:
        """Keep a grant that is still under way from coming true."""
        self.done[lease_id] = Done(now_ms + LATE_MS, opened=False)

    def forget(self, now_ms: int) -> None:
        """Forget those whose time is over."""
        for lease_id in [lease_id for lease_id, done in self.done.items() if done.until_ms <= now_ms]:
            del self.done[lease_id]
