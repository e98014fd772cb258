"""Request bodies for the tests of what is read of them."""

import msgspec

from gateway.errors import Unprocessable
from gateway.wire.request import Endpoint, InferenceRequest, parse

ABSENT = object()


def chat(**fields: object) -> InferenceRequest:
    return read(Endpoint.CHAT, {"model": "m", "messages": [{"role": "user", "content": "Say hi"}]} | fields)


def legacy(**fields: object) -> InferenceRequest:
    return read(Endpoint.COMPLETIONS, {"model": "m", "prompt": "Say hi"} | fields)


def read(endpoint: Endpoint, body: dict[str, object]) -> InferenceRequest:
    return parse(endpoint, msgspec.json.encode({name: value for name, value in body.items() if value is not ABSENT}))


ROUTES = {"chat": chat, "legacy": legacy}


def locs(refused: Unprocessable) -> list[tuple[str | int, ...]]:
    return [field.loc for field in refused.fields]
