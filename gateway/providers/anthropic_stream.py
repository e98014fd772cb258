"""An Anthropic event stream as one of OpenAI's: each event becomes the chunks that say the same, and is relayed as those are.

Pings, events that are not known and blocks without a counterpart say nothing. The end is told at `message_stop`: a stream that
stops before it is broken. Pure.
"""

from collections.abc import Iterator

import msgspec

from gateway.faults import Failed
from gateway.providers.anthropic_answer import Block, Head
from gateway.providers.anthropic_words import Figures, arguments, finish_reason
from gateway.providers.openai_stream import END_MARK, OpenAIStream
from gateway.providers.protocol import Edits
from gateway.wire.usage import read_usage


class Said(msgspec.Struct, gc=False):
    """What a delta adds to a block, or tells of the whole message."""

    type: str | None = None
    text: str | None = None
    thinking: str | None = None
    partial_json: str | None = None
    stop_reason: str | None = None


class Begun(msgspec.Struct, gc=False):
    """A message at its beginning."""

    id: object = None
    usage: object = None


class Event(msgspec.Struct, gc=False):
    """One event, as far as any has a counterpart."""

    type: str | None = None
    index: int = 0
    message: Begun | None = None
    content_block: Block | None = None
    delta: Said | None = None
    usage: object = None


class Call(msgspec.Struct):
    """A tool call that is being told: its place among the calls, and what is yet to be told where no piece of it comes."""

    place: int
    input: msgspec.Raw | None


decode = msgspec.json.Decoder(Event).decode
encode = msgspec.json.Encoder().encode


class Chunks:
    """The chunks of one stream, one event at a time."""

    def __init__(self, head: Head) -> None:
        self.figures = Figures()
        self._head = head
        self._beginning = self._begin_with(None)
        """Of every chunk, up to its choices."""
        self._calls: dict[int, Call] = {}
        """By the index of their block."""
        self._stop_reason: str | None = None

    def of(self, payload: bytes) -> Iterator[bytes]:
        """Yield the payloads that say what an event says. Raises `msgspec.DecodeError`."""
        event = decode(payload)
        match event.type:
            case "message_start":
                yield from self._start(event.message or Begun())
            case "content_block_start" if event.content_block is not None:
                yield from self._begin(event.index, event.content_block)
            case "content_block_delta" if event.delta is not None:
                yield from self._add(event.index, event.delta)
            case "content_block_stop":
                yield from self._end(event.index)
            case "message_delta":
                self.figures.note(event.usage)
                self._stop_reason = (event.delta and event.delta.stop_reason) or self._stop_reason
            case "message_stop":
                yield from self._stop()
            case "error" | None:
                yield payload
            case _:
                pass  # of another day: to be passed over, as its documentation asks

    def _start(self, message: Begun) -> Iterator[bytes]:
        self._beginning = self._begin_with(message.id)
        self.figures.note(message.usage)
        tier = {} if self.figures.tier is None else {"service_tier": self.figures.tier}
        yield self._chunk({"role": "assistant", "content": ""}, **tier)

    def _begin(self, index: int, block: Block) -> Iterator[bytes]:
        if block.type == "tool_use":
            call = self._calls[index] = Call(len(self._calls), block.input)
            function = {"name": block.name, "arguments": ""}
            yield self._called(call, id=block.id, type="function", function=function)
        elif block.type in ("text", "thinking"):
            yield from self._add(index, Said(text=block.text, thinking=block.thinking))

    def _add(self, index: int, said: Said) -> Iterator[bytes]:
        if said.text:
            yield self._chunk({"content": said.text})
        if said.thinking:
            yield self._chunk({"reasoning_content": said.thinking})
        call = self._calls.get(index)
        if said.partial_json and call is not None:
            call.input = None
            yield self._called(call, function={"arguments": said.partial_json})

    def _end(self, index: int) -> Iterator[bytes]:
        """Tell the arguments of a call that came without any piece of them."""
        call = self._calls.get(index)
        if call is not None and call.input is not None:
            yield self._called(call, function={"arguments": arguments(call.input)})
            call.input = None

    def _stop(self) -> Iterator[bytes]:
        for index in self._calls:
            yield from self._end(index)
        if self._stop_reason is not None:
            yield self._chunk({}, finish=finish_reason(self._stop_reason))
        usage = self.figures.usage()
        if usage is not None:
            yield self._payload([], usage=usage)
        yield END_MARK

    def _called(self, call: Call, **members: object) -> bytes:
        return self._chunk({"tool_calls": [{"index": call.place, **members}]})

    def _chunk(self, delta: dict[str, object], *, finish: str | None = None, **members: object) -> bytes:
        return self._payload([{"index": 0, "delta": delta, "logprobs": None, "finish_reason": finish}], **members)

    def _payload(self, choices: list[dict[str, object]], **members: object) -> bytes:
        return self._beginning + encode(choices) + (b"," + encode(members)[1:] if members else b"}")

    def _begin_with(self, message_id: object) -> bytes:
        beginning = {
            "id": self._head.id_of(message_id),
            "object": "chat.completion.chunk",
            "created": self._head.created,
            "model": "",
            "system_fingerprint": self._head.fingerprint,
        }
        return encode(beginning)[:-1] + b',"choices":'


class AnthropicStream(OpenAIStream):
    """One stream's reader; see `gateway.providers.protocol.StreamReader`."""

    def __init__(self, edits: Edits, most_event_bytes: int, account: tuple[str, ...], head: Head) -> None:
        super().__init__(edits, most_event_bytes, account)
        self._chunks = Chunks(head)

    def _event(self, payload: bytes) -> Failed | None:
        # What is no JSON object is no event: it is judged as it stands.
        chunks = self._chunks.of(payload) if payload.lstrip().startswith(b"{") else (payload,)
        for chunk in chunks:
            failed = super()._event(chunk)
            if failed is not None:
                return failed
        if self._chunks.figures.has_news:
            self._take_figures()
        return None

    def _take_figures(self) -> None:
        """Know the usage long before the client is told, since a stream that breaks is charged by it; and the tier."""
        self._chunks.figures.has_news = False
        self._note_tier(self._chunks.figures.tier)
        usage = read_usage(self._chunks.figures.usage())
        if usage is not None:
            self.usage, self._told_bytes = usage, self._progress.output_bytes
