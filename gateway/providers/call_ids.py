"""Ids of tool calls in the hands of Anthropic's clients, and what comes back to a provider by them.

Messages has letters, digits, `_` and `-` in an id, 64 at the most; providers of chat go further, and some want back with a call
what they gave with it (Gemini its `extra_content`, a signature without which it refuses the next turn). A client returns an id as
it came, so both stand in it, behind a mark, with whom it is for: nobody else gets them. Pure.
"""

import re
from base64 import urlsafe_b64decode, urlsafe_b64encode
from hashlib import blake2b

import msgspec

from gateway.policy.catalogue import Provider
from gateway.providers.anthropic_messages import sound_id
from gateway.wire.turns import CARRIES

MOST_CARRIED_BYTES = 64 * 1024
"""What an id may carry at the most; signatures have some hundred to some thousand."""

CARRIER = re.compile(rf"([A-Za-z0-9_-]{{1,64}}?){CARRIES}([0-9a-f]{{8}})_([A-Za-z0-9_-]+)")

encode = msgspec.json.Encoder().encode


class Carried(msgspec.Struct, frozen=True, omit_defaults=True, gc=False):
    """What a provider called a call, where Messages has no such id, and what it wants back with it."""

    id: str | None = None
    extra_content: dict[str, object] | None = None


NOTHING = Carried()

decode = msgspec.json.Decoder(Carried).decode


def owner_of(provider: Provider) -> str:
    """Return whom an id is for: everybody at one address is the same provider, by whatever account."""
    return blake2b(provider.base_url.encode(), digest_size=4).hexdigest()


def handed(call_id: str, extra: object, owner: str) -> str:
    """Return the id by which a client gets a provider's call."""
    sound = str(sound_id(call_id))
    carried = Carried(call_id if sound != call_id else None, extra if isinstance(extra, dict) and extra else None)
    told = b"" if carried == NOTHING else encode(carried)
    if not 0 < len(told) <= MOST_CARRIED_BYTES:
        return sound
    return f"{sound}{CARRIES}{owner}_{urlsafe_b64encode(told).decode().rstrip('=')}"


def returned(call_id: object, owner: str) -> Carried:
    """Return a client's id as this provider knows it, with what is its own."""
    found = CARRIER.fullmatch(call_id) if isinstance(call_id, str) else None
    if found is None:
        return Carried(call_id if isinstance(call_id, str) else None)
    carried = _read(found[3]) if found[2] == owner else NOTHING
    return Carried(carried.id or found[1], carried.extra_content)


def _read(text: str) -> Carried:
    """Return what an id carries: nothing where it only looks as if it did."""
    try:
        return decode(urlsafe_b64decode(text + "=" * (-len(text) % 4)))
    except (ValueError, msgspec.DecodeError, RecursionError):
        return NOTHING
