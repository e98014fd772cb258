"""Attempts that are counted, for models whose deployments are ordered by how they are doing: each begins once and ends once.

A request whose order nothing but weights decides has a plain `Holder`, and nothing of this.
"""

from gateway.faults import Failed, Fault
from gateway.policy.charging import Target
from gateway.policy.figures import Figures
from gateway.policy.record import Record
from gateway.upstream.attempt import Committed, Dispatch, Flowing, Holder


class Counted(Holder):
    """Holds a reply like any other, and tells the worker's figures where its request is, from its plan on, and how that went."""

    __slots__ = ("_is_over", "_record", "_stay", "_trying")

    def __init__(self, figures: Figures, first: Target, record: Record) -> None:
        super().__init__()
        self._stay = figures.expect(first.deployment.id, stream=record.stream)
        self._record = record
        self._trying: Dispatch | None = None
        self._is_over = False
        """It was let go of while it was tried: that ends soon, and has a word to say before the request is taken back."""

    async def attempt(self, dispatch: Dispatch) -> Committed | Failed:
        """Make the attempt, and tell how it went."""
        self._trying, self._is_over = dispatch, False
        self._stay.ask(self._record.deployment or "")
        try:
            outcome = await super().attempt(dispatch)
            if self._trying is dispatch:
                self._tell(outcome)
        finally:
            # One that outlives its walk's patience may end when the next has begun, and has no say any more.
            if self._trying is dispatch:
                self._trying = None
                if self._is_over:
                    self._stay.leave()
        return outcome

    def note_fault(self, fault: Fault) -> None:
        """Tell a fault that no attempt returned."""
        self._stay.failed(fault)

    def close(self) -> None:
        """Let go, and be counted no more."""
        super().close()
        self._is_over = True
        if self._trying is None:
            self._stay.leave()

    def _tell(self, outcome: Committed | Failed) -> None:
        """Tell a stream's first content, a whole answer by its tokens, or its prompt's where it has none, or a fault."""
        if isinstance(outcome, Failed):
            self._stay.failed(outcome.fault)
        elif isinstance(outcome, Flowing):
            self._stay.answered(1)
        else:
            usage = outcome.usage
            self._stay.answered(max(1, outcome.output_bytes if usage is None else usage.output or usage.input))
