"""What an upstream's failure means: one `Fault` for every status, shape and wording (wire contract, 6.4).

Shared by all dialects. A provider's refusal of *our* credential, bill, tier field or model name is never the client's fault; a
refusal of the request itself is, and is told in the provider's words, redacted. Times are milliseconds. Pure: an HTTP date in
`retry-after` is read against the reply's own `date`.
"""

import re
from collections.abc import Mapping, Sequence
from math import isfinite

import msgspec

from gateway.faults import Failed, Fault, FieldError
from gateway.providers.complaints import Complaint, complaint_of, decode, read_complaint
from gateway.providers.dates import http_date
from gateway.providers.headroom import MOST_WAIT_MS, exhausted_ms
from gateway.providers.redaction import redacted

BUSY_STATUSES = frozenset({423, 425, 498, 503, 529})
TIMEOUT_STATUSES = frozenset({408, 504, 522, 524})
CLIENT_STATUSES = frozenset({400, 404, 413, 422})

BUSY_WORDS = frozenset(
    {"engine_overloaded", "server_is_overloaded", "overloaded_error", "overloaded", "capacity_exceeded", "resource_unavailable"}
    | {"slow_down", "chat_completions_service_unavailable", "unavailable_stack", "locked", "nocapacity"}
)
BILLING_WORDS = frozenset(
    {"insufficient_quota", "credit_balance_exhausted", "organization_spend_limit_exceeded", "project_spend_limit_exceeded"}
    | {"organization_usage_limit_exceeded", "billing_hard_limit_reached", "billing_not_active", "balance_error", "billing_error"}
    | {"exceeded_current_quota_error", "arrearage"}
)
RATE_WORDS = frozenset({"rate_limit_exceeded", "rate_limit_error", "too_many_requests", "resource_exhausted"})
CREDENTIAL_WORDS = frozenset({"invalid_api_key", "authentication_error", "auth_error", "permission_error", "unauthenticated"})
STALE_WORDS = frozenset(
    {"model_not_found", "model_decommissioned", "model_not_active", "model_not_available", "deploymentnotfound", "unknown_url"}
    | {"operationnotsupported"}
)
CONTEXT_WORDS = frozenset({"context_length_exceeded", "exceed_context_size_error"})
FILTER_WORDS = frozenset({"content_filter", "content_policy_violation", "moderation_blocked"})
SERVER_WORDS = frozenset({"server_error", "api_error", "internal_error", "internal", "internalservererror"})
TIMEOUT_WORDS = frozenset({"timeout_error", "timeout", "deadline_exceeded", "upstream_timeout"})
MISSING_WORDS = frozenset({"not_found_error", "not_found", "notfounderror"})
CLIENT_WORDS = frozenset({"invalid_request_error", "badrequesterror", "bad_request_error", "bad_request", "invalid_argument"})

WORD_STATUSES: tuple[tuple[frozenset[str], int], ...] = (
    (BUSY_WORDS, 503),
    (BILLING_WORDS, 402),
    (RATE_WORDS, 429),
    (CREDENTIAL_WORDS, 401),
    (TIMEOUT_WORDS, 504),
    (SERVER_WORDS, 500),
    (CONTEXT_WORDS | FILTER_WORDS | STALE_WORDS, 400),
    (MISSING_WORDS, 404),
    (frozenset({"request_too_large"}), 413),
)
"""The status that an error's own words stand for, where it came with none."""

BUSY_TEXT = re.compile(r"model busy|no capacity|resource unavailable|(?:at|over) capacity|overloaded")
BILLING_TEXT = re.compile(r"payment method|insufficient (?:balance|credit|fund)|inference prohibited|exceeded your current quota")
# Messages may quote the request: what blames the provider has to stand where a client's words cannot.
ACCOUNT_TEXT = re.compile(
    r"(?:your )?(?:(?:credit|account) balance|account is not active)|(?:you have )?(?:insufficient|no) (?:balance|credit|fund)"
    r"|(?:(?:this|your) )?(?:account|organization) (?:is|has been) (?:disabled|suspended|deactivated|overdue)"
    r"|(?:(?:the|an|no|incorrect|invalid|missing) )?api key\b"
)
STALE_TEXT = re.compile(
    r"(?:the )?model .{0,200}(?:does not exist|not found|decommissioned)|(?:request error: )?model not supported"
    r"|api version not supported"
)
NOWHERE_TEXT = re.compile(
    r"(?:404:? )?(?:the )?(?:requested )?(?:page|resource|url|route|path)? ?(?:was )?not found\.?$"
    r"|(?:invalid|unknown request) url|model: |models?/|no endpoints found|the api deployment "
)
"""What a 404 says of the address or the model that it was asked for, neither of which is the client's."""
CONTEXT_TEXT = re.compile(
    r"context (?:length|window|size|limit)|(?:input|prompt) (?:is )?too long"
    r"|maximum (?:(?:prompt|input|sequence) length|model length|number of (?:input )?tokens)|reduce the length of the"
    r"|model token limit|prompt token count|tokens in the prompt cannot exceed|range of input length"
    r"|`inputs` (?:tokens \+ `max_new_tokens` )?must (?:be <=|have less than)"
)
FILTER_TEXT = re.compile(
    r"content management policy|content (?:policy|filter)|safety system|flagged (?:by|as|for)|requires moderation"
)

