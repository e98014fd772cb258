"""The Anthropic dialect: chat served by the Messages API of 2023-06-01. https://docs.anthropic.com/en/api/messages

Chat requests are translated (`anthropic_request`), answers and streams are turned into OpenAI's and then treated as such: edited,
judged and committed by the same rules. Messages requests pass as they are (`messages_passed`). Times are Unix seconds. Pure.
"""

from collections.abc import Mapping
from hashlib import blake2b
from typing import ClassVar

import msgspec

from gateway.errors import InvalidJson
from gateway.faults import Failed
from gateway.policy.catalogue import Deployment, Provider, Tier
from gateway.policy.natures import Nature
from gateway.providers.anthropic_answer import Head, completion
from gateway.providers.anthropic_request import NATURE, translate
from gateway.providers.anthropic_stream import AnthropicStream
from gateway.providers.headers import headers_of
from gateway.providers.messages_betas import Betas
from gateway.providers.messages_passed import answer, passed
from gateway.providers.messages_passed_stream import PassedStream
from gateway.providers.openai import OpenAI
from gateway.providers.over_chat import OverChat
from gateway.providers.protocol import Answer, Call, Edits, StreamReader
from gateway.providers.redaction import account_names
from gateway.wire.request import Endpoint, InferenceRequest

PATH = "/messages"
"""Below the provider's base URL, which ends in the version."""

VERSION = "2023-06-01"


class Anthropic:
    """The dialect as one provider speaks it; see `gateway.providers.protocol.Dialect`."""

    nature: ClassVar[Nature] = NATURE

    def __init__(self, provider: Provider) -> None:
        own = {"x_api_key": provider.api_key.reveal(), "anthropic_version": VERSION}
        self._headers = headers_of(provider, accept="application/json", **own)
        self._stream_headers = headers_of(provider, accept="text/event-stream", **own)
        self._betas = Betas(provider)
        self._provider = provider
        self._account = account_names(provider)
        self._openai = OpenAI(provider)

    def call(self, request: InferenceRequest, deployment: Deployment, tier: Tier, *, last: bool) -> Call:  # noqa: ARG002
        """Return the call. Raises `InvalidJson` for what only looked like JSON as long as nobody looked into it."""
        # There is no queue to stay out of, so that `last` changes nothing.
        if request.endpoint is Endpoint.MESSAGES:
            betas = self._betas.leaving(request.betas)
            sent = passed(request, deployment, tier, betas)
            headers = self._betas.headers(self._stream_headers if request.stream else self._headers, betas)
            return Call(path=PATH, headers=headers, body=sent.body, dropped=sent.dropped)
        if request.endpoint is Endpoint.CHAT:
            return self._call(request, deployment, tier)
        over_chat = OverChat(request, deployment, self)
        return over_chat.call(self._call(each, deployment, tier) for each in over_chat.requests())

    def _call(self, request: InferenceRequest, deployment: Deployment, tier: Tier) -> Call:
        try:
            found = translate(request, deployment, tier)
        except (msgspec.DecodeError, RecursionError):
            raise InvalidJson("The body holds a number beyond all bounds, or is nested too deeply") from None
        headers = self._stream_headers if request.stream else self._headers
        return Call(path=PATH, headers=headers, body=found.body, dropped=found.dropped, lowered=found.lowered)

    def answer(self, body: bytes, edits: Edits) -> Answer | Failed:
        """Read a complete 2xx body."""
        if edits.endpoint is Endpoint.MESSAGES:
            return answer(body, edits, (edits.upstream_model, *self._account))
        return self._openai.answer(completion(body, self._head(edits)), edits)

    def reader(self, edits: Edits) -> StreamReader:
        """Return a fresh reader for one stream."""
        if edits.endpoint is Endpoint.MESSAGES:
            return PassedStream(edits, self._provider.most_event_bytes, self._account)
        return AnthropicStream(edits, self._provider.most_event_bytes, self._account, self._head(edits))

    def not_a_stream(self, body: bytes, *, upstream_model: str = "") -> Failed:
        """Name what a 2xx means that should have been an event stream."""
        return self._openai.not_a_stream(body, upstream_model=upstream_model)

    def failure(self, status: int, headers: Mapping[bytes, bytes], body: bytes, *, upstream_model: str = "") -> Failed:
        """Name what a status other than 2xx means."""
        return self._openai.failure(status, headers, body, upstream_model=upstream_model)

    def _head(self, edits: Edits) -> Head:
        made_by = blake2b(f"{self._provider.name}\0{edits.upstream_model}".encode(), digest_size=5)
        return Head(edits.id, edits.created_s, f"fp_{made_by.hexdigest()}")
