"""A provider of the OpenAI dialect whose models do what a test says; where it says nothing, they answer.

A model of the name `up-x` is asked for `x`. What the pieces of an answer look like is here too.
"""

import asyncio
from collections.abc import Callable, Mapping
from typing import Any

import msgspec

from tests.fakes.http_server import Call, Script

JSON = [("content-type", "application/json")]
SSE = [("content-type", "text/event-stream")]
DONE = b"data: [DONE]\n\n"
USAGE = {"prompt_tokens": 10, "completion_tokens": 20, "total_tokens": 30}

encode = msgspec.json.Encoder().encode


def completion(**members: Any) -> bytes:
    """A whole answer of either endpoint, with members of its own."""
    return encode(
        {
            "id": "up-1",
            "object": "chat.completion",
            "created": 1,
            "model": "up",
            "choices": [{"index": 0, "message": {"role": "assistant", "content": "Hello"}, "finish_reason": "stop"}],
            "usage": USAGE,
            **members,
        }
    )


def event(delta: Mapping[str, Any], finish: str | None = None, **members: Any) -> bytes:
    """One event of a chat stream."""
    choices = [{"index": 0, "delta": delta, "finish_reason": finish}]
    found = {"id": "up-1", "object": "chat.completion.chunk", "created": 1, "model": "up", "choices": choices, **members}
    return b"data: " + encode(found) + b"\n\n"


def error(message: str, **members: Any) -> bytes:
    """An error in OpenAI's envelope."""
    return encode({"error": {"message": message, "type": "invalid_request_error", "param": None, "code": None, **members}})


BUSY = error("Model busy, retry later", code="engine_overloaded")
CONTEXT = error("This model's maximum context length is 10 tokens", code="context_length_exceeded", param="messages")
FILTERED = error("The prompt was flagged by our content policy", code="content_filter")


def refuses(status: int, body: bytes = b"", **headers: str) -> Script:
    """Make a script that answers with this status."""

    async def act(call: Call) -> None:
        call.reply(status, body, [*JSON, *((name.replace("_", "-"), value) for name, value in headers.items())])

    return act


def answers(**members: Any) -> Script:
    """Make a script that answers whole, with these members."""
    return refuses(200, completion(**members))


def streams(*events: bytes, then: Callable[[Call], None] = Call.end) -> Script:
    """Make a script that streams these events, and ends as `then` has it."""

    async def act(call: Call) -> None:
        call.head(200, SSE, chunked=True)
        for each in events:
            call.piece(each)
        then(call)

    return act


async def silence(call: Call) -> None:
    """Say nothing until the other side has gone."""
    await call.gone.wait()


USUAL_STREAM = (event({"role": "assistant", "content": ""}), event({"content": "Hello"}), event({}, "stop"))


class Models:
    """The script of a server: what each model does by `acts`, and who was asked.

    A request of the user `holder` is no one's but the test's: it is kept until `release`.
    """

    def __init__(self) -> None:
        self.acts: dict[str, Script] = {}
        self.asked: list[str] = []
        self._released = asyncio.Event()

    async def __call__(self, call: Call) -> None:
        body = msgspec.json.decode(call.request.body)
        name = self.asked_for(call, body).removeprefix("up-")
        if body.get("user") == "holder":
            await self.released()
            await answers()(call)
            return
        self.asked.append(name)
        act = self.acts.get(name) or self.usual(call, body)
        await act(call)

    def asked_for(self, call: Call, body: Mapping[str, Any]) -> str:
        """Return the model that a request names."""
        return str(body["model"])

    def usual(self, call: Call, body: Mapping[str, Any]) -> Script:
        """Return what a model does where a test says nothing."""
        return streams(*USUAL_STREAM, event({}, choices=[], usage=USAGE), DONE) if body.get("stream") else answers()

    def forget(self) -> None:
        """Go back to the beginning."""
        self.acts.clear()
        self.asked.clear()
        self._released.clear()

    async def released(self) -> None:
        """Wait until all may go on."""
        await self._released.wait()

    def release(self) -> None:
        """Let all that is held go on."""
        self._released.set()
