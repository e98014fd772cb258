"""The schemas of the API's document: what is asked, by the readers of requests, and what is answered and told.

Of answers only what the gateway itself vouches for is required.
"""

from collections.abc import Iterable, Mapping
from typing import Any

import msgspec

from gateway.policy.account import Account
from gateway.policy.tiers import WORDS
from gateway.web.models import DeepInfraCard, ModelCard, ModelList, NebiusCard
from gateway.wire.envelope import Body, Detail
from gateway.wire.fields import REFUSED_IN_EXTRA_BODY
from gateway.wire.readers import Schema, or_null
from gateway.wire.request import COUNT as COUNTS
from gateway.wire.request import TABLES, Endpoint, Table

REFERENCE = "#/components/schemas/{name}"

REQUESTS: Mapping[Endpoint, str] = {
    Endpoint.CHAT: "CreateChatCompletionRequest",
    Endpoint.COMPLETIONS: "CreateCompletionRequest",
    Endpoint.EMBEDDINGS: "CreateEmbeddingRequest",
    Endpoint.MESSAGES: "CreateMessageParams",
    Endpoint.RESPONSES: "CreateResponse",
}
ANSWERS: Mapping[Endpoint, str] = {
    Endpoint.CHAT: "CreateChatCompletionResponse",
    Endpoint.COMPLETIONS: "CreateCompletionResponse",
    Endpoint.EMBEDDINGS: "CreateEmbeddingResponse",
    Endpoint.MESSAGES: "Message",
    Endpoint.RESPONSES: "Response",
}
CHOICE: Mapping[Endpoint, Schema] = {
    Endpoint.CHAT: {"message": {"type": "object"}},
    Endpoint.COMPLETIONS: {"text": {"type": "string"}},
}
COUNTED = "MessageCountTokensParams"
COUNT: Schema = {"type": "integer", "minimum": 0}

KIND = ("type", "message")
"""What an error of Anthropic's says."""

VECTOR: Schema = {"anyOf": [{"type": "string", "contentEncoding": "base64"}, {"type": "array", "items": {"type": "number"}}]}

TOP_LOGPROBS: Schema = {
    "if": {"properties": {"top_logprobs": {"type": "integer"}}, "required": ["top_logprobs"]},
    "then": {"properties": {"logprobs": {"const": True}}, "required": ["logprobs"]},
}
"""What `gateway.wire.request` says of two fields at once, where an endpoint has both."""

ALLOWED: Mapping[str, Schema] = {"background": {"enum": [False, None]}}
"""What `gateway.wire.request` says of the values that a field may hold."""


def schemas(served: Iterable[Endpoint]) -> dict[str, object]:
    """Return every schema by its name, for these endpoints."""
    _, cards = msgspec.json.schema_components(
        (ModelCard, DeepInfraCard, NebiusCard, ModelList, Account, Body, Detail), ref_template=REFERENCE
    )
    error = {"type": "object", "properties": {"error": reference("Body")}, "required": ["error"]}
    fields = {"detail": {"type": "array", "items": reference("Detail"), "minItems": 1}}
    anthropic = {
        "type": {"const": "error"},
        "error": {"type": "object", "properties": {name: {"type": "string"} for name in KIND}, "required": KIND},
        "request_id": {"type": "string"},
    }
    return {
        **cards,
        "ErrorResponse": error,
        "MessagesError": {"type": "object", "properties": anthropic, "required": [*anthropic]},
        "HTTPValidationError": {"allOf": [reference("ErrorResponse"), {"properties": fields, "required": ["detail"]}]},
        **{REQUESTS[endpoint]: _request(TABLES[endpoint]) for endpoint in served},
        COUNTED: _request(COUNTS),
        **{ANSWERS[endpoint]: _answer(endpoint) for endpoint in served},
    }


def _request(table: Table) -> Schema:
    fields: dict[str, Any] = {name: reader.schema for name, reader in table.fields.items()}
    fields["service_tier"] = {"type": "string", "enum": ["auto", *WORDS]}
    model, models = fields.pop("model"), fields.pop("models")
    needed = (table.asked, *table.required)
    optional = {name: ALLOWED.get(name) or or_null(schema) for name, schema in fields.items() if name not in needed}
    refused = dict.fromkeys(sorted(REFUSED_IN_EXTRA_BODY), False)
    return {
        "type": "object",
        "properties": {
            **{name: fields[name] for name in needed},
            **optional,
            "extra_body": or_null({"type": "object", "properties": refused}),
        },
        "required": needed,
        "anyOf": [
            {"properties": {"model": model, "models": {"type": "null"}}, "required": ["model"]},
            {"properties": {"models": models}, "required": ["models"]},
        ],
        **(TOP_LOGPROBS if {"logprobs", "top_logprobs"} <= fields.keys() else {}),
    }


def _answer(endpoint: Endpoint) -> Schema:
    if endpoint is Endpoint.MESSAGES:
        return _message("content", {"input_tokens": COUNT, "output_tokens": COUNT})
    if endpoint is Endpoint.RESPONSES:
        return _message("output", {"input_tokens": COUNT, "output_tokens": COUNT})
    content = _choices(endpoint) if endpoint.generates else _vectors()
    return {
        "type": "object",
        "properties": {
            **content,
            "model": {"type": "string"},
            "service_tier": {"type": "string"},
            "usage": {"type": ["object", "null"], "properties": {"prompt_tokens": COUNT, "completion_tokens": COUNT}},
        },
        "required": [*content, "model"],
    }


def _message(content: str, usage: Schema) -> Schema:
    """Return the schema of a message, or another answer in parts of several types, which are its `content`."""
    part = {"type": "object", "properties": {"type": {"type": "string"}}, "required": ["type"]}
    return {
        "type": "object",
        "properties": {
            **{name: {"type": "string"} for name in ("id", "model")},
            content: {"type": "array", "items": part},
            "usage": {"type": ["object", "null"], "properties": usage},
        },
        "required": ["id", "model", content],
    }


def _choices(endpoint: Endpoint) -> Schema:
    choice = {"type": "object", "properties": CHOICE[endpoint]}
    return {"id": {"type": "string"}, "choices": {"type": "array", "minItems": 1, "items": choice}}


def _vectors() -> Schema:
    item = {"type": "object", "properties": {"embedding": VECTOR}, "required": ["embedding"]}
    return {"data": {"type": "array", "minItems": 1, "items": item}}


def reference(name: str) -> Schema:
    """Return where a schema is referred to."""
    return {"$ref": REFERENCE.format(name=name)}
