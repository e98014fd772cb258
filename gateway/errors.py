"""What can end a request, and what can end one attempt at an upstream.

`GatewayError` ends the request: a status, a type and a code, rendered once as the OpenAI envelope. `Fault` names why one
attempt failed and what the walk may do about it. Durations are milliseconds. The table follows the wire contract, section 6.
Pure.
"""

from enum import StrEnum
from typing import ClassVar

import msgspec


class EndClass(StrEnum):
    """What an attempt's end means to the walk; the words of `fallback.on`."""

    CAPACITY = "capacity"
    UNAVAILABLE = "unavailable"
    CLIENT = "client"


class Fault(StrEnum):
    """Why one attempt at an upstream failed."""

    CONNECT = "connect"
    TLS = "tls"
    WRITE = "write"
    TIMEOUT = "timeout"
    RESET = "reset"
    PROTOCOL = "protocol"
    BAD_ANSWER = "bad_answer"
    SERVER = "server"
    UPSTREAM_TIMEOUT = "upstream_timeout"
    CREDENTIAL = "credential"
    BILLING = "billing"
    STALE_MODEL = "stale_model"
    BUSY = "busy"
    ACCOUNT_RATE = "account_rate"
    REJECTED = "rejected"

    @property
    def end_class(self) -> EndClass:
        """Return the class of `fallback.on` that this fault belongs to."""
        if self in (Fault.BUSY, Fault.ACCOUNT_RATE):
            return EndClass.CAPACITY
        return EndClass.CLIENT if self is Fault.REJECTED else EndClass.UNAVAILABLE


class FieldError(msgspec.Struct, frozen=True):
    """One field of a body that has the wrong shape: where, what, and pydantic's name for it."""

    loc: tuple[str | int, ...]
    msg: str
    type: str


class Failed(msgspec.Struct, frozen=True, kw_only=True):
    """How one attempt ended without an answer.

    `status` is the upstream's, 0 when none came. `message`, `param`, `code` and `type` are set for `REJECTED` alone: the
    client's own fault, told in the provider's words (already cleaned of hosts and secrets). `sent` says whether any byte of
    the request may have reached the upstream.
    """

    fault: Fault
    status: int = 0
    message: str = ""
    type: str = "invalid_request_error"
    param: str | None = None
    code: str | None = None
    retry_after_ms: int | None = None
    sent: bool = True
    fields: tuple[FieldError, ...] = ()
    """The fields that a provider's 422 names, for `detail`."""


