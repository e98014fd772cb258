"""A conversation of Messages in which others had a part, by way of chat, as a provider that speaks Messages takes it.

It refuses thoughts that it has not signed, ids of calls that are longer or stranger than its own, and thinking with a budget in
the middle of a turn that was begun without a thought. What is its own keeps its bytes. Pure.
"""

import re
from collections.abc import Iterator, Mapping

import msgspec

from gateway.providers.anthropic_messages import sound_id
from gateway.providers.call_ids import returned
from gateway.wire.members import splice, split
from gateway.wire.turns import SYSTEM, Turn, decode_turns

UNSIGNED = re.compile(rb'"signature"[ \t\n\r]*:[ \t\n\r]*""')
UNSOUND = re.compile(rb'id"[ \t\n\r]*:[ \t\n\r]*"(?![a-zA-Z0-9_-]{1,64}")')
"""What may be another's: a signature that is none, and an id that is not sound. One search for both takes four times as long."""

IDS: Mapping[str, str] = {"tool_use": "id", "tool_result": "tool_use_id"}
"""Which member of a block names a call."""

THOUGHTS = frozenset({"thinking", "redacted_thinking"})

decode_list = msgspec.json.Decoder(list[msgspec.Raw]).decode
encode = msgspec.json.Encoder().encode


class Block(msgspec.Struct, gc=False):
    """A block, as far as it may be a thought or name a call."""

    type: str
    signature: object = None
    id: object = None
    tool_use_id: object = None


decode_block = msgspec.json.Decoder(Block).decode


def own(turns: bytes) -> bytes:
    """Return turns without what would be refused of others'."""
    return encode([*_own_turns(turns)]) if _is_foreign(turns) else turns


def goes_on_unthinking(turns: bytes) -> bool:
    """Return whether the answer goes on from the results of tools that were called before anything was thought."""
    said = [turn for turn in decode_turns(turns) if turn.role != SYSTEM]
    begun: Turn | None = None
    while said and "tool_result" in _kinds(said.pop()):
        while said and said[-1].role == "assistant":
            begun = said.pop()
    return begun is not None and THOUGHTS.isdisjoint(_kinds(begun)[:1])


def _kinds(turn: Turn) -> list[str]:
    return [block.type for block in turn.content] if isinstance(turn.content, list) else []


def _is_foreign(turns: bytes) -> bool:
    """Return whether these have to be looked into; most have not."""
    return bool(UNSIGNED.search(turns) or UNSOUND.search(turns))


def _own_turns(turns: bytes) -> Iterator[msgspec.Raw]:
    for turn in decode_list(turns):
        members = split(bytes(turn))
        content = members.value("content") or b""
        if not content.startswith(b"[") or not _is_foreign(content):
            yield turn
        elif kept := [*_own_blocks(content)]:
            yield msgspec.Raw(splice(members, {"content": encode(kept)}))


def _own_blocks(content: bytes) -> Iterator[msgspec.Raw]:
    for raw in decode_list(content):
        block = decode_block(raw)
        if block.type == "thinking" and block.signature == "":
            continue
        name = IDS.get(block.type, "")
        call_id = getattr(block, name, None)
        sound = sound_id(returned(call_id, "").id) if isinstance(call_id, str) else call_id
        yield raw if sound == call_id else msgspec.Raw(splice(split(bytes(raw)), {name: encode(sound)}))
