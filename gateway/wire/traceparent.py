"""The header `traceparent` (https://www.w3.org/TR/trace-context/): which trace a request belongs to, and below which span.

What is malformed is as if it were not there: a trace must never cost anybody an answer. Pure.
"""

import re

import msgspec

TRACEPARENT = b"traceparent"

SAMPLED = 1
"""The one flag that is known: the caller keeps its spans, so that ours are worth keeping."""

# Behind the flags version 00 ends; a later one may go on, and means the same up to there.
_FORM = re.compile(rb"([0-9a-f]{2})-([0-9a-f]{32})-([0-9a-f]{16})-([0-9a-f]{2})(-.*)?")


class Parent(msgspec.Struct, frozen=True, gc=False):
    """The span that a request came from."""

    trace_id: int
    span_id: int
    sampled: bool


def parse(value: bytes) -> Parent | None:
    """Return what the header says, None where it is malformed."""
    found = _FORM.fullmatch(value.strip())
    if found is None:
        return None
    version, trace_id, span_id, flags, more = found.groups()
    if version == b"ff" or (version == b"00" and more is not None):
        return None
    parent = Parent(int(trace_id, 16), int(span_id, 16), sampled=bool(int(flags, 16) & SAMPLED))
    return parent if parent.trace_id and parent.span_id else None


def render(parent: Parent) -> bytes:
    """Return the header that names this span."""
    return b"00-%032x-%016x-%02x" % (parent.trace_id, parent.span_id, SAMPLED if parent.sampled else 0)
