"""A Messages request to a provider of the Messages API: the client's own bytes with a few members changed, both ways.

What the gateway obeys itself is taken out, what the provider is set up for is put in. None of the client's headers travels, those
that switch betas on included. Pure.
"""

import re
from collections.abc import Sequence

import msgspec

from gateway.errors import InvalidJson, Unprocessable
from gateway.faults import Failed
from gateway.policy.catalogue import Deployment, Tier
from gateway.providers.anthropic_answer import Block, decode
from gateway.providers.anthropic_words import Figures
from gateway.providers.editing import encode
from gateway.providers.failures import failure_of
from gateway.providers.messages_request import OBEYED, SAFE_NAME
from gateway.providers.messages_words import message_id, told_usage
from gateway.providers.openai import NEVER_SENT
from gateway.providers.protocol import Answer, Edits
from gateway.wire.members import splice, split
from gateway.wire.request import TABLES, Endpoint, InferenceRequest
from gateway.wire.usage import read_usage

KNOWN = TABLES[Endpoint.MESSAGES].fields.keys()


UNSIGNED = re.compile(rb'"signature"[ \t\n\r]*:[ \t\n\r]*""')

decode_list = msgspec.json.Decoder(list[msgspec.Raw]).decode


class Thought(msgspec.Struct, gc=False):
    """A block, as far as it may be a thought."""

    type: str
    signature: object = None


decode_thought = msgspec.json.Decoder(Thought).decode


class Sent(msgspec.Struct, frozen=True):
    """A call's body, and the fields that are not in it."""

    body: bytes
    dropped: tuple[str, ...]


def passed(request: InferenceRequest, deployment: Deployment, tier: Tier) -> Sent:
    """Return what is sent for a request."""
    provider, raws = deployment.provider, request.members.raws
    withheld = [name for name in raws if name in NEVER_SENT or not (name in KNOWN or provider.forward_unknown_fields)]
    word = provider.tiers.get(tier)
    edited: dict[str, bytes | None] = {
        **dict.fromkeys((*OBEYED, *withheld)),
        **request.changes,
        "model": encode(deployment.upstream_model),
        "max_tokens": encode(request.max_tokens),
        "service_tier": None if word is None else encode(word),
    }
    said = request.leaving("messages")
    if said is not None and UNSIGNED.search(said):
        edited["messages"] = signed(said)
    dropped = tuple(name for name in withheld if bytes(raws[name]) != b"null" and SAFE_NAME.fullmatch(name))
    return Sent(splice(request.members, edited), dropped)


def signed(turns: bytes) -> bytes:
    """Return turns without thoughts that nobody has signed: another provider's, by way of chat, which would be refused."""
    found: list[msgspec.Raw] = []
    for turn in decode_list(turns):
        members = split(bytes(turn))
        content = members.value("content") or b""
        if content.startswith(b"[") and UNSIGNED.search(content):
            kept = [block for block in decode_list(content) if decode_thought(block) != Thought("thinking", "")]
            if kept:
                found.append(msgspec.Raw(splice(members, {"content": encode(kept)})))
        else:
            found.append(turn)
    return encode(found)


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
