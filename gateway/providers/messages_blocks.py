"""The blocks of an answer that chat streams, told as Anthropic's clients read them: one after the other, never two at once.

Chat may go on with any tool call at any time. A call is over once its arguments are a whole object; until then whatever comes
beside it waits, at the longest until the answer ends. Pure.
"""

from collections.abc import Iterator

import msgspec

from gateway.providers.call_ids import handed
from gateway.providers.chunks import ToolCall

decode = msgspec.json.Decoder().decode
encode = msgspec.json.Encoder().encode


def event(kind: str, **members: object) -> bytes:
    """Return one event."""
    return b"event: %b\ndata: %b\n\n" % (kind.encode(), encode({"type": kind, **members}))


class Block(msgspec.Struct):
    """One block: how it begins, what of it is still to be told, and the arguments of a call so far."""

    opening: dict[str, object]
    deltas: list[dict[str, object]] = []
    arguments: str = ""
    is_open: bool = False
    call_id: str = ""
    """The provider's own."""

    @property
    def is_named(self) -> bool:
        """Return whether its beginning is known."""
        return self.opening["type"] != "tool_use" or bool(self.opening["name"])

    @property
    def is_whole(self) -> bool:
        """Return whether it is over once something comes beside it."""
        if self.opening["type"] != "tool_use":
            return True
        try:
            return self.arguments.rstrip().endswith("}") and isinstance(decode(self.arguments), dict)
        except msgspec.DecodeError:
            return False


class Blocks:
    """The blocks of one answer."""

    def __init__(self, answer_id: str, owner: str) -> None:
        self.called = False
        """A tool was called."""
        self._answer_id = answer_id
        self._owner = owner
        self._queue: list[Block] = []
        """The first is being told."""
        self._index = 0
        self._calls: dict[int, Block] = {}

    def say(self, text: str) -> None:
        """Add text."""
        self._last("text", {"text": ""}).deltas.append({"type": "text_delta", "text": text})

    def think(self, thought: str) -> None:
        """Add what the model thinks; nobody has signed it."""
        block = self._last("thinking", {"thinking": "", "signature": ""})
        block.deltas.append({"type": "thinking_delta", "thinking": thought})

    def call(self, fragment: ToolCall) -> None:
        """Add a fragment of a tool call."""
        place, function = fragment.index or 0, fragment.function
        block = self._calls.get(place)
        if block is None:
            call_id = fragment.id or f"toolu_{self._answer_id}_{place}"
            opening: dict[str, object] = {"type": "tool_use", "id": handed(call_id, None, self._owner), "name": "", "input": {}}
            block = self._calls[place] = Block(opening, call_id=call_id)
            self._queue.append(block)
            self.called = True
        if fragment.extra_content and not block.is_open:
            block.opening["id"] = handed(block.call_id, fragment.extra_content, self._owner)
        if function is None:
            return
        if function.name and not block.is_open:
            block.opening["name"] = function.name
        given = function.arguments
        piece = given if isinstance(given, str) else "" if given is None else encode(given).decode()
        if piece:
            block.arguments += piece
            block.deltas.append({"type": "input_json_delta", "partial_json": piece})

    def told(self) -> Iterator[bytes]:
        """Yield the events of what can be told by now."""
        while self._queue and self._queue[0].is_named:
            block = self._queue[0]
            yield from self._news(block)
            if len(self._queue) == 1 or not block.is_whole:
                return
            yield self._end()

    def rest(self) -> Iterator[bytes]:
        """Yield the events of all that is left: the answer has ended."""
        while self._queue:
            yield from self._news(self._queue[0])
            yield self._end()

    def _last(self, kind: str, members: dict[str, object]) -> Block:
        if not self._queue or self._queue[-1].opening["type"] != kind:
            self._queue.append(Block({"type": kind, **members}))
        return self._queue[-1]

    def _news(self, block: Block) -> Iterator[bytes]:
        if not block.is_open:
            block.is_open = True
            yield event("content_block_start", index=self._index, content_block=block.opening)
        for delta in block.deltas:
            yield event("content_block_delta", index=self._index, delta=delta)
        block.deltas.clear()

    def _end(self) -> bytes:
        self._queue.pop(0)
        self._index += 1
        return event("content_block_stop", index=self._index - 1)
