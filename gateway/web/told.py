"""What errors of the operations port look like in its OpenAPI document."""

from collections.abc import Mapping
from http import HTTPStatus

import msgspec
from litestar.openapi.datastructures import ResponseSpec

from gateway.wire.envelope import Body, Detail


class ErrorResponse(msgspec.Struct, frozen=True):
    """OpenAI's envelope."""

    error: Body


class InvalidBody(msgspec.Struct, frozen=True):
    """The same, with every bad field."""

    error: Body
    detail: list[Detail]


_COMMON = (400, 401, 403, 503)
_OF_CHANGES = (*_COMMON, 415, 422)


def errors(*statuses: int, changes: bool = False) -> Mapping[int, ResponseSpec]:
    """Return the answers of a route but its good one: those of all routes, of those that change something, and these."""
    return {
        status: ResponseSpec(
            data_container=InvalidBody if status == HTTPStatus.UNPROCESSABLE_ENTITY else ErrorResponse,
            description=HTTPStatus(status).phrase,
            generate_examples=False,
        )
        for status in sorted({*(_OF_CHANGES if changes else _COMMON), *statuses})
    }
