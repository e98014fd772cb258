"""Tool calls in a stream whose indexes are missing or wrong: put right where ids leave no doubt, else left alone (decision 26).

Clients join fragments by index, so two calls under one index become one broken call. Two calls are never merged here. Pure.
"""

import msgspec

from gateway.providers.chunks import Choice, ToolCall

Moves = dict[tuple[int, int], int]
"""New indexes, by the places of the choice and of the call in a chunk."""

decode = msgspec.json.Decoder(list[dict[str, object]]).decode
encode = msgspec.json.Encoder().encode


class Calls:
    """The tool calls of one choice so far."""

    def __init__(self) -> None:
        self._by_id: dict[str, int] = {}
        self._latest: dict[int, int] = {}
        """Where fragments go that name only an index of the upstream's: to the call that was opened there last."""

    def place(self, call: ToolCall) -> int | None:
        """Return the index that a fragment belongs to, None when nothing tells."""
        if call.id is not None and call.id in self._by_id:
            return self._by_id[call.id]
        if call.id and self._opens(call):
            return self._open(call.id, call.index)
        if call.index is not None:
            return self._latest.get(call.index, call.index)
        return next(iter(self._by_id.values())) if len(self._by_id) == 1 else None

    def _opens(self, call: ToolCall) -> bool:
        # Some providers make up a new id for every fragment: only a name tells that a call begins at an index that is taken.
        return call.index is None or call.index not in self._latest or bool(call.function and call.function.name)

    def _open(self, call_id: str, index: int | None) -> int:
        taken = self._by_id.values()
        place = index if index is not None and index not in taken else max(taken, default=-1) + 1
        self._by_id[call_id] = place
        if index is not None:
            self._latest[index] = place
        return place


class CallIndexes:
    """The tool calls of one stream."""

    def __init__(self) -> None:
        self._calls: dict[int, Calls] = {}
        self.moved = False
        """An index had to be changed; from then on every fragment has to be looked at."""

    def moves(self, choices: list[Choice]) -> Moves:
        """Return the indexes that have to change in this chunk."""
        found: Moves = {}
        for choice_place, choice in enumerate(choices):
            for call_place, call in enumerate((choice.delta and choice.delta.tool_calls) or ()):
                calls = self._calls.setdefault(choice.index or 0, Calls())
                index = calls.place(call)
                if index is not None and index != call.index:
                    found[choice_place, call_place] = index
        self.moved = self.moved or bool(found)
        return found

    def needs_look(self, fragments: list[ToolCall]) -> bool:
        """Return whether there may be a call that begins, or a fragment that needs another index."""
        return self.moved or any(call.id is not None or call.index is None for call in fragments)


def moved(raw: bytes, moves: Moves) -> bytes:
    """Return the JSON text of `choices` with indexes changed."""
    choices = decode(raw)
    for (choice_place, call_place), index in moves.items():
        delta = choices[choice_place]["delta"]
        calls = delta["tool_calls"] if isinstance(delta, dict) else []
        calls[call_place]["index"] = index
    return encode(choices)
