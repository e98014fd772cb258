"""The gateway's edits to an OpenAI answer, and nothing else (decision 33): model, tier, id, usage.

Other bytes stay the upstream's. Which tier is echoed and what an answer costs is decided in `gateway.policy`. Pure.
"""

from collections.abc import Iterable, Mapping

import msgspec

from gateway.errors import InvalidJson
from gateway.policy.pricing import NANO_USD
from gateway.policy.tiers import Echo
from gateway.providers.chunks import Chunk
from gateway.providers.protocol import Edits
from gateway.providers.toolcalls import Moves, moved
from gateway.wire.members import Members, splice, split
from gateway.wire.request import Endpoint
from gateway.wire.usage import Usage, read_usage

COST_MEMBERS: Mapping[str, bytes | None] = dict.fromkeys(
    ("cost", "cost_details", "estimated_cost", "total_cost", "cost_in_usd_ticks", "upstream_inference_cost")
)
"""What providers say that an answer costs the gateway: none of the client's business."""

ENVELOPE = ("object", "created")
"""What every chunk has beside that which is edited anyway."""

BEGIN, END = b"data: ", b"\n\n"
NO_HEAD = b"\n"
"""No payload begins like this."""

encode = msgspec.json.Encoder().encode
decode = msgspec.json.Decoder().decode


def common_edits(edits: Edits, echo: Echo | None) -> dict[str, bytes | None]:
    """Return the members that an answer and every chunk of one get."""
    tier = edits.tier if echo is None else str(echo.tier)
    return {"model": encode(edits.model), "service_tier": None if edits.tier is None else encode(tier)}


def shown_usage(raw: bytes, usage: Usage | None, edits: Edits, echo: Echo | None) -> bytes:
    """Return a usage object as the client gets it: without the upstream's costs, with ours where there is a price.

    `usage` is what it states, None where that is none.
    """
    nano_usd = None if usage is None else edits.tariff.cost_nano_usd(usage, echo)
    cost = b"" if nano_usd is None else encode(nano_usd / NANO_USD)
    if b"cost" not in raw and b"\\" not in raw and not edits.reasoning_outside:
        # Nothing to take out, so that there is no need to look where things stand: most answers of most providers.
        return raw[:-1] + b',"estimated_cost":' + cost + b"}" if cost else raw
    edited = {**COST_MEMBERS, "estimated_cost": cost or None}
    if usage is not None and edits.reasoning_outside:
        edited |= {"completion_tokens": b"%d" % usage.output, "total_tokens": b"%d" % usage.total}
    try:
        return splice(split(raw), edited)
    except InvalidJson:
        # A name that comes twice would leave a second cost behind: the last one counts, as the usage was read.
        return splice(split(encode(decode(raw))), edited)


class ChunkEditor:
    """Edits the chunks of one committed stream; its id is settled, its tier until the upstream says otherwise.

    `head` is what the last ordinary chunk began with, up to the value of `choices`, and `edited_head` is what goes out for it:
    a chunk that begins the same needs no more than the swap.
    """

    __slots__ = ("_common", "_echo", "_edits", "_id", "edited_head", "head")

    def __init__(self, edits: Edits, echo: Echo | None, answer_id: str) -> None:
        self.head = NO_HEAD
        self.edited_head = b""
        self._edits = edits
        self._echo = echo
        self._id = answer_id
        self._common = common_edits(edits, echo)

    def turn(self, echo: Echo | None) -> None:
        """Name another tier from here on."""
        if echo != self._echo:
            self.head = NO_HEAD
            self._echo = echo
            self._common = common_edits(self._edits, echo)

    def event(self, members: Members, chunk: Chunk, moves: Moves, usage: bytes | None = None) -> bytes:
        """Return a chunk's event; `moves` are the tool-call indexes to put right, `usage` is what it tells besides."""
        edited = {**self._common}
        if chunk.id != self._id:
            edited["id"] = encode(self._id)
        if usage is not None:
            edited["usage"] = usage
        elif chunk.usage is None and not moves and self._learn(members, edited):
            # One copy, where a sum would make three: the event may be large.
            return b"".join((self.edited_head, memoryview(members.body)[len(self.head) :], END))
        elif chunk.usage is not None:
            edited["usage"] = self._running(members, chunk) if self._edits.running_usage else None
        if moves:
            edited["choices"] = moved(members.value("choices") or b"[]", moves)
        return BEGIN + splice(members, edited) + END

    def usage_event(self, members: Members, usage: Usage, last: bytes) -> bytes:
        """Return the one event that tells the usage, made of the chunk that told it last.

        Some providers tell it outside any chunk: then the envelope is that of the last ordinary one.
        """
        edited = {**self._common, "id": encode(self._id), "choices": b"[]", "usage": self.usage(members, usage)}
        missing = [name for name in ENVELOPE if name not in members.raws]
        if missing:
            lent = split(last).values()
            edited |= {name: lent[name] for name in missing if name in lent}
        return BEGIN + splice(members, edited) + END

    def finish_event(self, payload: bytes, ends: Iterable[tuple[int, str]], usage: bytes | None) -> bytes:
        """Return the event that ends choices (index and reason) whose end the upstream forgot, made of the last chunk."""
        if self._edits.endpoint is Endpoint.CHAT:
            choices = encode([{"index": index, "delta": {}, "finish_reason": reason} for index, reason in ends])
        else:
            choices = encode([{"text": "", "index": index, "logprobs": None, "finish_reason": reason} for index, reason in ends])
        edited = {**self._common, "id": encode(self._id), "choices": choices, "usage": usage}
        return BEGIN + splice(split(payload), edited) + END

    def usage(self, members: Members, usage: Usage | None) -> bytes | None:
        """Return a chunk's usage as the client gets it, None where it has none."""
        raw = members.value("usage")
        return None if raw is None or usage is None else shown_usage(raw, usage, self._edits, self._echo)

    def _running(self, members: Members, chunk: Chunk) -> bytes | None:
        return self.usage(members, read_usage(chunk.usage, reasoning_outside=self._edits.reasoning_outside))

    def _learn(self, members: Members, edited: Mapping[str, bytes | None]) -> bool:
        """Remember how this chunk begins and return True, if all that is edited stands before `choices`."""
        names = [*members.raws]
        place = names.index("choices") if "choices" in names else 0
        if not {"id", "model"}.issubset(names[:place]) or "usage" in names[:place] or "service_tier" in names[place:]:
            return False
        body, (end, start) = members.body, members.span("choices")
        beginning = splice(split(body[:end] + b"}"), edited)
        self.head = body[:start]
        self.edited_head = BEGIN + beginning[:-1] + body[end:start]
        return True
