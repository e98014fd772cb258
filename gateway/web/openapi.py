"""The API listener as OpenAPI 3.1, made of what requests are read by and errors are told by: nothing is said twice.

Names of schemas and operations are those that the published contracts use. A field that a schema does not name is passed on to
providers, and null is the same as to leave a field out; of answers, only what the gateway itself vouches for is required.
"""

from collections.abc import Iterator, Mapping, Sequence
from http import HTTPStatus

import msgspec

from gateway import errors
from gateway.errors import GatewayError
from gateway.web.inference import Route
from gateway.web.schemas import ANSWERS, COUNT, COUNTED, REQUESTS, reference, schemas
from gateway.wire.contracts import DEEPINFRA, NEBIUS, Contract
from gateway.wire.envelope import Manner
from gateway.wire.readers import Schema, or_null
from gateway.wire.request import COUNT as COUNT_TABLE
from gateway.wire.request import TABLES, Endpoint

EXAMPLES: Mapping[Endpoint, Mapping[str, object]] = {
    Endpoint.CHAT: {
        "model": "llama-3.1-8b",
        "messages": [{"role": "user", "content": "Say hi"}],
        "service_tier": "priority",
        "max_tokens": 20,
    },
    Endpoint.COMPLETIONS: {"model": "llama-3.1-8b", "prompt": "Say hi", "service_tier": "default", "max_tokens": 20},
    Endpoint.EMBEDDINGS: {"model": "bge-m3", "input": ["Say hi", "Say bye"], "encoding_format": "float"},
    Endpoint.MESSAGES: {
        "model": "llama-3.1-8b",
        "messages": [{"role": "user", "content": "Say hi"}],
        "service_tier": "standard_only",
        "max_tokens": 20,
    },
    Endpoint.RESPONSES: {"model": "gpt-5", "input": "Say hi", "service_tier": "default", "max_output_tokens": 20},
}

CHUNKS = "its chunks, then `[DONE]`"
STREAMS: Mapping[Endpoint, str] = {
    Endpoint.MESSAGES: "its events, `message_start` to `message_stop`",
    Endpoint.RESPONSES: "its events, `response.created` to `response.completed` or `response.incomplete`",
}

SECURITY: Mapping[str, Schema] = {
    "bearer": {"type": "http", "scheme": "bearer"},
    **{name: {"type": "apiKey", "in": "header", "name": name} for name in ("x-api-key", "xi-api-key", "api-key")},
}

PROJECT = {
    "name": "ai_project_id",
    "in": "query",
    "description": "For which project of the org it is; absent, the key's own",
    "schema": {"type": "string"},
}
VERBOSE = {"name": "verbose", "in": "query", "schema": {"type": "string"}}

TOLD: Mapping[Manner, tuple[str, str]] = {
    Manner.OPENAI: ("HTTPValidationError", "ErrorResponse"),
    Manner.ANTHROPIC: ("MessagesError", "MessagesError"),
}
"""The schemas of a 422 and of other errors."""

ASKING = (
    *(errors.Unauthenticated, errors.IpNotAllowed, errors.HeadersTooLarge, errors.InvalidRequest),
    errors.AuthUnavailable,
)
"""What any request with a key may hear."""

COUNTING = (
    *(errors.InvalidJson, errors.InvalidValue, errors.UnsupportedParameter, errors.ModelNotFound, errors.RequestTooLarge),
    *(errors.UnsupportedMediaType, errors.Unprocessable, errors.RateLimited, errors.Internal, errors.Overloaded, errors.Draining),
)
"""What a request may hear besides that is only counted."""


def document(release: str, routes: Sequence[Route], prefixes: Mapping[str, Contract]) -> bytes:
    """Return the document, for these paths of inference and these prefixes of the lists of models."""
    paths: dict[str, object] = {route.path: {"post": _counting(route) if route.counts else _inference(route)} for route in routes}
    for prefix, contract in prefixes.items():
        paths[f"{prefix}/models"] = {"get": _list_of_models(prefix, contract)}
        paths[f"{prefix}/models/{{model}}"] = {"get": _one_model(prefix, contract)}
        paths[f"{prefix}/key"] = {"get": _own_key(prefix)}
    paths["/health"] = {
        "get": {"operationId": "health", "security": [], "responses": {"200": _json("Alive", {"type": "object"})}}
    }
    found = {
        "openapi": "3.1.0",
        "info": {"title": "Tiergate", "version": release, "license": {"name": "Apache-2.0", "identifier": "Apache-2.0"}},
        "security": [{name: []} for name in SECURITY],
        "paths": paths,
        "components": {"schemas": schemas({route.endpoint for route in routes}), "securitySchemes": SECURITY},
    }
    return msgspec.json.encode(found)


