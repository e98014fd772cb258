"""What an upstream's failure means: one `Fault` for every status, shape and wording (wire contract, 6.4).

Shared by all dialects. A provider's refusal of *our* credential, bill, tier field or model name is never the client's fault; a
refusal of the request itself is, and is told in the provider's words, redacted. Times are milliseconds. Pure: an HTTP date in
`retry-after` is read against the reply's own `date`.
"""

import re
from collections.abc import Mapping
from math import isfinite

from gateway.faults import Failed, Fault, FieldError
from gateway.providers.complaints import Complaint, complaint_of, read_complaint
from gateway.providers.dates import http_date
from gateway.providers.headroom import MOST_WAIT_MS, exhausted_ms
from gateway.providers.redaction import redacted

BUSY_STATUSES = frozenset({423, 425, 498, 503, 529})
TIMEOUT_STATUSES = frozenset({408, 504, 522, 524})
CLIENT_STATUSES = frozenset({400, 404, 413, 422})

BUSY_WORDS = frozenset(
    {"engine_overloaded", "server_is_overloaded", "overloaded_error", "overloaded", "capacity_exceeded", "resource_unavailable"}
    | {"slow_down", "chat_completions_service_unavailable", "unavailable_stack", "locked"}
)
BILLING_WORDS = frozenset(
    {"insufficient_quota", "credit_balance_exhausted", "organization_spend_limit_exceeded", "project_spend_limit_exceeded"}
    | {"organization_usage_limit_exceeded", "billing_hard_limit_reached", "billing_not_active", "balance_error", "billing_error"}
)
RATE_WORDS = frozenset({"rate_limit_exceeded", "rate_limit_error", "too_many_requests", "resource_exhausted"})
CREDENTIAL_WORDS = frozenset({"invalid_api_key", "authentication_error", "auth_error", "permission_error", "unauthenticated"})
STALE_WORDS = frozenset({"model_not_found", "model_decommissioned", "model_not_active"})
CONTEXT_WORDS = frozenset({"context_length_exceeded", "exceed_context_size_error"})
FILTER_WORDS = frozenset({"content_filter", "content_policy_violation", "moderation_blocked"})
SERVER_WORDS = frozenset({"server_error", "api_error", "internal_error", "internal"})

WORD_STATUSES: tuple[tuple[frozenset[str], int], ...] = (
    (BUSY_WORDS, 503),
    (BILLING_WORDS, 402),
    (RATE_WORDS, 429),
    (CREDENTIAL_WORDS, 401),
    (CONTEXT_WORDS | FILTER_WORDS | STALE_WORDS, 400),
    (SERVER_WORDS, 500),
)
"""The status that an error's own words stand for, where it came with none."""

BUSY_TEXT = re.compile(r"model busy|no capacity|resource unavailable|(?:at|over) capacity|overloaded")
BILLING_TEXT = re.compile(r"payment method|insufficient (?:balance|credit|fund)|inference prohibited|exceeded your current quota")
# Messages may quote the request: what blames the provider has to stand where a client's words cannot.
STALE_TEXT = re.compile(
    r"(?:the )?model .{0,200}(?:does not exist|not found|decommissioned)|(?:request error: )?model not supported"
)
CONTEXT_TEXT = re.compile(
    r"context (?:length|window|size)|(?:input|prompt) (?:is )?too long"
    r"|maximum number of (?:input )?tokens|reduce the length of the"
)
FILTER_TEXT = re.compile(
    r"content management policy|content (?:policy|filter)|safety system|flagged (?:by|as|for)|requires moderation"
)

OUR_FIELDS = frozenset({"service_tier", "stream_options", "fail_fast"})
"""What the gateway itself adds to a body: a provider that refuses one of them is set up wrongly."""
OUR_TEXT = re.compile(
    r"(?:unknown|unsupported|unrecognized|unexpected|extra)\b[^.]{0,40}\b(?:service_tier|stream_options|fail_fast)\b"
)

PLAIN_CODE = re.compile(r"[a-z][a-z0-9_.-]{0,63}")


def failure(status: int, headers: Mapping[bytes, bytes], body: bytes, *, upstream_model: str = "") -> Failed:
    """Name what a reply with a status other than 2xx means; header names are in lower case."""
    complaint = complaint_of(body)
    fault = _fault_of_words(complaint, status) or _fault_of_status(status, complaint)
    wait_ms = retry_after_ms(headers)
    if fault is Fault.REJECTED:
        return _rejected(status, complaint, upstream_model, wait_ms)
    if fault is Fault.ACCOUNT_RATE and wait_ms is None:
        wait_ms = exhausted_ms(headers)
    return Failed(fault=fault, status=status, retry_after_ms=wait_ms)


