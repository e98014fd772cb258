"""What became of a request, step by step: for the operator, whom any request may concern, and for a client whose key may ask.

Nothing of a prompt, an answer or a secret is in it, and of what others use no more than when there was to be room again. Pure.
"""

import re

import msgspec

from gateway.policy.answers import Cause, Refusal
from gateway.policy.charges import Kind
from gateway.policy.record import Attempt, Reason, Record, short
from gateway.policy.wording import SCOPES

LONGEST_HEADER = 4_096
"""Bytes of an explanation: common proxies take heads of 8 KiB and no more."""

MOST_MODELS = 16
"""How many names of a client's list are kept, should one that is refused for its length be longer."""


class Trace(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """A request as it is kept for the operator. A field that is added stands last and has a default: releases share a store."""

    request_id: str
    client_request_id: str | None
    route: str
    key: str | None
    key_id: str | None
    org: str | None
    project: str | None
    models_requested: list[str | None]
    model_served: str | None
    provider: str | None
    deployment: str | None
    tier_requested: str | None
    tier_served: str | None
    stream: bool
    attempts: list[Attempt]
    retry_refused: bool
    outcome: str
    status: int
    error_code: str | None
    started_unix_ms: int
    admitted_unix_ms: int | None
    settled_unix_ms: int | None
    queued_ms: int
    ttft_ms: int | None
    duration_ms: int | None
    input_tokens: int
    cached_tokens: int
    output_tokens: int
    reasoning_tokens: int
    cost_nano_usd: int | None
    estimated: bool
    limited: Reason | None = None
    """What refused service within the limits where service over them was looked for."""


def trace_of(record: Record) -> Trace:
    """Return the trace of a record that is complete."""
    usage, ttft_s, ended_s = record.usage, record.ttft_s, record.ended_s
    # By position, as the access line: thirty names would cost more than all the rest.
    return Trace(
        record.request_id,
        record.client_request_id,
        record.route,
        record.key_name,
        record.key_id,
        record.org,
        record.project,
        models_of(record),
        record.model_served,
        record.provider,
        record.deployment,
        short(record.tier_requested),
        record.tier_served,
        record.stream,
        record.attempts,
        record.retry_refused,
        record.outcome,
        record.status,
        short(record.error_code),
        record.started_unix_ms,
        record.admitted_unix_ms,
        record.settled_unix_ms,
        record.queued_ms,
        None if ttft_s is None else int(ttft_s * 1000),
        None if ended_s is None else int((ended_s - record.started_s) * 1000),
        usage.input,
        usage.cached,
        usage.output,
        usage.reasoning,
        record.cost_nano_usd,
        record.estimated,
        record.limited or None,
    )


def models_of(record: Record) -> list[str | None]:
    """Return the models that were asked for, in order."""
    if record.models_requested:
        return [*map(short, record.models_requested[:MOST_MODELS])]
    return [] if record.model_requested is None else [short(record.model_requested)]


def reason_of(refusal: Refusal) -> Reason:
    """Return why a candidate was refused. A bucket is named by its kind: whose it is, is nobody else's business."""
    cause, charge = refusal.cause, refusal.charge
    if cause not in (Cause.LIMIT, Cause.TOO_LARGE):
        return Reason(cause=cause.name.lower(), wait_ms=refusal.wait_ms)
    scope, _ = SCOPES[charge.scope.partition(":")[0]]
    return Reason(
        cause=cause.name.lower(),
        scope=scope,
        dimension=charge.dimension.name.lower(),
        wait_ms=None if refusal.never or charge.kind is Kind.HELD else refusal.wait_ms,
    )


class Step(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One candidate as a client hears of it. `wait_ms` in the reason is when there would have been room."""

    model: str
    outcome: str
    provider: str | None = None
    status: int = 0
    duration_ms: int = 0
    reason: Reason | msgspec.UnsetType = msgspec.UNSET


class Account(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What a client hears of its request.

    `limited` is what refused service within the limits, where service over them was looked for; `omitted` how many steps, the
    earliest, found no room.
    """

    attempts: list[Step]
    tier_asked: str | None = None
    tier_served: str | None = None
    queued_ms: int = 0
    limited: Reason | msgspec.UnsetType = msgspec.UNSET
    omitted: int = 0


def account(record: Record, *, hide_providers: bool) -> bytes:
    """Return what became of a request so far, as the value of a header: JSON in ASCII, no longer than `LONGEST_HEADER`."""
    steps = [
        Step(
            model=attempt.model,
            provider=None if hide_providers else attempt.provider,
            status=attempt.status,
            outcome=attempt.outcome,
            duration_ms=attempt.duration_ms,
            reason=attempt.reason,
        )
        for attempt in record.attempts
    ]
    asked = short(record.tier_requested)
    for omitted in range(len(steps)):
        found = Account(
            attempts=steps[omitted:],
            tier_asked=asked,
            tier_served=record.tier_served,
            queued_ms=record.queued_ms,
            limited=record.limited,
            omitted=omitted,
        )
        if len(told := ascii_json(found)) <= LONGEST_HEADER:
            return told
    return ascii_json(Account(attempts=[], queued_ms=record.queued_ms, omitted=len(steps)))


def ascii_json(found: Account) -> bytes:
    """Return a value as JSON in printable ASCII; what is not can stand in strings alone, and is written as JSON escapes it."""
    return BEYOND_ASCII.sub(lambda one: escaped(one[0]), msgspec.json.encode(found).decode()).encode("ascii")


BEYOND_ASCII = re.compile(r"[^ -~]")


def escaped(character: str) -> str:
    """Return a character as JSON's escapes, which are UTF-16."""
    pairs = character.encode("utf-16-be", "surrogatepass")
    return "".join(f"\\u{pairs[at]:02x}{pairs[at + 1]:02x}" for at in range(0, len(pairs), 2))
