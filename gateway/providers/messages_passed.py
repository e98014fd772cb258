"""A Messages request to a provider of the Messages API: the client's own bytes with a few members changed, both ways.

What the gateway obeys itself is taken out, what the provider is set up for is put in. Of the client's headers nothing travels but
the names of betas that it may ask for; what needs another stays behind. Pure.
"""

from collections.abc import Sequence

import msgspec

from gateway.errors import InvalidJson, Unprocessable
from gateway.faults import Failed
from gateway.policy.catalogue import Deployment, Tier
from gateway.providers.anthropic_answer import Block, decode
from gateway.providers.anthropic_words import Figures
from gateway.providers.editing import encode
from gateway.providers.failures import failure_of
from gateway.providers.messages_betas import lacks_beta
from gateway.providers.messages_history import goes_on_unthinking, own
from gateway.providers.messages_request import OBEYED, SAFE_NAME
from gateway.providers.messages_words import message_id, told_usage
from gateway.providers.openai import NEVER_SENT
from gateway.providers.protocol import Answer, Edits
from gateway.wire.members import splice, split
from gateway.wire.request import TABLES, Endpoint, InferenceRequest
from gateway.wire.usage import read_usage

KNOWN = TABLES[Endpoint.MESSAGES].fields.keys()

CLEARING = "context_management"


class Sent(msgspec.Struct, frozen=True):
    """A call's body, and the fields that are not in it."""

    body: bytes
    dropped: tuple[str, ...]


def passed(request: InferenceRequest, deployment: Deployment, tier: Tier, betas: tuple[str, ...]) -> Sent:
    """Return what is sent for a request in these betas."""
    provider, raws = deployment.provider, request.members.raws
    said = request.leaving("messages") or b"[]"
    own_said = own(said)
    refused = {name for name in raws if name in NEVER_SENT or lacks_beta(name, betas)} | {*_refused(request, own_said)}
    withheld = [name for name in raws if name in refused or not (name in KNOWN or provider.forward_unknown_fields)]
    word = provider.tiers.get(tier)
    edited: dict[str, bytes | None] = {
        **dict.fromkeys((*OBEYED, *withheld)),
        **request.changes,
        "model": encode(deployment.upstream_model),
        "max_tokens": encode(request.max_tokens),
        "service_tier": None if word is None else encode(word),
    }
    if own_said is not said:
        edited["messages"] = own_said
    dropped = tuple(name for name in withheld if bytes(raws[name]) != b"null" and SAFE_NAME.fullmatch(name))
    return Sent(splice(request.members, edited), dropped)


def _refused(request: InferenceRequest, turns: bytes) -> tuple[str, ...]:
    """Return the fields that would be refused of a conversation in which others had a part."""
    thinking = request.fields.get("thinking")
    if not isinstance(thinking, dict) or thinking.get("type") != "enabled" or not goes_on_unthinking(turns):
        return ()
    # What clears away old thoughts is refused where there are to be no new ones.
    clears = b'"clear_thinking' in (request.members.value(CLEARING) or b"")
    return ("thinking", CLEARING) if clears else ("thinking",)


def answer(body: bytes, edits: Edits, hidden: Sequence[str]) -> Answer | Failed:
    """Read a complete 2xx body."""
    try:
        members, message = split(body), decode(body)
        figures = Figures()
        figures.note(message.usage)
        usage, echo, raw = read_usage(figures.usage()), edits.tariff.echo(figures.tier), members.value("usage")
        edited = {"model": encode(edits.model)}
        if not (isinstance(message.id, str) and message.id):
            edited["id"] = encode(message_id(edits))
        if isinstance(message.usage, dict) and raw is not None:
            edited["usage"] = told_usage(raw, usage, edits, echo)
    except (InvalidJson, Unprocessable, msgspec.DecodeError, RecursionError):
        return failure_of(body, hidden=hidden)
    produced = 0 if usage is not None else sum(map(block_bytes, message.content))
    return Answer(body=splice(members, edited), usage=usage, tier=figures.tier, output_bytes=produced)


def block_bytes(block: Block) -> int:
    """Return how many bytes of text a block holds: what an estimate of the output goes by."""
    said = len((block.text or "").encode()) + len((block.thinking or "").encode())
    return said + (len(bytes(block.input)) if block.type == "tool_use" else 0)
