"""The access line: one JSON object a request, written when it is over, whatever its end.

Lines of one turn of the event loop leave in one write. Times are milliseconds, money is nano-USD; null is a figure that nobody
knows. Nothing of a prompt, an answer or a secret is in it.
"""

from collections.abc import Callable
from datetime import UTC, datetime

import msgspec

from gateway.policy.record import Attempt, Record, short

encode = msgspec.json.Encoder().encode


class Line(msgspec.Struct, frozen=True, gc=False):
    """The fields of one line, in their order."""

    ts: datetime
    level: str
    event: str
    request_id: str
    client_request_id: str | None
    trace_id: str | None
    route: str
    org: str | None
    project: str | None
    key_id: str | None
    model_requested: str | None
    model_served: str | None
    provider: str | None
    tier_requested: str | None
    tier_served: str | None
    attempts: list[Attempt]
    status: int
    early_head: bool
    outcome: str
    error_code: str | None
    stream: bool
    opened: bool
    admitted_ms: int | None
    settled_ms: int | None
    queued_ms: int
    ttft_ms: int | None
    duration_ms: int | None
    input_tokens: int
    cached_tokens: int
    output_tokens: int
    reasoning_tokens: int
    cost_nano_usd: int | None
    estimated: bool
    bytes_sent: int
    own_cost_nano_usd: int | None
    price_version: str | None
    cache_write_tokens: int
    shadowed: tuple[str, ...]
    client_source: str | None
    client_retries: str | None


def line_of(record: Record) -> Line:
    """Return the line of a record that is complete. `admitted_ms` and `settled_ms` are the store's own Unix milliseconds."""
    duration_s = None if record.ended_s is None else record.ended_s - record.started_s
    usage = record.usage
    return Line(
        datetime.fromtimestamp(record.started_unix_ms / 1000 + (duration_s or 0.0), UTC),
        "info",
        "request",
        record.request_id,
        short(record.client_request_id),
        None if record.span is None else f"{record.span.trace_id:032x}",
        record.route,
        record.org,
        record.project,
        record.key_id,
        short(record.model_requested),
        record.model_served,
        record.provider,
        short(record.tier_requested),
        record.tier_served,
        record.attempts,
        record.status,
        record.early_head,
        record.outcome,
        record.error_code,
        record.stream,
        record.opened,
        record.admitted_unix_ms,
        record.settled_unix_ms,
        record.queued_ms,
        None if record.ttft_s is None else int(record.ttft_s * 1000),
        None if duration_s is None else int(duration_s * 1000),
        usage.input,
        usage.cached,
        usage.output,
        usage.reasoning,
        record.cost_nano_usd,
        record.estimated,
        record.bytes_sent,
        record.own_cost_nano_usd,
        record.price_version,
        usage.cache_write,
        record.shadowed,
        record.client_source,
        record.client_retries,
    )


def as_json(record: Record) -> bytes:
    """Return the line as machines read it."""
    return encode(line_of(record)) + b"\n"


def as_text(record: Record) -> bytes:
    """Return the line as people at a terminal read it."""
    line = line_of(record)
    tried = " > ".join(f"{attempt.model}@{attempt.provider} {attempt.status}" for attempt in line.attempts) or "-"
    text = (
        f"{line.ts:%H:%M:%S} {line.status} {line.outcome} {line.route} {line.tier_served or '-'} {tried} "
        f"{line.duration_ms}ms {line.input_tokens}+{line.output_tokens} tokens {line.request_id}"
    )
    return f"{text} {line.error_code}\n".encode() if line.error_code else f"{text}\n".encode()


class AccessLog:
    """Where the lines go: kept for the rest of the loop's turn, then written together."""

    def __init__(
        self, write: Callable[[bytes], object], soon: Callable[[Callable[[], None]], object], render: Callable[[Record], bytes]
    ) -> None:
        self._write = write
        self._soon = soon
        self._render = render
        self._lines: list[bytes] = []

    def add(self, record: Record) -> None:
        """Write the record's line soon."""
        if not self._lines:
            self._soon(self.flush)
        self._lines.append(self._render(record))

    def flush(self) -> None:
        """Write what is kept."""
        lines, self._lines = self._lines, []
        if lines:
            self._write(b"".join(lines))
