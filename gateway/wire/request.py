"""The part of an inference request that the gateway reads, over the body's own bytes.

`parse` refuses what is not one clean JSON document (400) or has the wrong shape (422, every bad field at once) and keeps the
rest untouched: fields that nothing here names travel byte for byte. Token counts are estimates from bytes. Pure.
"""

from enum import StrEnum

import msgspec

from gateway.wire.members import Members


class Endpoint(StrEnum):
    """What a client asks for, and what a provider serves natively."""

    CHAT = "chat"
    COMPLETIONS = "completions"
    EMBEDDINGS = "embeddings"


class InferenceRequest(msgspec.Struct, frozen=True, kw_only=True):
    """A parsed request: the fields that the gateway obeys, and the body's members for the dialect to edit.

    `models` is the client's list as sent (None when absent); `model` is None only when `models` is set. `max_tokens` is the
    smaller of the two names. `service_tier` is the client's word. `prompt_tokens` is the estimate that is held.
    `include_usage` is what the client asked of a stream, None when it did not say.
    """

    endpoint: Endpoint
    members: Members
    model: str | None
    models: tuple[str, ...] | None
    stream: bool
    service_tier: str | None
    fail_fast: bool
    max_tokens: int | None
    n: int
    prompts: int
    prompt_tokens: int
    include_usage: bool | None
