"""What can end a request: one table of errors, and the one way each is told.

`GatewayError` ends the request: a status, a type and a code, rendered once as the OpenAI envelope. Why an attempt at an upstream
failed is in `gateway.faults`. Durations are milliseconds. The table follows the wire contract, section 6. Pure.
"""

from typing import ClassVar

from gateway.faults import Failed, FieldError


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


class InvalidDefinition(InvalidValue):
    """What was to be kept of a key, an org, a plan or a project and cannot hold: all that is wrong with it at once."""

    status = 422

    def __init__(self, fields: tuple[FieldError, ...]) -> None:
        super().__init__("\n".join(field.msg for field in fields), param="definition")
        self.fields = fields


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


class RoleNotAllowed(GatewayError):
    """An admin request by somebody who may do less."""

    status, type, code = 403, "permission_error", "role_not_allowed"


class ProjectNotAllowed(GatewayError):
    status, type, code = 403, "permission_error", "project_not_allowed"


class ModelNotFound(GatewayError):
    status, type, code = 404, "invalid_request_error", "model_not_found"


class UnknownUrl(GatewayError):
    status, type, code = 404, "invalid_request_error", "unknown_url"


class NotFound(GatewayError):
    """Something that an operator names and that is not there: a key, an org, a plan, a project."""

    status, type, code = 404, "invalid_request_error", "not_found"


class Conflict(GatewayError):
    """A change that what is there stands against: a name that is taken, a key that is revoked, an org that keys still need."""

    status, type, code = 409, "invalid_request_error", "conflict"


class Outdated(GatewayError):
    """A change of something that has been changed since its sender looked at it."""

    status, type, code = 412, "invalid_request_error", "precondition_failed"


class RequestNotFound(GatewayError):
    """An admin request for the trace of a request that is not kept."""

    status, type, code = 404, "invalid_request_error", "request_not_found"


class MethodNotAllowed(GatewayError):
    status, type, code = 405, "invalid_request_error", "method_not_allowed"

    def __init__(self, *, allow: str) -> None:
        super().__init__(f"Only {allow} is allowed here")
        self.allow = allow


class RequestTooLarge(GatewayError):
    status, type, code = 413, "invalid_request_error", "request_too_large"


class UnsupportedMediaType(GatewayError):
    status, type, code = 415, "invalid_request_error", "unsupported_media_type"


class HeadersTooLarge(GatewayError):
    status, type, code = 431, "invalid_request_error", "request_headers_too_large"


class Unprocessable(GatewayError):
    """A document of the wrong shape: every bad field at once, in OpenAI's envelope and in FastAPI's `detail`."""

    status, type, code = 422, "invalid_request_error", "invalid_value"

    CODES: ClassVar[dict[str, str]] = {"missing": "missing_required_parameter", "extra_forbidden": "unknown_parameter"}

    def __init__(self, fields: tuple[FieldError, ...]) -> None:
        first = fields[0]
        loc = first.loc[1:] if first.loc[:1] == ("body",) else first.loc
        super().__init__(first.msg, param=".".join(str(part) for part in loc) or None)
        self.fields = fields

    @property
    def error_code(self) -> str:
        """Return the code of the first bad field, which decides."""
        return self.code_of(self.fields[0])

    @classmethod
    def code_of(cls, field: FieldError) -> str:
        """Return the code of a bad field: by its type, which is a word of its own, ends in what it tells, or is a range's."""
        return cls.CODES.get(field.type) or ("invalid_type" if field.type.endswith(("_type", "_parsing")) else "out_of_range")


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


class AuthUnavailable(GatewayError):
    """A key that nobody can tell the owner of now: it may well be a good one."""

    status, type, code = 503, "service_unavailable_error", "auth_unavailable"


class LimiterUnavailable(GatewayError):
    status, type, code = 503, "service_unavailable_error", "limiter_unavailable"


class LedgerUnavailable(GatewayError):
    status, type, code = 503, "service_unavailable_error", "ledger_unavailable"


class Draining(GatewayError):
    status, type, code = 503, "service_unavailable_error", "draining"


class UpstreamTimeout(GatewayError):
    status, type, code = 504, "server_error", "upstream_timeout"


class UpstreamRejected(GatewayError):
    """The provider says that the request itself is at fault; its own status, param and code."""

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
    def error_code(self) -> str:
        """Return the provider's code, or where it gave none ours for what it says."""
        ours = RequestTooLarge.code if self.upstream_status == RequestTooLarge.status else self.code
        return self.failed.code or (Unprocessable.code_of(self.failed.fields[0]) if self.failed.fields else ours)


def status_of(error: GatewayError) -> int:
    """Return the HTTP status that this error answers with."""
    return error.upstream_status if isinstance(error, UpstreamRejected) else error.status