OUR_FIELDS = frozenset({"service_tier", "stream_options", "fail_fast"})
"""What the gateway itself adds to a body: a provider that refuses one of them is set up wrongly."""
OUR_NAMES = "(?:service_tier|stream_options|fail_fast)"
OUR_TEXT = re.compile(
    r"(?:json: )?(?:unknown|unsupported|unrecognized|unexpected|extra|invalid (?:parameter|field|argument))\b"
    rf"[^.]{{0,40}}\b{OUR_NAMES}\b"
    rf"|(?:the )?(?:property |parameter |field |argument )?\W?{OUR_NAMES}\W{{0,4}}"
    r"(?:is |are )?(?:extra|unknown|unexpected|unsupported|input should be|not (?:supported|allowed|permitted))\b"
)
"""A name at the beginning may be a value of the client's in a complaint about that: only these words blame the name itself."""

PLAIN_CODE = re.compile(r"[a-z][a-z0-9_.-]{0,63}")

NO_ANSWER = Failed(fault=Fault.BAD_ANSWER, status=200)


def failure(status: int, headers: Mapping[bytes, bytes], body: bytes, *, hidden: Sequence[str] = ()) -> Failed:
    """Name what a reply with a status other than 2xx means; header names are in lower case, `hidden` is not to be told."""
    complaint = complaint_of(body)
    fault = _fault_of_words(complaint, status) or _fault_of_status(status, complaint)
    wait_ms = retry_after_ms(headers)
    if fault is Fault.REJECTED:
        return _rejected(status, complaint, hidden, wait_ms)
    if fault is Fault.ACCOUNT_RATE and wait_ms is None:
        wait_ms = exhausted_ms(headers)
    return Failed(fault=fault, status=status, retry_after_ms=wait_ms)


def failure_inside(said: object, *, hidden: Sequence[str] = ()) -> Failed:
    """Name what an error means that came inside a 200, as a body or as an event: by its code, like a status."""
    complaint = read_complaint(said)
    status = complaint.number or _status_of_words(complaint)
    if not status:
        return NO_ANSWER
    fault = _fault_of_words(complaint, status) or _fault_of_status(status, complaint)
    if fault is Fault.REJECTED:
        return _rejected(status, complaint, hidden, None)
    return Failed(fault=fault, status=200)


def listed_failure(payload: bytes, *, hidden: Sequence[str] = ()) -> Failed | None:
    """Name what an event means that is a list with an error in it, as Google sends one; None for anything else."""
    try:
        said = decode(payload) if payload.startswith(b"[") else None
    except (msgspec.DecodeError, RecursionError):
        return None
    is_error = isinstance(said, list) and said and isinstance(said[0], Mapping) and said[0].get("error")
    return failure_inside(said, hidden=hidden) if is_error else None


def failure_of(body: bytes, *, hidden: Sequence[str] = ()) -> Failed:
    """Name what a 2xx body means that is no answer: by the error in it, where there is one."""
    try:
        return failure_inside(decode(body), hidden=hidden)
    except (msgspec.DecodeError, RecursionError):
        return NO_ANSWER


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
        return _fault_of_refusal(complaint, status)
    return None


def _fault_of_refusal(complaint: Complaint, status: int) -> Fault | None:
    """Tell what of a 4xx is ours, not the client's."""
    words, text = complaint.words, complaint.text
    if words & CREDENTIAL_WORDS or ACCOUNT_TEXT.match(text):
        return Fault.CREDENTIAL
    if words & STALE_WORDS or STALE_TEXT.match(text) or (status == 404 and NOWHERE_TEXT.match(text)):
        return Fault.STALE_MODEL
    if complaint.param in OUR_FIELDS or OUR_TEXT.match(text):
        return Fault.STALE_MODEL
    # Some providers answer 413 where a request alone would pass the account's tokens a minute.
    return Fault.ACCOUNT_RATE if words & RATE_WORDS else None


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
    """Return the status that an error without a number would have come with, 0 where it says too little to tell.

    A client's fault comes last: providers use that type for much else, and tell what it is beside it.
    """
    for words, status in WORD_STATUSES:
        if complaint.words & words:
            return status
    if BUSY_TEXT.search(complaint.text):
        return 429
    if complaint.fields:
        return 422
    return 400 if complaint.words & CLIENT_WORDS or complaint.param or CONTEXT_TEXT.search(complaint.text) else 0


def _rejected(status: int, complaint: Complaint, hidden: Sequence[str], wait_ms: int | None) -> Failed:
    code = complaint.code if complaint.code is not None and PLAIN_CODE.fullmatch(complaint.code) else None
    if code is not None and redacted(code, hidden) != code:
        code = None
    if complaint.words & CONTEXT_WORDS or CONTEXT_TEXT.search(complaint.text):
        # One status for the codes that clients act on, whatever it came with.
        code, status = "context_length_exceeded", 400
    elif complaint.words & FILTER_WORDS or FILTER_TEXT.search(complaint.text):
        code, status = "content_filter", 400
    return Failed(
        fault=Fault.REJECTED,
        status=status,
        message=redacted(complaint.message, hidden),
        param=None if complaint.param is None else redacted(complaint.param, hidden),
        code=code,
        retry_after_ms=wait_ms,
        fields=tuple(_shown(field, hidden) for field in complaint.fields[:32]),
    )


def _shown(field: FieldError, hidden: Sequence[str]) -> FieldError:
    loc = tuple(redacted(step, hidden) if isinstance(step, str) else step for step in field.loc[:16])
    return FieldError(loc, redacted(field.msg, hidden), redacted(field.type, hidden))


def _figure(value: bytes | None) -> float | None:
    try:
        figure = float(value or b"")
    except ValueError:
        return None
    return figure if isfinite(figure) else None


def _until_date_ms(headers: Mapping[bytes, bytes]) -> float | None:
    until, sent = http_date(headers.get(b"retry-after", b"")), http_date(headers.get(b"date", b""))
    return None if until is None or sent is None else (until - sent).total_seconds() * 1000
