"""The headers that tell a client what became of its request: who served it, at which tier, after which attempts. Pure."""

from functools import lru_cache

from gateway.policy.catalogue import Tier
from gateway.policy.record import Record
from gateway.policy.trace import account
from gateway.wire.traceparent import TRACEPARENT

Headers = list[tuple[bytes, bytes]]


def trail(record: Record, *, hide_providers: bool) -> Headers:
    """Return the gateway's own headers for an answer or a refusal."""
    found = _ids(record)
    if record.attempts:
        entries = [f"{attempt.model};{attempt.status}" for attempt in record.attempts]
        found.append((b"x-gateway-attempts", latin1(", ".join(entries))))
    if record.status == 200 and record.model_shown is not None:
        found += _served(record, record.model_shown, hide_providers=hide_providers)
    if record.retry_refused:
        found.append((b"x-gateway-retry", b"budget"))
    if record.dropped_params:
        found.append((b"x-gateway-dropped-params", latin1(", ".join(record.dropped_params))))
    if record.adjusted_params:
        found.append((b"x-gateway-adjusted-params", latin1(", ".join(record.adjusted_params))))
    if record.explains:
        found.append((b"x-gateway-explain", account(record, hide_providers=hide_providers)))
    return found + record.rate_headers


def _served(record: Record, model: str, *, hide_providers: bool) -> Headers:
    """Return who served the request, and at which tier."""
    found = [(b"x-gateway-model", latin1(model)), (b"x-gateway-service-tier", (record.tier_served or "").encode())]
    if record.provider is not None and not hide_providers:
        found.append((b"x-gateway-provider", latin1(record.provider)))
    if record.tier_served == Tier.OVER_LIMIT:
        found.append((b"x-ratelimit-over-limit", b"yes"))
    return found


def early(record: Record) -> Headers:
    """Return those that are certain before there is an answer: no attempt is the last one yet."""
    return [*_ids(record), *record.rate_headers]


def _ids(record: Record) -> Headers:
    """Return what the request is found by: in logs and ledger, and among the traces where it has a span."""
    found: Headers = [(b"x-request-id", record.request_id.encode())]
    if record.span is not None and record.span.own:
        found.append((TRACEPARENT, record.span.header))
    return found


@lru_cache(maxsize=4096)
def latin1(text: str) -> bytes:
    """Return text as a header carries it; what does not fit, control characters included, becomes a question mark."""
    if text.isascii() and text.isprintable():
        return text.encode()
    printable = "".join(character if character >= " " and character != "\x7f" else "?" for character in text)
    return printable.encode("latin-1", "replace")
