"""An error as clients are told: in whose envelope, as the last event of a stream, and when to come back. Pure."""

import re
from collections.abc import Mapping
from enum import Enum, auto

import msgspec

from gateway.errors import (
    EngineOverloaded,
    FlexNoCapacity,
    GatewayError,
    InvalidDefinition,
    MethodNotAllowed,
    Unauthenticated,
    Unprocessable,
    UpstreamRejected,
    status_of,
)

LONGEST_SDK_WAIT_MS = 60_000
"""Official SDKs ignore a longer hint and come back at once: beyond it they are told not to (wire contract, 6.3)."""


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


class Manner(Enum):
    """Whose clients are told: OpenAI's, those that look for FastAPI's `detail` in every error, or Anthropic's."""

    OPENAI = auto()
    DETAIL = auto()
    ANTHROPIC = auto()


KINDS: Mapping[int, str] = {
    401: "authentication_error",
    402: "billing_error",
    403: "permission_error",
    404: "not_found_error",
    413: "request_too_large",
    429: "rate_limit_error",
    503: "overloaded_error",
    504: "timeout_error",
}
"""What Anthropic calls an error of a status; other statuses are the request's fault or the API's."""

encode = msgspec.json.Encoder().encode


class Telling(msgspec.Struct, frozen=True, gc=False):
    """How the errors of one request are told."""

    manner: Manner = Manner.OPENAI
    request_id: str = ""
    numbered: bool = False
    """Events of streams have a name and a number, as those of OpenAI's Responses."""

    @property
    def headers(self) -> list[tuple[bytes, bytes]]:
        """Return what goes with every answer besides: Anthropic's name for the request's id."""
        return [(b"request-id", self.request_id.encode())] if self.manner is Manner.ANTHROPIC else []

    def body(self, error: GatewayError) -> bytes:
        """Return the error as the body of an answer."""
        if self.manner is Manner.ANTHROPIC:
            return anthropic(error, self.request_id)
        return envelope(error, with_detail=self.manner is Manner.DETAIL)

    def event(self, error: GatewayError, number: int = 0) -> bytes:
        """Return the error as the last event of a stream that is under way, of this number; official SDKs raise on it."""
        if self.numbered:
            return b"event: error\ndata: " + numbered(error, number) + b"\n\n"
        if self.manner is Manner.ANTHROPIC:
            return b"event: error\ndata: " + anthropic(error, self.request_id) + b"\n\n"
        return b"data: " + envelope(error) + b"\n\n"


def envelope(error: GatewayError, *, with_detail: bool = False) -> bytes:
    """Return OpenAI's envelope, and on 422 FastAPI's `detail` beside it.

    Elsewhere there is one only where a contract has it: the message.
    """
    members: dict[str, object] = {"error": Body(error.message, error.error_type, error.param, error.error_code)}
    bad = detail(error)
    if bad or with_detail:
        members["detail"] = bad or error.message
    return encode(members)


def numbered(error: GatewayError, number: int) -> bytes:
    """Return the error as an event of Responses.

    As it is documented its members are the event's own; what OpenAI sends, and its SDKs raise on, has them in `error`.
    """
    told = Body(error.message, error.error_type, error.param, error.error_code)
    members = {"code": told.code, "message": told.message, "param": told.param}
    return encode({"type": "error", **members, "sequence_number": number, "error": told})


def anthropic(error: GatewayError, request_id: str) -> bytes:
    """Return Anthropic's envelope, which has no place for the field at fault but the message.

    A busy model is no limit of the caller's own: its type says so where the status is the same.
    """
    status = status_of(error)
    kind = KINDS.get(status, "invalid_request_error" if status < 500 else "api_error")
    if isinstance(error, EngineOverloaded | FlexNoCapacity):
        kind = KINDS[503]
    named = error.param is None or re.search(rf"(?<![\w.]){re.escape(error.param)}(?!\w)", error.message)
    message = error.message if named else f"{error.param}: {error.message}"
    return encode({"type": "error", "error": {"type": kind, "message": message}, "request_id": request_id})


def detail(error: GatewayError) -> tuple[Detail, ...]:
    """Return every bad field of a 422; other errors have none."""
    if isinstance(error, Unprocessable | InvalidDefinition | UpstreamRejected) and status_of(error) == 422:
        return tuple(Detail(field.loc, field.msg, field.type) for field in error.fields)
    return ()


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
