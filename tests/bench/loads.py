"""What is asked and what is answered: a request of 1 KB, for a JSON reply of 1 KB or for a stream of 100 chunks of 235 bytes."""

from dataclasses import dataclass
from typing import Any

import msgspec

MODEL = "gpt-4o-mini"
KEY = "sk-bench-the-only-key-there-is"

CHUNKS = 100
"""Chunks with content in one stream; the role, the finish, the usage and `[DONE]` come on top."""

STREAMED = b'"stream":true'
"""What marks the body of a request for a stream."""

DONE = b"data: [DONE]\n\n"

USAGE = {"prompt_tokens": 180, "completion_tokens": 128, "total_tokens": 308}

encode = msgspec.json.encode


@dataclass(frozen=True)
class Load:
    """A request that so many connections send again and again, each when it has the last answer whole."""

    name: str
    unit: str
    connections: int
    request: bytes
    least_bytes: int
    """A shorter body is not the answer."""
    end: bytes
    """How the body ends."""


def request(**fields: Any) -> bytes:
    """Return a whole HTTP request."""
    text = "Summarise what follows in one sentence. " + "The quick brown fox jumps over the lazy dog. " * 19
    messages = [{"role": "system", "content": "You answer briefly."}, {"role": "user", "content": text}]
    body = encode({"model": MODEL, "messages": messages, "temperature": 0.7, "max_tokens": 128, **fields})
    head = (
        "POST /v1/chat/completions HTTP/1.1\r\nhost: 127.0.0.1\r\ncontent-type: application/json\r\n"
        f"authorization: Bearer {KEY}\r\ncontent-length: {len(body)}\r\n\r\n"
    )
    return head.encode() + body


def reply() -> bytes:
    """Return the upstream's JSON reply, head and body."""
    message = {"role": "assistant", "content": "A fox jumps over a dog, and then does so again. " * 16}
    choice = {"index": 0, "message": message, "finish_reason": "stop"}
    body = encode({**common("chat.completion"), "choices": [choice], "usage": USAGE})
    return f"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: {len(body)}\r\n\r\n".encode() + body


def stream() -> bytes:
    """Return the upstream's stream, head and body, each event a chunk of its own."""
    words = {"content": "jumps over the lazy dog and once more "}
    deltas = [{"role": "assistant", "content": ""}, *(words for _ in range(CHUNKS))]
    choices: list[Any] = [{"index": 0, "delta": delta, "logprobs": None, "finish_reason": None} for delta in deltas]
    choices.append({"index": 0, "delta": {}, "logprobs": None, "finish_reason": "stop"})
    values = [{**common("chat.completion.chunk"), "choices": [choice]} for choice in choices]
    values.append({**common("chat.completion.chunk"), "choices": [], "usage": USAGE})
    events = [b"data: %b\n\n" % encode(value) for value in values]
    body = b"".join(b"%x\r\n%b\r\n" % (len(event), event) for event in (*events, DONE))
    return b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n" + body + b"0\r\n\r\n"


def common(kind: str) -> dict[str, Any]:
    """Return the fields that every answer begins with."""
    return {"id": "chatcmpl-bench-0123456789", "object": kind, "created": 1_760_000_000, "model": "upstream"}


LOADS = {
    load.name: load
    for load in (
        Load("json", "request", 64, request(), 900, b"}"),
        Load("stream", "stream", 32, request(stream=True, stream_options={"include_usage": True}), CHUNKS * 200, DONE),
    )
}