class GatewayError(Exception):
    """The request is over. Subclasses are the rows of the error table."""

    status: ClassVar[int] = 500
    type: ClassVar[str] = "server_error"
    code: ClassVar[str] = "internal_error"
    should_retry: ClassVar[bool | None] = None
    """The value of `x-should-retry`; None leaves the decision to the status."""

    def __init__(self, message: str, *, param: str | None = None, retry_after_ms: int | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.param = param
        self.retry_after_ms = retry_after_ms

    @property
    def error_type(self) -> str:
        """Return the envelope's `type`."""
        return self.type

    @property
    def error_code(self) -> str:
        """Return the envelope's `code`, which is the metric label too."""
        return self.code

    @property
    def retryable(self) -> bool | None:
        """Return the value of `x-should-retry`, or None to send none."""
        return self.should_retry


class InvalidValue(GatewayError):
    status, type, code = 400, "invalid_request_error", "invalid_value"


class InvalidJson(GatewayError):
    status, type, code = 400, "invalid_request_error", "invalid_json"


class InvalidRequest(GatewayError):
    """An HTTP message that is no clean request: doubled credentials, a truncated body."""

    status, type, code = 400, "invalid_request_error", "invalid_request"


class UnsupportedParameter(GatewayError):
    status, type, code = 400, "invalid_request_error", "unsupported_parameter"


class UnsupportedPrompt(GatewayError):
    status, type, code = 400, "invalid_request_error", "unsupported_prompt"


class ContextLengthExceeded(GatewayError):
    status, type, code = 400, "invalid_request_error", "context_length_exceeded"


class Unauthenticated(GatewayError):
    status, type, code = 401, "invalid_request_error", "invalid_api_key"


class InsufficientQuota(GatewayError):
    status, type, code = 402, "insufficient_quota", "insufficient_quota"
    should_retry = False


class IpNotAllowed(GatewayError):
    status, type, code = 403, "permission_error", "ip_not_allowed"


class HostNotAllowed(GatewayError):
    """An admin request by a name that is not this machine's, or from a page of another origin."""

    status, type, code = 403, "permission_error", "host_not_allowed"


class ProjectNotAllowed(GatewayError):
    status, type, code = 403, "permission_error", "project_not_allowed"


class ModelNotFound(GatewayError):
    status, type, code = 404, "invalid_request_error", "model_not_found"


class UnknownUrl(GatewayError):
    status, type, code = 404, "invalid_request_error", "unknown_url"


class MethodNotAllowed(GatewayError):
    status, type, code = 405, "invalid_request_error", "method_not_allowed"

    def __init__(self, *, allow: str) -> None:
        super().__init__(f"Only {allow} is allowed here")
        self.allow = allow


class RequestTimeout(GatewayError):
    status, type, code = 408, "invalid_request_error", "request_timeout"


class RequestTooLarge(GatewayError):
    status, type, code = 413, "invalid_request_error", "request_too_large"


class UnsupportedMediaType(GatewayError):
    status, type, code = 415, "invalid_request_error", "unsupported_media_type"


class HeadersTooLarge(GatewayError):
    status, type, code = 431, "invalid_request_error", "request_headers_too_large"


class Unprocessable(GatewayError):
    """A document of the wrong shape: every bad field at once, in OpenAI's envelope and in FastAPI's `detail`."""

    status, type, code = 422, "invalid_request_error", "invalid_value"

    CODES: ClassVar[dict[str, str]] = {"missing": "missing_required_parameter", "type": "invalid_type", "range": "out_of_range"}
    """The first field's error decides the envelope's code: its `type` is `missing`, or ends in `_type`, or is a range."""

    def __init__(self, fields: tuple[FieldError, ...]) -> None:
        first = fields[0]
        loc = first.loc[1:] if first.loc[:1] == ("body",) else first.loc
        super().__init__(first.msg, param=".".join(str(part) for part in loc) or None)
        self.fields = fields

    @property
    def error_code(self) -> str:
        """Return the code of the first bad field."""
        kind = self.fields[0].type
        if kind == "missing":
            return self.CODES["missing"]
        return self.CODES["type"] if kind.endswith(("_type", "_parsing")) else self.CODES["range"]


class RateLimited(GatewayError):
    """A limit of the caller's own key or organisation. `dimension` is `requests` or `tokens`."""

    status, type, code = 429, "requests", "rate_limit_exceeded"

    def __init__(self, message: str, *, dimension: str, retry_after_ms: int | None = None, never: bool = False) -> None:
        super().__init__(message, retry_after_ms=retry_after_ms)
        self.dimension = dimension
        self.never = never

    @property
    def error_type(self) -> str:
        """Return the dimension that refused."""
        return self.dimension

    @property
    def retryable(self) -> bool | None:
        """A request that is larger than its whole bucket never fits."""
        return False if self.never else None


class EngineOverloaded(GatewayError):
    """Model busy, in the documented words."""

    status, type, code = 429, "invalid_request_error", "engine_overloaded"

    def __init__(self, *, retry_after_ms: int | None = None) -> None:
        super().__init__("Model busy, retry later", retry_after_ms=retry_after_ms)


class FlexNoCapacity(GatewayError):
    status, type, code = 429, "rate_limit_error", "flex_no_capacity"

    def __init__(self, *, retry_after_ms: int | None = None) -> None:
        super().__init__("No spare capacity for flex requests, retry later", retry_after_ms=retry_after_ms)


class Internal(GatewayError):
    status, type, code = 500, "server_error", "internal_error"


class UpstreamUnavailable(GatewayError):
    status, type, code = 502, "upstream_error", "upstream_unavailable"


class UpstreamCredential(GatewayError):
    status, type, code = 502, "upstream_error", "upstream_auth_error"


class UpstreamBadResponse(GatewayError):
    status, type, code = 502, "upstream_error", "upstream_bad_response"


class StreamInterrupted(GatewayError):
    """A stream that broke after its first byte went out; never a status, always the last event."""

    status, type, code = 502, "upstream_error", "stream_interrupted"


class Overloaded(GatewayError):
    status, type, code = 503, "service_unavailable_error", "overloaded"


class LimiterUnavailable(GatewayError):
    status, type, code = 503, "service_unavailable_error", "limiter_unavailable"


class AuthUnavailable(GatewayError):
    status, type, code = 503, "service_unavailable_error", "auth_unavailable"


class Draining(GatewayError):
    status, type, code = 503, "service_unavailable_error", "draining"


class UpstreamTimeout(GatewayError):
    status, type, code = 504, "server_error", "upstream_timeout"


class UpstreamRejected(GatewayError):
    """The provider says that the request itself is at fault; its own status, type, param and code."""

    status, type, code = 400, "invalid_request_error", "invalid_value"

    def __init__(self, failed: Failed) -> None:
        super().__init__(failed.message or "The provider refused the request", param=failed.param)
        self.failed = failed

    @property
    def fields(self) -> tuple[FieldError, ...]:
        """Return the bad fields as the provider names them; at least one."""
        loc = ("body",) if self.failed.param is None else ("body", self.failed.param)
        return self.failed.fields or (FieldError(loc, self.message, "value_error"),)

    @property
    def upstream_status(self) -> int:
        """Return the status to answer with."""
        return self.failed.status if 400 <= self.failed.status < 500 else self.status

    @property
    def error_type(self) -> str:
        """Return the provider's type."""
        return self.failed.type

    @property
    def error_code(self) -> str:
        """Return the provider's code, or ours where it gave none."""
        return self.failed.code or self.code


class Body(msgspec.Struct, frozen=True):
    """The members of the envelope's `error`."""

    message: str
    type: str
    param: str | None
    code: str


class Detail(msgspec.Struct, frozen=True):
    """One entry of FastAPI's `detail` list."""

    loc: tuple[str | int, ...]
    msg: str
    type: str


encode = msgspec.json.Encoder().encode


def status_of(error: GatewayError) -> int:
    """Return the HTTP status that this error answers with."""
    return error.upstream_status if isinstance(error, UpstreamRejected) else error.status


def envelope(error: GatewayError) -> bytes:
    """Return the error as the body of an answer: OpenAI's envelope, and on 422 FastAPI's `detail` beside it."""
    members: dict[str, object] = {"error": Body(error.message, error.error_type, error.param, error.error_code)}
    if isinstance(error, Unprocessable | UpstreamRejected) and status_of(error) == 422:
        members["detail"] = [Detail(field.loc, field.msg, field.type) for field in error.fields]
    return encode(members)


def event(error: GatewayError) -> bytes:
    """Return the error as the last event of a stream that is under way; official SDKs raise on it."""
    return b"data: " + envelope(error) + b"\n\n"


def headers(error: GatewayError) -> list[tuple[bytes, bytes]]:
    """Return the headers that carry what the envelope cannot: when, and whether, to come back."""
    found: list[tuple[bytes, bytes]] = []
    if error.retry_after_ms is not None:
        wait_ms = max(1, error.retry_after_ms)
        found.append((b"retry-after", b"%d" % -(-wait_ms // 1000)))
        found.append((b"retry-after-ms", b"%d" % wait_ms))
    retryable = error.retryable
    if retryable is None and error.retry_after_ms is not None and error.retry_after_ms > LONGEST_SDK_WAIT_MS:
        retryable = False
    if retryable is not None:
        found.append((b"x-should-retry", b"true" if retryable else b"false"))
    if isinstance(error, Unauthenticated):
        found.append((b"www-authenticate", b"Bearer"))
    if isinstance(error, MethodNotAllowed):
        found.append((b"allow", error.allow.encode()))
    return found


LONGEST_SDK_WAIT_MS = 60_000
"""Official SDKs ignore a longer hint and come back at once: beyond it they are told not to (wire contract, 6.3)."""