def failure_inside(said: object, *, upstream_model: str = "") -> Failed:
    """Name what an error means that came inside a 200, as a body or as an event: by its code, like a status."""
    complaint = read_complaint(said)
    status = complaint.number or _status_of_words(complaint)
    if not status:
        return Failed(fault=Fault.BAD_ANSWER, status=200)
    fault = _fault_of_words(complaint, status) or _fault_of_status(status, complaint)
    if fault is Fault.REJECTED:
        return _rejected(status, complaint, upstream_model, None)
    return Failed(fault=fault, status=200)


def retry_after_ms(headers: Mapping[bytes, bytes]) -> int | None:
    """Return the wait that a reply asks for, None without a usable one; a day at the most."""
    wait_ms = _figure(headers.get(b"retry-after-ms"))
    if wait_ms is None:
        wait_s = _figure(headers.get(b"retry-after"))
        wait_ms = _until_date_ms(headers) if wait_s is None else wait_s * 1000
    if wait_ms is None or wait_ms <= 0:
        return None
    return min(round(wait_ms), MOST_WAIT_MS)


def _fault_of_words(complaint: Complaint, status: int) -> Fault | None:
    """Return the fault that the words settle, whatever the status."""
    words, text = complaint.words, complaint.text
    if words & BILLING_WORDS or (status in (403, 429) and BILLING_TEXT.search(text)):
        return Fault.BILLING
    if words & BUSY_WORDS or (status == 429 and BUSY_TEXT.search(text)):
        return Fault.BUSY
    if status in (400, 403, 422) and (words & FILTER_WORDS or FILTER_TEXT.search(text)):
        return Fault.REJECTED
    if status in CLIENT_STATUSES:
        return _fault_of_refusal(complaint)
    return None


def _fault_of_refusal(complaint: Complaint) -> Fault | None:
    """Tell what of a 4xx is ours, not the client's."""
    if complaint.words & STALE_WORDS or STALE_TEXT.match(complaint.text):
        return Fault.STALE_MODEL
    if complaint.param in OUR_FIELDS or OUR_TEXT.match(complaint.text):
        return Fault.STALE_MODEL
    # Some providers answer 413 where a request alone would pass the account's tokens a minute.
    return Fault.ACCOUNT_RATE if complaint.words & RATE_WORDS else None


def _fault_of_status(status: int, complaint: Complaint) -> Fault:
    if status == 404 and not complaint.message:
        return Fault.STALE_MODEL
    if status in CLIENT_STATUSES:
        return Fault.REJECTED
    if status == 429:
        return Fault.ACCOUNT_RATE
    if status in BUSY_STATUSES:
        return Fault.BUSY
    if status == 402:
        return Fault.BILLING
    if status in (401, 403):
        return Fault.CREDENTIAL
    if status in TIMEOUT_STATUSES:
        return Fault.UPSTREAM_TIMEOUT
    return Fault.SERVER


def _status_of_words(complaint: Complaint) -> int:
    """Return the status that an error without a number would have come with, 0 where its words say nothing."""
    words = complaint.words
    for known, status in (
        (BUSY_WORDS, 503),
        (BILLING_WORDS, 402),
        (RATE_WORDS, 429),
        (CREDENTIAL_WORDS, 401),
        (SERVER_WORDS, 500),
    ):
        if words & known:
            return status
    if words & (CONTEXT_WORDS | FILTER_WORDS | STALE_WORDS):
        return 400
    return 429 if BUSY_TEXT.search(complaint.text) else 0


def _rejected(status: int, complaint: Complaint, upstream_model: str, wait_ms: int | None) -> Failed:
    code = complaint.code if complaint.code is not None and PLAIN_CODE.fullmatch(complaint.code) else None
    if complaint.words & CONTEXT_WORDS or CONTEXT_TEXT.search(complaint.text):
        code = "context_length_exceeded"
    elif complaint.words & FILTER_WORDS or FILTER_TEXT.search(complaint.text):
        code = "content_filter"
    return Failed(
        fault=Fault.REJECTED,
        status=400 if status == 403 else status,
        message=redacted(complaint.message, upstream_model),
        param=None if complaint.param is None else redacted(complaint.param, upstream_model),
        code=code,
        retry_after_ms=wait_ms,
        fields=tuple(_shown(field, upstream_model) for field in complaint.fields[:32]),
    )


def _shown(field: FieldError, upstream_model: str) -> FieldError:
    loc = tuple(redacted(step, upstream_model) if isinstance(step, str) else step for step in field.loc[:16])
    return FieldError(loc, redacted(field.msg, upstream_model), redacted(field.type, upstream_model))


def _figure(value: bytes | None) -> float | None:
    try:
        figure = float(value or b"")
    except ValueError:
        return None
    return figure if isfinite(figure) else None


def _until_date_ms(headers: Mapping[bytes, bytes]) -> float | None:
    until, sent = http_date(headers.get(b"retry-after", b"")), http_date(headers.get(b"date", b""))
    return None if until is None or sent is None else (until - sent).total_seconds() * 1000
