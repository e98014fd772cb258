"""The published contracts that a route prefix pins, where they differ; everything else is equal (decision 32). Pure.

What is set on a key or its plan goes before all of it.
"""

from collections.abc import Mapping

import msgspec

CHAT, COMPLETIONS, EMBEDDINGS, MESSAGES, RESPONSES = "chat", "completions", "embeddings", "messages", "responses"


class Contract(msgspec.Struct, frozen=True, kw_only=True):
    """How one contract reads what is left unsaid, what it bounds, and how it answers.

    `auto` is what the tier of that name means, `absent_tier` what stands in for no tier and `asks_for_usage` what an empty
    `stream_options` means, both by endpoint. Where `absent_max_tokens` is set it is sent for a request without a bound.
    `refuses_longer`: a bound above the model's own is refused, not lowered. `detail`: errors have FastAPI's beside `error`.
    """

    name: str
    auto: str = "overflow"
    absent_tier: Mapping[str, str]
    absent_max_tokens: int | None = None
    refuses_longer: bool = False
    most_choices: int = 128
    most_stops: int = 16
    asks_for_usage: Mapping[str, bool]
    usage_on_finish: bool = False
    """A stream has its usage on the chunk that ends it, unless it is asked for without."""
    detail: bool = False


OPENAI = Contract(
    name="openai",
    absent_tier={CHAT: "auto", COMPLETIONS: "default", EMBEDDINGS: "default", MESSAGES: "auto", RESPONSES: "auto"},
    asks_for_usage={CHAT: False, COMPLETIONS: True},
)
DEEPINFRA = Contract(
    name="deepinfra",
    auto="priority",
    absent_tier={CHAT: "default", COMPLETIONS: "default", EMBEDDINGS: "default", MESSAGES: "default", RESPONSES: "default"},
    most_choices=4,
    asks_for_usage={CHAT: True, COMPLETIONS: True},
    usage_on_finish=True,
    detail=True,
)
NEBIUS = Contract(
    name="nebius",
    absent_tier={CHAT: "auto", COMPLETIONS: "auto", EMBEDDINGS: "auto", MESSAGES: "auto", RESPONSES: "auto"},
    absent_max_tokens=8192,
    refuses_longer=True,
    most_stops=4,
    asks_for_usage={CHAT: False, COMPLETIONS: False},
    detail=True,
)

PREFIXES: Mapping[str, Contract] = {"/v1": OPENAI, "/v1/openai": DEEPINFRA, "/deepinfra/v1": DEEPINFRA, "/nebius/v1": NEBIUS}
"""The prefixes that are always there."""

NAMED: Mapping[str, Contract] = {contract.name: contract for contract in (OPENAI, DEEPINFRA, NEBIUS)}
