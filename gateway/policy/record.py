"""The canonical record of one request: filled along the corridor, projected once on access line, metrics and ledger.

Times named `_s` are seconds of the monotonic clock unless they say `unix`. Nothing of a prompt, an answer or a secret enters it.
Pure.
"""

from enum import StrEnum

import msgspec

from gateway.policy.spans import Span
from gateway.wire.usage import Usage

LONGEST_WORD = 200
"""How much of a word that the client chose is kept where it is for people to read."""


class Outcome(StrEnum):
    """How a request ended. `ABANDONED` is written by expiry alone.

    `REJECTED` was never served: it has a ledger row only where the store granted it after nobody waited for the answer any more.
    """

    OK = "ok"
    CANCELLED = "cancelled"
    INTERRUPTED = "interrupted"
    ABANDONED = "abandoned"
    UPSTREAM_ERROR = "upstream_error"
    CLIENT_ERROR = "client_error"
    TIMEOUT = "timeout"
    REJECTED = "rejected"


class Reason(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, gc=False):
    """Why a candidate was refused: a `Cause` in lower case, and for a limit the kind of its scope and its dimension.

    `wait_ms` is when there would have been room if nothing else happened, None where only another request's end tells.
    """

    cause: str
    scope: str | None = None
    dimension: str | None = None
    wait_ms: int | None = None


class Attempt(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """One candidate that was tried, or refused before it was tried (`sent` False, status 429).

    `outcome` is `ok`, a `Fault`, or `refused`, for a `reason`; `status` is the upstream's, 0 when it gave none.
    """

    model: str
    provider: str
    status: int
    outcome: str
    sent: bool
    duration_ms: int = 0
    reason: Reason | msgspec.UnsetType = msgspec.UNSET
    """Left out of the encoded where there is none, which is nearly everywhere."""


class Record(msgspec.Struct, kw_only=True, gc=False):
    """The one mutable value of a request. Every other room reads it."""

    request_id: str
    route: str
    started_s: float
    started_unix_ms: int
    client_request_id: str | None = None
    client_source: str | None = None
    """What kind of caller it says that it is, in DeepInfra's header for that."""
    client_retries: str | None = None
    """How often it says that it has tried before, as official SDKs do."""
    key_id: str | None = None
    key_name: str | None = None
    org: str | None = None
    project: str | None = None
    model_requested: str | None = None
    models_requested: tuple[str, ...] = ()
    model_served: str | None = None
    model_shown: str | None = None
    """The name that the client knows the serving model by: the alias that it wrote, or the public name."""
    provider: str | None = None
    deployment: str | None = None
    tier_requested: str | None = None
    tier_served: str | None = None
    stream: bool = False
    opened: bool = False
    admitted_unix_ms: int | None = None
    """When the store decided on the request, by its own clock: refused ones have it too, `opened` tells which were granted."""
    settled_unix_ms: int | None = None
    attempts: list[Attempt] = []
    outcome: Outcome = Outcome.REJECTED
    status: int = 0
    early_head: bool = False
    """The head of a 200 went out with a comment, before there was an answer; `status` is that of the end all the same."""
    error_code: str | None = None
    usage: Usage = Usage()
    estimated: bool = False
    cost_nano_usd: int | None = None
    """What the org is charged."""
    own_cost_nano_usd: int | None = None
    """What the operator pays."""
    price_version: str | None = None
    queued_ms: int = 0
    ttft_s: float | None = None
    ended_s: float | None = None
    bytes_sent: int = 0
    strange_events: int = 0
    """Events of the stream that were no chunk, and were left out."""
    retry_refused: bool = False
    """More could have been tried, and was not, for too much had been repeated lately."""
    dropped_params: tuple[str, ...] = ()
    adjusted_params: tuple[str, ...] = ()
    """Entries `name=value`: what was lowered to what the model can do."""
    rate_headers: list[tuple[bytes, bytes]] = []
    limited: Reason | msgspec.UnsetType = msgspec.UNSET
    """What refused service within the limits where service over them was looked for."""
    user_hash: str | None = None
    """Which of the client's own users it is for, where the key has that noted."""
    explains: bool = False
    """The client asked to hear what became of the request, and its key may."""
    shadowed: tuple[str, ...] = ()
    """Limits that would have refused it if they were more than shadows: `scope:dimension`, each once."""
    span: Span | None = None
    """Where it stands in a trace; None where nobody traces it."""
    overhead_s: float | None = None
    """From the start to the first call to an upstream, the wait in queues left out; None where there was no call."""


class Opened(msgspec.Struct, frozen=True, array_like=True, kw_only=True, gc=False):
    """The ledger's `open` event, written with the grant.

    A field that is added stands last and has a default, as in `Closed`: the releases before and after read each other's.
    """

    request_id: str
    started_unix_ms: int
    key: str
    key_id: str
    org: str
    project: str | None
    model_requested: str | None
    tier_requested: str | None
    route: str
    stream: bool
    client_request_id: str | None
    user_hash: str | None = None


class Closed(msgspec.Struct, frozen=True, array_like=True, kw_only=True, gc=False):
    """The ledger's `close` event, written with the settlement. It repeats the opening, so that either alone makes a row.

    A field that is added stands last and has a default: the releases before and after read each other's. Where the opening says
    the same, as it does of `user_hash`, the closing's counts.
    """

    opened: Opened
    outcome: str
    status: int
    error_code: str | None
    model_served: str | None
    provider: str | None
    tier_served: str | None
    input_tokens: int
    cached_tokens: int
    output_tokens: int
    reasoning_tokens: int
    cost_nano_usd: int | None
    estimated: bool
    queued_ms: int
    ttft_ms: int | None
    duration_ms: int
    attempts: tuple[Attempt, ...]
    own_cost_nano_usd: int | None = None
    price_version: str | None = None
    cache_write_tokens: int = 0
    user_hash: str | None = None


def short(word: str | None) -> str | None:
    """Return the part of a client's word that is kept."""
    return word if word is None or len(word) <= LONGEST_WORD else word[:LONGEST_WORD]


def closed(record: Record, opened: Opened) -> Closed:
    """Return the ledger's `close` event of a record that has ended."""
    ended_s, usage = record.started_s if record.ended_s is None else record.ended_s, record.usage
    return Closed(
        opened=opened,
        outcome=record.outcome,
        status=record.status,
        error_code=record.error_code,
        model_served=record.model_served,
        provider=record.provider,
        tier_served=record.tier_served,
        attempts=tuple(record.attempts),
        input_tokens=usage.input,
        cached_tokens=usage.cached,
        output_tokens=usage.output,
        reasoning_tokens=usage.reasoning,
        cost_nano_usd=record.cost_nano_usd,
        estimated=record.estimated,
        queued_ms=record.queued_ms,
        ttft_ms=None if record.ttft_s is None else round(record.ttft_s * 1000),
        duration_ms=round((ended_s - record.started_s) * 1000),
        own_cost_nano_usd=record.own_cost_nano_usd,
        price_version=record.price_version,
        cache_write_tokens=usage.cache_write,
        user_hash=record.user_hash,
    )
