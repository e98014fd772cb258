"""All providers of the fixtures, played by scripted servers: every call is written down, and answered as the row has it."""

import json
import socket
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from functools import partial
from typing import Any

import msgspec

from tests.conformance.cases import strict_json
from tests.conformance.matching import matches
from tests.fakes.http_server import Call, HttpServer, Request


class Received(msgspec.Struct, frozen=True):
    """A call as a provider received it. `json` is the body's value, None where the body is none."""

    provider: str
    request: Request
    json: Any


class Providers:
    """The servers, by name. `stage` sets what they say from then on."""

    def __init__(self, file: Callable[[str], bytes]) -> None:
        self.addresses: dict[str, str] = {}
        """What the placeholders of the fixtures stand for."""
        self.received: list[Received] = []
        self.unexpected: list[str] = []
        """Calls for which the row has no reply."""
        self._file = file
        self._replies: Sequence[Mapping[str, Any]] = ()

    @asynccontextmanager
    async def open(self, names: Sequence[str]) -> AsyncIterator[None]:
        """Listen, until the block ends."""
        async with AsyncExitStack() as stack:
            with socket.socket() as closed:
                # Bound and not listening: connections are refused, and nobody else gets the port meanwhile.
                closed.bind(("127.0.0.1", 0))
                self.addresses["closed_port"] = f"127.0.0.1:{closed.getsockname()[1]}"
                for name in names:
                    server = await stack.enter_async_context(HttpServer(partial(self._answer, name)))
                    self.addresses[f"upstream:{name}"] = f"127.0.0.1:{server.port}"
                yield

    def stage(self, replies: Sequence[Mapping[str, Any]]) -> None:
        """Forget what was received, and answer with these replies."""
        self.received = []
        self.unexpected = []
        self._replies = replies

    async def _answer(self, provider: str, call: Call) -> None:
        received = Received(provider, call.request, value_of(call.request.body))
        self.received.append(received)
        reply = next((reply for reply in self._replies if fits(reply.get("when", {}), received)), None)
        if reply is None:
            self.unexpected.append(f"{provider} was called at {call.request.path} and has no reply")
            call.reply(500)
        else:
            play(reply, call, self._file)


def fits(when: Mapping[str, Any], received: Received) -> bool:
    """Return whether a reply is meant for this call."""
    if when.get("provider", received.provider) != received.provider:
        return False
    return "body" not in when or matches(when["body"], received.json)


def play(reply: Mapping[str, Any], call: Call, file: Callable[[str], bytes]) -> None:
    """Answer a call."""
    kind, body = content(reply, file)
    headers = {"content-type": kind, **reply.get("headers", {})}
    if "sse" not in reply and "sse_text" not in reply:
        call.reply(reply["status"], body, headers.items())
        return
    call.head(200, headers.items(), chunked=True)
    call.piece(body)
    call.end()


def content(reply: Mapping[str, Any], file: Callable[[str], bytes]) -> tuple[str, bytes]:
    """Return a reply's content type and body."""
    if "json" in reply:
        return "application/json", json.dumps(reply["json"]).encode()
    if "file" in reply:
        return "application/json", file(reply["file"])
    if "text" in reply:
        return "text/plain", str(reply["text"]).encode()
    if "sse_text" in reply:
        return "text/event-stream", str(reply["sse_text"]).encode()
    events = [f"data: {json.dumps(payload)}\n\n" for payload in reply["sse"]]
    end = ["data: [DONE]\n\n"] if reply["end"] == "done" else []
    return "text/event-stream", "".join(events + end).encode()


def value_of(body: bytes) -> Any:
    """Return the value of a JSON body, None for what is no strict JSON."""
    try:
        return strict_json(body.decode())
    except ValueError:
        return None
