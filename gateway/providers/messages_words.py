"""Words and figures of chat's answers in Anthropic's: why an answer ended, which tier it had, what it used. Pure."""

from collections.abc import Mapping

from msgspec import Raw

from gateway.policy.catalogue import Tier
from gateway.policy.tiers import Echo
from gateway.providers.editing import encode, shown_usage
from gateway.providers.protocol import Edits
from gateway.wire.members import splice, split
from gateway.wire.usage import Usage

REASONS: Mapping[str, str] = {
    "length": "max_tokens",
    "max_tokens": "max_tokens",
    "model_length": "max_tokens",
    "tool_calls": "tool_use",
    "function_call": "tool_use",
    "content_filter": "refusal",
}
"""The stop reasons that finish reasons are; every other is an ordinary end."""

TIERS: Mapping[str, str] = {Tier.DEFAULT: "standard"}
"""What Anthropic calls the tiers that it has another word for."""

ID = "msg_"
"""What Anthropic's ids of messages begin with."""


def stop_reason(finish_reason: str | None) -> str:
    """Return what an answer's end is called."""
    return REASONS.get(finish_reason or "", "end_turn")


def message_id(edits: Edits) -> str:
    """Return the id of an answer that has none of Anthropic's."""
    return ID + edits.id


def tier_word(edits: Edits, echo: Echo | None) -> str | None:
    """Return the tier that an answer names, None where it names none."""
    if edits.tier is None:
        return None
    tier = edits.tier if echo is None else str(echo.tier)
    return TIERS.get(tier, tier)


def told_usage(raw: bytes, usage: Usage | None, edits: Edits, echo: Echo | None) -> bytes:
    """Return a usage object of Anthropic's as the client gets it: with the tier, and our cost in place of the provider's."""
    word = tier_word(edits, echo)
    return shown_usage(splice(split(raw), {"service_tier": None if word is None else encode(word)}), usage, edits, echo)


def usage_object(usage: Usage | None, edits: Edits, echo: Echo | None) -> Raw:
    """Return the usage of an answer of chat's; where none was stated its figures are 0, since clients count on them."""
    known = usage or Usage()
    figures: dict[str, object] = {
        "input_tokens": known.input - known.cached - known.cache_write,
        "cache_creation_input_tokens": known.cache_write,
        "cache_read_input_tokens": known.cached,
        "output_tokens": known.output,
    }
    if known.reasoning:
        figures["output_tokens_details"] = {"thinking_tokens": known.reasoning}
    return Raw(told_usage(encode(figures), usage, edits, echo))