def _inference(route: Route) -> dict[str, object]:
    endpoint, contract = route.endpoint, route.contract
    content: dict[str, object] = {"application/json": {"schema": reference(ANSWERS[endpoint])}}
    if "stream" in TABLES[endpoint].fields:
        content["text/event-stream"] = {}
    return {
        "operationId": route.path.strip("/").replace("/", "_"),
        "summary": f"{endpoint.capitalize()}, as {contract.name} has it",
        "tags": [endpoint],
        "parameters": [PROJECT],
        "requestBody": {
            "required": True,
            "content": {"application/json": {"schema": _bounded(endpoint, contract), "example": EXAMPLES[endpoint]}},
        },
        "responses": {
            "200": {"description": f"The answer; where `stream` is true {STREAMS.get(endpoint, CHUNKS)}", "content": content},
            **_told(*_all_errors(), manner=route.manner),
        },
    }


def _counting(route: Route) -> dict[str, object]:
    counted = {name: value for name, value in EXAMPLES[route.endpoint].items() if name in COUNT_TABLE.fields}
    told = _json("About how many tokens the prompt has", {"type": "object", "properties": {"input_tokens": COUNT}})
    return {
        "operationId": route.path.strip("/").replace("/", "_"),
        "summary": f"{route.endpoint.capitalize()} counted, not answered",
        "tags": [route.endpoint],
        "parameters": [PROJECT],
        "requestBody": {
            "required": True,
            "content": {"application/json": {"schema": reference(COUNTED), "example": counted}},
        },
        "responses": {"200": told, **_told(*ASKING, *COUNTING, manner=route.manner)},
    }


def _bounded(endpoint: Endpoint, contract: Contract) -> Schema:
    """Return what a contract takes: what all do, within its own bounds."""
    bounds = {
        "n": or_null({"type": "integer", "maximum": contract.most_choices}),
        "stop": {"anyOf": [{"type": ["string", "null"]}, {"type": "array", "maxItems": contract.most_stops}]},
    }
    known = TABLES[endpoint].fields.keys()
    return {"allOf": [reference(REQUESTS[endpoint]), {"properties": {n: bound for n, bound in bounds.items() if n in known}}]}


def _list_of_models(prefix: str, contract: Contract) -> dict[str, object]:
    listed = {"allOf": [reference("ModelList"), {"properties": {"data": {"items": _card(contract)}}}]}
    return {
        "operationId": f"{prefix.strip('/').replace('/', '_')}_models",
        "tags": ["models"],
        "parameters": [VERBOSE] if contract is NEBIUS else [],
        "responses": {"200": _json("What the key may use", listed), **_told(*ASKING)},
    }


def _one_model(prefix: str, contract: Contract) -> dict[str, object]:
    return {
        "operationId": f"{prefix.strip('/').replace('/', '_')}_model",
        "tags": ["models"],
        "parameters": [
            {"name": "model", "in": "path", "required": True, "schema": {"type": "string"}},
            *([VERBOSE] if contract is NEBIUS else []),
        ],
        "responses": {"200": _json("The model", _card(contract)), **_told(*ASKING, errors.ModelNotFound)},
    }


def _own_key(prefix: str) -> dict[str, object]:
    return {
        "operationId": f"{prefix.strip('/').replace('/', '_')}_key",
        "tags": ["keys"],
        "parameters": [PROJECT],
        "responses": {
            "200": _json("What the key may do and has used", reference("Account")),
            **_told(*ASKING, errors.ProjectNotAllowed, errors.LimiterUnavailable),
        },
    }


def _card(contract: Contract) -> Schema:
    return reference("DeepInfraCard" if contract is DEEPINFRA else "ModelCard")


def _told(*kinds: type[GatewayError], manner: Manner = Manner.OPENAI) -> dict[str, object]:
    """Return the answers that errors are told by, one for each status."""
    invalid, other = TOLD.get(manner, TOLD[Manner.OPENAI])
    by_status: dict[int, list[type[GatewayError]]] = {}
    for kind in kinds:
        by_status.setdefault(kind.status, []).append(kind)
    return {
        str(status): _json(
            f"{HTTPStatus(status).phrase}: {', '.join(sorted({kind.code for kind in found}))}",
            reference(invalid if status == HTTPStatus.UNPROCESSABLE_ENTITY else other),
        )
        for status, found in sorted(by_status.items())
    }


def _all_errors() -> Iterator[type[GatewayError]]:
    of_operations = (errors.NotFound, errors.Conflict, errors.Outdated, errors.RequestNotFound)
    elsewhere = (*of_operations, errors.HostNotAllowed, errors.RoleNotAllowed, errors.UnknownUrl, errors.MethodNotAllowed)
    return (kind for kind in GatewayError.__subclasses__() if kind not in elsewhere)


def _json(description: str, schema: Schema) -> dict[str, object]:
    content = {"application/json": {"schema": schema}}
    return {"description": description, "headers": {"x-request-id": {"schema": {"type": "string"}}}, "content": content}
