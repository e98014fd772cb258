"""An error as clients are told: the OpenAI envelope, the last event of a stream, and when to come back. Pure."""

import msgspec

from gateway.errors import GatewayError, MethodNotAllowed, Unauthenticated, Unprocessable, UpstreamRejected, status_of

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


encode = msgspec.json.Encoder().encode


def envelope(error: GatewayError, *, with_detail: bool = False) -> bytes:
    """Return the error as the body of an answer: OpenAI's envelope, and on 422 FastAPI's `detail` beside it.

    Elsewhere there is one only where a contract has it: the message.
    """
    members: dict[str, object] = {"error": Body(error.message, error.error_type, error.param, error.error_code)}
    bad = detail(error)
    if bad or with_detail:
        members["detail"] = bad or error.message
    return encode(members)


def detail(error: GatewayError) -> tuple[Detail, ...]:
    """Return every bad field of a 422; other errors have none."""
    if isinstance(error, Unprocessable | UpstreamRejected) and status_of(error) == 422:
        return tuple(Detail(field.loc, field.msg, field.type) for field in error.fields)
    return ()


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
