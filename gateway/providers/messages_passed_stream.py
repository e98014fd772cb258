"""An Anthropic event stream on its way to a client of Anthropic's: events framed, a few members changed, the rest as it came.

Until something is said nothing goes out (decision 18). Pings are dropped as comments are: they say nothing, and a silence is the
gateway's to fill. One `message_stop` ends a whole answer, whatever the provider ends it with. Pure.
"""

import re

import msgspec

from gateway.faults import Failed
from gateway.policy.tiers import Echo
from gateway.providers.anthropic_stream import Begun, Event, decode
from gateway.providers.anthropic_words import Figures
from gateway.providers.editing import encode
from gateway.providers.failures import failure_inside, listed_failure
from gateway.providers.framed import CUT, EMPTY, MALFORMED, NOTHING, NULL, Framed
from gateway.providers.messages_words import message_id, told_usage
from gateway.providers.protocol import Edits, Step
from gateway.wire.members import splice, split
from gateway.wire.sse import MOST_EVENT_BYTES
from gateway.wire.usage import Usage, read_usage

NAME = re.compile(r"[a-z_]{1,64}")
"""What an event may be called: a name is a line of its own."""

WORDLESS = frozenset({"text", "thinking"})
"""Blocks that begin before they say anything."""

decode_any = msgspec.json.Decoder().decode


def named(kind: str, payload: bytes) -> bytes:
    """Return an event of this name."""
    return b"event: %b\ndata: %b\n\n" % (kind.encode(), payload)


STOP = named("message_stop", b'{"type":"message_stop"}')


def speaks(event: Event) -> bool:
    """Return whether an event is content, or the end of an answer without any: the commit point."""
    match event.type:
        case "content_block_start" if (block := event.content_block) is not None:
            return block.type not in WORDLESS or bool(block.text or block.thinking)
        case "content_block_delta" if (said := event.delta) is not None:
            if said.type in ("text_delta", "thinking_delta", "input_json_delta"):
                return bool(said.text or said.thinking or said.partial_json)
            return True
        case "message_delta":
            return event.delta is not None and event.delta.stop_reason is not None
        case _:
            return False


class PassedStream(Framed):
    """One stream's reader; see `gateway.providers.protocol.StreamReader`."""

    def __init__(self, edits: Edits, most_event_bytes: int = MOST_EVENT_BYTES, account: tuple[str, ...] = ()) -> None:
        super().__init__(most_event_bytes)
        self.usage: Usage | None = None
        self.tier: str | None = None
        self.finished = False
        self._edits = edits
        self._hidden = (edits.upstream_model, *account)
        self._figures = Figures()
        self._echo: Echo | None = None
        self._begun = False
        self._committed = False
        self._calls = False
        self._room_bytes = most_event_bytes
        self._out: list[bytes] = []
        """Withheld up to the commit point."""
        self._said_bytes = 0
        self._told_bytes = 0
        """Of the text, when the usage came."""

    @property
    def output_bytes(self) -> int:
        """Return the bytes of text so far, 0 where the usage tells of all of it."""
        return 0 if self.usage is not None and self._said_bytes == self._told_bytes else self._said_bytes

    def end(self) -> Step:
        """Take the end of the body: close the stream properly, or say what is missing."""
        failed = self._events(self._framer.end(), CUT)
        if failed is CUT and self.finished:
            failed = None  # what was cut off stands behind the last word
        if failed is None and not self.done:
            failed = self._close(STOP) if self.finished else CUT if self._begun else EMPTY
        return self._step(failed)

    def _event(self, payload: bytes) -> Failed | None:
        if not payload.lstrip().startswith(b"{"):
            if failed := listed_failure(payload, hidden=self._hidden):
                return failed
            self.strange_events += payload != NULL
            return None
        # A payload of several lines leaves as one: between tokens JSON takes any white space.
        payload = payload.replace(b"\n", b" ")
        event = decode(payload)
        kind = event.type or "error"
        if kind == "error":
            return failure_inside(decode_any(payload), hidden=self._hidden)
        if kind == "ping":
            return None
        if not NAME.fullmatch(kind) or (event.message is not None) is self._begun:
            # No name to give it, a second beginning, or what would come before the first.
            self.strange_events += 1
            return None if self._begun else MALFORMED
        if kind == "message_stop":
            return self._close(named(kind, payload))
        self._out.append(named(kind, self._edited(payload, event)))
        self._committed = self._committed or speaks(event)
        if not self._committed:
            self._room_bytes -= len(payload)
            return None if self._room_bytes >= 0 else MALFORMED
        return None

    def _edited(self, payload: bytes, event: Event) -> bytes:
        """Return an event as it goes out, and take note of what it tells."""
        if event.message is not None:
            return self._start(payload, event.message)
        if event.type == "content_block_start" and event.content_block is not None:
            block = event.content_block
            self._calls = self._calls or block.type == "tool_use"
            self._said_bytes += len(f"{block.text or ''}{block.thinking or ''}".encode())
        elif event.type == "content_block_delta" and event.delta is not None:
            said = event.delta
            self._said_bytes += len(f"{said.text or ''}{said.thinking or ''}{said.partial_json or ''}".encode())
        elif event.type == "message_delta":
            self.finished = self.finished or (event.delta is not None and event.delta.stop_reason is not None)
            self._note(event.usage)
            return self._with_usage(payload, event.usage)
        return payload

    def _start(self, payload: bytes, begun: Begun) -> bytes:
        self._begun = True
        self._note(begun.usage)
        members = split(payload)
        message = members.value("message") or b"{}"
        edited: dict[str, bytes | None] = {"model": encode(self._edits.model)}
        if not (isinstance(begun.id, str) and begun.id):
            edited["id"] = encode(message_id(self._edits))
        return splice(members, {"message": splice(split(self._with_usage(message, begun.usage)), edited)})

    def _note(self, stated: object) -> None:
        """Know the usage, and the tier, as soon as anything is told of it: a stream that breaks is charged by it."""
        self._figures.note(stated)
        self.tier = self._figures.tier
        self._echo = self._edits.tariff.echo(self.tier)
        usage = read_usage(self._figures.usage())
        if usage is not None:
            self.usage, self._told_bytes = usage, self._said_bytes

    def _with_usage(self, document: bytes, stated: object) -> bytes:
        """Return what has a usage object with that as the client gets it; the cost is told at the end."""
        members = split(document)
        raw = members.value("usage")
        if raw is None or not isinstance(stated, dict):
            return document
        return splice(members, {"usage": told_usage(raw, self.usage if self.finished else None, self._edits, self._echo)})

    def _close(self, stop: bytes) -> Failed | None:
        """End the stream as a whole one ends: with a reason, and with one `message_stop`."""
        if not self._committed:
            return EMPTY
        if not self.finished:
            produced = 0 if self.usage is None else self.usage.output
            reason = {"stop_reason": "tool_use" if self._calls else "end_turn", "stop_sequence": None}
            ended = {"type": "message_delta", "delta": reason, "usage": {"output_tokens": produced}}
            self._out.append(named("message_delta", encode(ended)))
        self._out.append(stop)
        self.done = self.finished = True
        return None

    def _step(self, failed: Failed | None) -> Step:
        if not self._committed:
            return NOTHING if failed is None else Step(failed=failed)
        out = b"".join(self._out)
        self._out.clear()
        return Step(out=out, committed=True, failed=failed)
