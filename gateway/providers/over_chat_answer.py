"""What surrounds the choices of an answer that was made of chat: one head for all of it, and the usage of all its parts.

Here the gateway writes an answer itself, where of others it edits a few members (decision 33). Pure.
"""

from collections.abc import Mapping, Sequence
from hashlib import blake2b

import msgspec

from gateway.policy.catalogue import Deployment
from gateway.policy.tiers import Echo
from gateway.providers.editing import common_edits, shown_usage
from gateway.providers.over_chat_text import Asked, ChatChunk
from gateway.providers.protocol import Edits
from gateway.wire.usage import Usage, read_usage

encode = msgspec.json.Encoder().encode


class Split(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """What one request is split into: a part for each prompt, in their order, each with so many choices."""

    parts: tuple[Asked, ...]
    choices: int
    fingerprint: str
    """Of the deployment, where the provider gives none."""


def fingerprint(deployment: Deployment) -> str:
    """Return what stays the same while a deployment does, and tells nothing of it."""
    provider = deployment.provider
    known = "\0".join((provider.name, provider.base_url, deployment.upstream_model))
    return f"fp_{blake2b(known.encode(), digest_size=5).hexdigest()}"


def head(edits: Edits, split: Split, first: ChatChunk, echo: Echo | None) -> dict[str, object]:
    """Return the members that an answer and each chunk of one begin with, of the first that the provider said."""
    given = first.system_fingerprint
    common = common_edits(edits, echo)
    return {
        "id": f"cmpl-{edits.id}",
        "object": "text_completion",
        "created": first.created if type(first.created) is int else 0,
        "system_fingerprint": given if isinstance(given, str) and given else split.fingerprint,
        **{name: msgspec.Raw(value) for name, value in common.items() if value is not None},
    }


class Bill:
    """The usage of an answer's parts. Each states its own; the whole answer's is known once every part has."""

    def __init__(self, edits: Edits) -> None:
        self._edits = edits
        self._stated: dict[int, Mapping[str, object]] = {}

    def note(self, place: int, stated: object) -> None:
        """Take what a part states, which may be more than before."""
        if isinstance(stated, dict):
            self._stated[place] = stated

    def usage(self, parts: int) -> Usage | None:
        """Return the usage of so many parts, None unless each has stated one."""
        known = [found for place in range(parts) if (found := read_usage(self._stated.get(place))) is not None]
        return total(known) if known and len(known) == parts else None

    def shown(self, parts: int, echo: Echo | None) -> msgspec.Raw | None:
        """Return the same as the client gets it."""
        if any(place not in self._stated for place in range(parts)):
            return None
        raw = encode(summed([self._stated[place] for place in range(parts)]))
        return msgspec.Raw(shown_usage(raw, self.usage(parts), self._edits, echo))


def total(usages: Sequence[Usage]) -> Usage:
    """Return the sum of usages."""
    return Usage(**{name: sum(getattr(each, name) for each in usages) for name in Usage.__struct_fields__})


def summed(stated: Sequence[Mapping[str, object]]) -> dict[str, object]:
    """Return the sum of usage objects, member by member and as deep as they go; what is no figure is the first's."""
    found: dict[str, object] = {}
    for name in dict.fromkeys(name for each in stated for name in each):
        values = [each[name] for each in stated if each.get(name) is not None]
        figures = [value for value in values if type(value) is int or type(value) is float]
        members = [value for value in values if isinstance(value, dict)]
        if figures:
            found[name] = sum(figures)
        else:
            found[name] = summed(members) if members else next(iter(values), None)
    return found
