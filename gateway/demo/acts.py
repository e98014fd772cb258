"""An answer as it is performed: what is sent after which pause, and whether the connection then breaks. Milliseconds. Pure."""

import msgspec

from gateway.demo.replies import Reply
from gateway.demo.scripts import Script

JSON = (b"content-type", b"application/json")
EVENT_STREAM = (b"content-type", b"text/event-stream")


class Act(msgspec.Struct, frozen=True):
    """The headers of an answer and its pieces, each with the pause before it. The head goes out with the first piece."""

    headers: list[tuple[bytes, bytes]]
    pieces: list[tuple[int, bytes]]
    breaks: bool


def breaks(reply: Reply, script: Script) -> bool:
    """Return whether the connection breaks before the answer is whole."""
    return script.break_after is not None and script.break_after < len(reply.words)


def whole(reply: Reply, script: Script) -> Act:
    """Return an answer in one piece, after the time that a stream of it would take."""
    body, broken = reply.body(), breaks(reply, script)
    headers = [JSON, (b"content-length", b"%d" % len(body))]
    pause_ms = script.first_ms + script.word_ms * max(0, len(reply.words) - 1)
    return Act(headers, [(pause_ms, body[: len(body) // 2] if broken else body)], broken)


def streamed(reply: Reply, script: Script) -> Act:
    """Return an answer as its events: the role at once, the first word after `first_ms`, then one every `word_ms`."""
    words = [(script.word_ms if position else script.first_ms, reply.word(position)) for position in range(len(reply.words))]
    broken = breaks(reply, script)
    end = [] if broken else [(0, reply.closing())]
    return Act([EVENT_STREAM], [(0, reply.opening()), *words[: script.break_after if broken else None], *end], broken)
