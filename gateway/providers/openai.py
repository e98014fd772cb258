"""The OpenAI dialect, which most providers speak: the client's own bytes with a few members changed, both ways.

What the gateway obeys itself is taken out of a call, what the provider is set up for is put in, everything else travels byte for
byte. Nothing of the client's headers does. Pure.
"""

import re
from collections.abc import Mapping
from typing import ClassVar

import msgspec
from msgspec.structs import replace

from gateway.errors import InvalidJson, Unprocessable
from gateway.faults import Failed
from gateway.policy.catalogue import Deployment, Provider, Tier
from gateway.policy.lacking import is_idle
from gateway.policy.natures import Nature
from gateway.policy.tiers import PRIORITIES
from gateway.providers import embeddings, responses
from gateway.providers.chunks import decode_chunk, output_bytes
from gateway.providers.editing import common_edits, encode, shown_usage
from gateway.providers.failures import failure, failure_of
from gateway.providers.headers import headers_of
from gateway.providers.messages_over_chat import MessagesOverChat
from gateway.providers.openai_stream import OpenAIStream
from gateway.providers.over_chat import OverChat
from gateway.providers.protocol import Answer, Call, Edits, StreamReader
from gateway.providers.redaction import account_names
from gateway.providers.responses_stream import ResponsesStream
from gateway.wire.members import splice, split
from gateway.wire.request import TABLES, Endpoint, InferenceRequest
from gateway.wire.usage import read_usage

PATHS: Mapping[Endpoint, str] = {
    Endpoint.CHAT: "/chat/completions",
    Endpoint.COMPLETIONS: "/completions",
    Endpoint.EMBEDDINGS: "/embeddings",
    Endpoint.RESPONSES: "/responses",
}
"""Below the provider's base URL."""

OBEYED = frozenset({"models", "fail_fast", "service_tier", "stream_options"})
"""What the gateway itself does: never sent in the client's words."""

NEVER_SENT = frozenset({"api_key", "api_base", "base_url", "headers", "extra_headers", "organization"})
"""What an upstream could take for routing or credentials."""

PASSED: Mapping[Endpoint, frozenset[str]] = {
    endpoint: frozenset(table.fields) - OBEYED - NEVER_SENT - {"store"} for endpoint, table in TABLES.items()
}
"""What every provider is sent as it stands."""

OBEYED_OF: Mapping[Endpoint, frozenset[str]] = {
    **dict.fromkeys(TABLES, OBEYED),
    Endpoint.RESPONSES: OBEYED - {"stream_options"},
}
"""Streams of Responses tell the usage unasked; their options are between the client and the provider."""

PRIORITY = "priority"
"""vLLM's field for how soon a request has its turn. Whose turn it is, is the gateway's to say: a client's own is never sent."""

BOUNDS = ("max_tokens", "max_completion_tokens")

SAFE_NAME = re.compile(r"[\w.-]{1,64}", re.ASCII)


