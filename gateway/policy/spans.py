"""Where a request stands in a trace, noted while it runs and made spans of when it is over: ids, and moments.

Ids are numbers, of 128 bits for a trace and of 64 for a span. Times are seconds of the monotonic clock. Pure.
"""

from collections.abc import Mapping

import msgspec

from gateway.policy.catalogue import Deployment
from gateway.wire.traceparent import TRACEPARENT, Parent, parse, render

Headers = tuple[tuple[bytes, bytes], ...]


class Hop(msgspec.Struct, frozen=True, gc=False):
    """A call to an upstream, as it begins."""

    span_id: int
    started_s: float
    deployment: Deployment


class Span(msgspec.Struct, kw_only=True, gc=False):
    """The request's own span, and what hangs below it.

    Where no spans are made of requests (`own` is False) it is the client's, which calls to upstreams then hang below directly.
    """

    trace_id: int
    span_id: int
    parent_id: int | None = None
    """The client's; None where the trace begins here."""
    sampled: bool
    own: bool = True
    hops: list[Hop] = []
    waits: list[tuple[float, float]] = []
    """For busy models, from when to when."""

    @property
    def count(self) -> int:
        """Return how many spans there are of the request: its own, and one for each call."""
        return 1 + len(self.hops)

    @property
    def header(self) -> bytes:
        """Return what names this span in a header."""
        return render(Parent(self.trace_id, self.span_id, self.sampled))

    def hop(self, deployment: Deployment, started_s: float) -> Hop:
        """Take note of a call that begins. Its id is counted on from the request's, which was drawn by lot."""
        span_id = self.span_id ^ (len(self.hops) + 1) if self.own else self.span_id
        hop = Hop(span_id, started_s, deployment)
        self.hops.append(hop)
        return hop

    def headers(self, hop: Hop) -> Headers:
        """Return what tells the upstream of a call where it stands, where it is to hear of it."""
        if not hop.deployment.provider.propagates:
            return ()
        return ((TRACEPARENT, render(Parent(self.trace_id, hop.span_id, self.sampled))),)


def parent_of(fields: Mapping[bytes, bytes]) -> Parent | None:
    """Return the client's span, where it names one."""
    value = fields.get(TRACEPARENT)
    return None if value is None else parse(value)


def of_client(parent: Parent) -> Span:
    """Return the span of a request that none is made of: the client's."""
    return Span(trace_id=parent.trace_id, span_id=parent.span_id, sampled=parent.sampled, own=False)
