"""Errors of ordinary handlers as the OpenAI envelope, whoever raised them."""

from typing import Any

import structlog
from litestar import MediaType, Request, Response
from litestar.exceptions import HTTPException, MethodNotAllowedException, NotFoundException, ValidationException

from gateway.errors import GatewayError, Internal, InvalidRequest, InvalidValue, MethodNotAllowed, UnknownUrl, status_of
from gateway.wire import envelope

BODY = "data"
"""What Litestar calls a request's body."""

log = structlog.get_logger(__name__)


def answer(request: Request[Any, Any, Any], error: Exception) -> Response[bytes]:
    """Return the answer to a request that failed; the exception handler of a whole application."""
    known = translated(error)
    if isinstance(known, Internal):
        log.error("request_failed", path=request.url.path, exc_info=error)
    return render(known)


def render(error: GatewayError, *, with_detail: bool = False) -> Response[bytes]:
    """Return an error as an answer, with FastAPI's `detail` where a contract has it."""
    headers = {name.decode(): value.decode() for name, value in envelope.headers(error)}
    body = envelope.envelope(error, with_detail=with_detail)
    return Response(body, status_code=status_of(error), headers=headers, media_type=MediaType.JSON)


def translated(error: Exception) -> GatewayError:
    """Return the row of the error table that an exception is."""
    if isinstance(error, GatewayError):
        return error
    if isinstance(error, NotFoundException):
        return UnknownUrl("There is nothing at this URL")
    if isinstance(error, MethodNotAllowedException):
        return MethodNotAllowed(allow=(error.headers or {}).get("allow", "GET"))
    if isinstance(error, ValidationException):
        return invalid(error)
    if isinstance(error, HTTPException) and error.status_code < 500:
        return InvalidRequest(error.detail)
    return Internal("The gateway failed to handle this request")


def invalid(error: ValidationException) -> InvalidValue:
    """Return the first parameter at fault; the body as a whole is none."""
    first = error.extra[0] if isinstance(error.extra, list) and error.extra else {}
    param = first.get("key")
    return InvalidValue(first.get("message", error.detail), param=None if param == BODY else param)