class OpenAI:
    """The dialect as one provider speaks it; see `gateway.providers.protocol.Dialect`."""

    nature: ClassVar[Nature] = Nature(endpoints=frozenset(PATHS), idle_quirks=("adaptive_thinking",))

    def __init__(self, provider: Provider) -> None:
        own = self._credential(provider.api_key.reveal())
        self._headers = headers_of(provider, accept="application/json", **own)
        self._stream_headers = headers_of(provider, accept="text/event-stream", **own)
        self._provider = provider
        self._lacked = dict.fromkeys(provider.lacks)
        self._passed = {endpoint: fields - provider.lacks for endpoint, fields in PASSED.items()}
        self._account = account_names(provider)

    def call(self, request: InferenceRequest, deployment: Deployment, tier: Tier, *, last: bool) -> Call:
        """Return the call; `last` is False while another candidate remains."""
        if request.endpoint in self._provider.endpoints:
            return self._call(request, deployment, tier, last=last)
        through = MessagesOverChat if request.endpoint is Endpoint.MESSAGES else OverChat
        over_chat = through(request, deployment, self)
        call = over_chat.call(self._call(each, deployment, tier, last=last) for each in over_chat.requests())
        return replace(call, path=self._place(Endpoint.CHAT, deployment)[0])

    def _call(self, request: InferenceRequest, deployment: Deployment, tier: Tier, *, last: bool) -> Call:
        provider = self._provider
        edited: dict[str, bytes | None] = {}
        dropped: list[str] = []
        raws = request.members.raws
        for name in raws.keys() - self._passed[request.endpoint]:
            if name in OBEYED_OF[request.endpoint]:
                edited[name] = None
            elif self._is_withheld(name, request) or (name == PRIORITY and deployment.takes_priority):
                edited[name] = None
                if not self._says_nothing(name, bytes(raws[name])) and SAFE_NAME.fullmatch(name):
                    dropped.append(name)
        edited |= request.changes
        path, edited["model"] = self._place(request.endpoint, deployment)
        if deployment.takes_priority and tier in PRIORITIES:
            edited[PRIORITY] = b"%d" % PRIORITIES[tier]
        if request.endpoint.generates:
            edited |= self._terms(request, tier, last=last)
        elif not provider.quirks.embeddings_base64 and "encoding_format" in raws:
            edited["encoding_format"] = None
        # What the gateway itself makes of a field is refused no less.
        edited |= self._lacked
        return Call(
            path=path,
            headers=self._stream_headers if request.stream else self._headers,
            body=splice(request.members, edited),
            dropped=tuple(sorted(dropped, key=[*raws].index)) if dropped else (),
        )

    def answer(self, body: bytes, edits: Edits) -> Answer | Failed:
        """Read a complete 2xx body."""
        if edits.endpoint is Endpoint.EMBEDDINGS:
            return embeddings.answer(body, edits) or failure_of(body, hidden=(edits.upstream_model, *self._account))
        if edits.endpoint is Endpoint.RESPONSES:
            return responses.answer(body, edits, (edits.upstream_model, *self._account))
        try:
            members, found = split(body), decode_chunk(body)
            if found.is_error or not found.choices:
                return failure_of(body, hidden=(edits.upstream_model, *self._account))
        except (InvalidJson, Unprocessable, msgspec.DecodeError, RecursionError):
            return failure_of(body, hidden=(edits.upstream_model, *self._account))
        tier = found.service_tier if isinstance(found.service_tier, str) else None
        echo = edits.tariff.echo(tier)
        edited = common_edits(edits, echo)
        if not (isinstance(found.id, str) and found.id):
            edited["id"] = encode(edits.id)
        usage, raw = read_usage(found.usage, reasoning_outside=edits.reasoning_outside), members.value("usage")
        if isinstance(found.usage, dict) and raw is not None:
            edited["usage"] = shown_usage(raw, usage, edits, echo)
        produced = 0 if usage is not None else sum(map(output_bytes, found.choices))
        return Answer(body=splice(members, edited), usage=usage, tier=tier, output_bytes=produced)

    def reader(self, edits: Edits) -> StreamReader:
        """Return a fresh reader for one stream."""
        if edits.endpoint is Endpoint.RESPONSES:
            return ResponsesStream(edits, self._provider.most_event_bytes, self._account)
        return OpenAIStream(edits, self._provider.most_event_bytes, self._account)

    def not_a_stream(self, body: bytes, *, upstream_model: str = "") -> Failed:
        """Name what a 2xx means that should have been an event stream: an error in it by its code, anything else no answer."""
        return failure_of(body, hidden=(upstream_model, *self._account))

    def failure(self, status: int, headers: Mapping[bytes, bytes], body: bytes, *, upstream_model: str = "") -> Failed:
        """Name what a status other than 2xx means."""
        return failure(status, headers, body, hidden=(upstream_model, *self._account))

    def _terms(self, request: InferenceRequest, tier: Tier, *, last: bool) -> dict[str, bytes | None]:
        """Return what the gateway asks for in words of its own. Where nothing is generated providers refuse most of them."""
        provider = self._provider
        edited: dict[str, bytes | None] = {}
        if request.endpoint is Endpoint.RESPONSES:
            if not provider.allow_store:
                edited["store"] = b"false"  # where it is absent, OpenAI keeps every answer
        elif request.stream:
            edited["stream_options"] = self._stream_options(request)
        if tier in provider.tiers:
            edited["service_tier"] = encode(provider.tiers[tier])
        if provider.quirks.fail_fast and (request.fail_fast or not last):
            edited["fail_fast"] = b"true"
        return edited | self._bound(request)

    def _credential(self, key: str) -> dict[str, str]:
        """Return the header that carries it, as an argument of `headers_of`."""
        return {"authorization": f"Bearer {key}" if key else ""}

    def _place(self, endpoint: Endpoint, deployment: Deployment) -> tuple[str, bytes | None]:
        """Return the path of a call, and the model as its body names it."""
        return PATHS[endpoint], encode(deployment.upstream_model)

    def _is_withheld(self, name: str, request: InferenceRequest) -> bool:
        provider = self._provider
        if name == "store":
            # Of Responses nothing is lost to a client that wants nothing kept: it is said for all.
            return not provider.allow_store and not (request.endpoint is Endpoint.RESPONSES and not request.fields.get("store"))
        return (
            name in NEVER_SENT
            or name in provider.lacks
            or not (provider.forward_unknown_fields or name in TABLES[request.endpoint].fields)
        )

    def _says_nothing(self, name: str, raw: bytes) -> bool:
        """Return whether nothing is lost that is left out."""
        return raw == b"null" or (name in self._provider.lacks and is_idle(name, raw))

    def _stream_options(self, request: InferenceRequest) -> bytes | None:
        if not self._provider.quirks.stream_options:
            return None
        wanted: dict[str, bytes | None] = {"include_usage": b"true"}
        if self._provider.quirks.continuous_usage:
            wanted["continuous_usage_stats"] = b"true"
        asked = request.members.value("stream_options")
        return splice(split(b"{}" if asked is None or asked == b"null" else asked), wanted)

    def _bound(self, request: InferenceRequest) -> dict[str, bytes | None]:
        """Send the output bound once, under the name that the provider wants, else that the client wrote.

        The endpoint of completions has one name for it, whatever the provider wants in chat.
        """
        if request.max_tokens is None:
            return {}
        if request.endpoint is Endpoint.RESPONSES:
            return {request.endpoint.bound: b"%d" % request.max_tokens}
        written = [name for name in BOUNDS if name in request.fields]
        in_chat = request.endpoint is Endpoint.CHAT or request.endpoint not in self._provider.endpoints
        wanted = self._provider.quirks.max_tokens_field if in_chat else BOUNDS[0]
        name = wanted or (written[0] if written else BOUNDS[0])
        return {**dict.fromkeys(BOUNDS), name: b"%d" % request.max_tokens}
