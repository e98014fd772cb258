"""What an admin request asks with, before the framework reads it.

Of a body every field that is wrong is told, where the framework would tell the first alone.
"""

from typing import Any

import msgspec
from litestar import Request
from litestar.connection import ASGIConnection
from litestar.handlers import BaseRouteHandler, HTTPRouteHandler

from gateway.errors import InvalidJson, InvalidValue, Unprocessable
from gateway.faults import FieldError


def check_words(connection: ASGIConnection[Any, Any, Any, Any], _: BaseRouteHandler) -> None:
    """Let a request through whose path and query a database can be asked with: no text of it has a NUL; a guard.

    Raises InvalidValue.
    """
    for name, value in (*connection.path_params.items(), *connection.query_params.multi_items()):
        if "\0" in str(value):
            raise InvalidValue("a character of it is none of any text", param=name)


async def check_body(connection: ASGIConnection[Any, Any, Any, Any], handler: BaseRouteHandler) -> None:
    """Let a request with a sound body through; a guard.

    Raises InvalidJson and Unprocessable.
    """
    if not isinstance(connection, Request) or not isinstance(handler, HTTPRouteHandler) or handler.parsed_data_field is None:
        return
    asked = handler.parsed_data_field
    body = await connection.body()
    if not asked.has_default or body.strip() not in (b"", b"null"):
        kinds = (asked.annotation, *asked.args)
        check(next((kind for kind in kinds if isinstance(kind, type) and issubclass(kind, msgspec.Struct)), None), body)


def check(kind: type[msgspec.Struct] | None, body: bytes) -> None:
    """Raise InvalidJson for what is no JSON, Unprocessable with all that keeps it from being of this kind: None is any object."""
    try:
        sent = msgspec.json.decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        raise InvalidJson("The request body is no JSON document") from None
    if wrong := wrong_fields(kind, sent):
        raise Unprocessable(wrong)


def wrong_fields(kind: type[msgspec.Struct] | None, sent: object) -> tuple[FieldError, ...]:
    """Return each field that is missing, unknown, or not what it must be."""
    if not isinstance(sent, dict):
        return (FieldError(("body",), "Input should be an object", "dict_type"),)
    if kind is None:
        return ()
    known = {field.encode_name: field for field in msgspec.structs.fields(kind)}
    found = [
        FieldError(("body", name), "Field required", "missing") for name in known if known[name].required and name not in sent
    ]
    for name, value in sent.items():
        if name not in known:
            found.append(FieldError(("body", name), "Extra inputs are not permitted", "extra_forbidden"))
            continue
        try:
            msgspec.convert(value, known[name].type)
        except msgspec.ValidationError as error:
            text = str(error)
            found.append(FieldError(("body", name), text, "wrong_type" if ", got `" in text else "value_error"))
    return tuple(found)
