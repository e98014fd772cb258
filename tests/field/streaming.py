"""What the cases of streams share: a gateway to ask, answers of both endpoints in any pieces, and what a client reads of them."""

import asyncio
from collections.abc import AsyncIterator, Callable, Iterable, Mapping
from contextlib import asynccontextmanager
from enum import Enum
from pathlib import Path
from typing import Any

import httpx
import msgspec

from gateway.telemetry.access import AccessLog, as_json
from tests.fakes.http_server import Call, Script
from tests.fakes.openai import DONE, SSE, Models, encode
from tests.integration.scene import Scene, scene
from tests.running import config
from tests.valkey import Valkey

FORGIVING = {"failures": 1_000, "window": "1ms", "open": "1ms", "max_open": "1ms", "cooldown_max": "1ms"}
"""What one case does to a provider is over by the next."""

PATIENT = {"name": "patient", "org": "acme", "secret": "sk-test-secret-of-patient", "keepalive": "100ms"}
"""A key whose streams have comments in their silences."""

TURNS = 3
"""So many turns of the loop after a write the gateway has read it, and has waited for more."""


class Shape(Enum):
    """An endpoint, and what its chunks look like; the value is its path."""

    CHAT = "/v1/chat/completions"
    COMPLETIONS = "/v1/completions"

    def chunk(self, choices: object, **members: Any) -> bytes:
        """One event; `...` leaves a member out."""
        kind = "chat.completion.chunk" if self is Shape.CHAT else "text_completion"
        found = {"id": "up-1", "object": kind, "created": 1, "model": "up", "choices": choices, **members}
        return event(encode({name: value for name, value in found.items() if value is not ...}))

    def begins(self, **members: Any) -> bytes:
        """The event before anything is said."""
        return self.delta({"role": "assistant", "content": ""}, **members) if self is Shape.CHAT else self.says("", **members)

    def delta(self, delta: object, finish: str | None = None, **members: Any) -> bytes:
        """An event of chat with this delta."""
        return self.chunk([{"index": 0, "delta": delta, "finish_reason": finish}], **members)

    def says(self, text: str, index: int = 0, **members: Any) -> bytes:
        """An event that says this."""
        said: dict[str, Any] = {"delta": {"content": text}} if self is Shape.CHAT else {"text": text, "logprobs": None}
        return self.chunk([{"index": index, **said, "finish_reason": None}], **members)

    def ends(self, reason: str = "stop", index: int = 0, **members: Any) -> bytes:
        """An event that ends a choice."""
        said: dict[str, Any] = {"delta": {}} if self is Shape.CHAT else {"text": "", "logprobs": None}
        return self.chunk([{"index": index, **said, "finish_reason": reason}], **members)

    def usage(self, prompt: int, completion: int, **members: Any) -> bytes:
        """An event of nothing but usage."""
        return self.chunk([], usage=used(prompt, completion), **members)

    def whole(self, *texts: str) -> bytes:
        """A whole stream that says this, with usage of 3 and 2."""
        return b"".join([self.begins(), *map(self.says, texts), self.ends(), self.usage(3, 2), DONE])


BOTH = (Shape.CHAT, Shape.COMPLETIONS)


class Seen(msgspec.Struct, frozen=True):
    """A stream as its client read it, byte for byte."""

    body: bytes

    @property
    def payloads(self) -> list[bytes]:
        """Return the data of each event; there is nothing in a stream of ours but events of one line, and comments."""
        *events, rest = self.body.split(b"\n\n")
        assert rest == b"", rest
        assert all(each.startswith((b"data: ", b": ")) and not {*each} & {*b"\r\n"} for each in events), events
        return [each[6:] for each in events if not each.startswith(b": ")]

    @property
    def chunks(self) -> list[Any]:
        """Return the events as values, without the end mark."""
        return [msgspec.json.decode(each) for each in self.payloads if each != b"[DONE]"]

    @property
    def text(self) -> str:
        """Return what the first choice said."""
        choices = [choice for chunk in self.chunks for choice in chunk.get("choices") or () if choice["index"] == 0]
        return "".join((choice.get("delta") or {}).get("content") or choice.get("text") or "" for choice in choices)

    @property
    def finishes(self) -> list[str]:
        """Return every reason to end."""
        choices = [choice for chunk in self.chunks for choice in chunk.get("choices") or ()]
        return [choice["finish_reason"] for choice in choices if choice.get("finish_reason")]

    @property
    def is_whole(self) -> bool:
        """Return whether it ends in the one end mark, and has no error."""
        return self.payloads.index(b"[DONE]") == len(self.payloads) - 1 and not any("error" in chunk for chunk in self.chunks)

    @property
    def error(self) -> Any:
        """Return the error that it ends in: the last event, the only one of its kind, and no end mark beside it."""
        *before, last = self.chunks
        assert b"[DONE]" not in self.payloads
        assert not any("error" in chunk for chunk in before)
        return last["error"]


class Stage(Scene):
    """A scene with the access lines of all that was asked."""

    def __init__(self, found: Scene) -> None:
        super().__init__(found.run, found.server, found.models)
        self._written: list[bytes] = []
        soon = asyncio.get_running_loop().call_soon
        found.run.gateway._observer._access = AccessLog(self._written.append, soon, as_json)

    async def stream(self, shape: Shape = Shape.CHAT, model: str = "m", **fields: Any) -> Seen:
        """Ask for a stream and read it to its end."""
        answer = await self.ask(path=shape.value, stream=True, **{"model": model, **fields})
        assert answer.status_code == 200, answer.text
        return Seen(answer.content)

    @asynccontextmanager
    async def reading(
        self, shape: Shape = Shape.CHAT, headers: Mapping[str, str] | None = None, **fields: Any
    ) -> AsyncIterator[httpx.Response]:
        """Ask for a stream and leave the reading of it to the block; its end hangs up."""
        asked = {"messages": [{"role": "user", "content": "hi"}]} if shape is Shape.CHAT else {"prompt": "hi"}
        body = {"model": "m", "stream": True, **asked, **fields}
        async with self.run.client.stream("POST", shape.value, json=body, headers=headers) as answer:
            yield answer

    async def lines(self, count: int = 1) -> list[dict[str, Any]]:
        """Return the newest access lines once all is settled, oldest first."""
        await self.run.settled()
        await asyncio.sleep(0)
        found = b"".join(self._written).splitlines()[-count:]
        return [msgspec.json.decode(line) for line in found]

    def forget_lines(self) -> None:
        """Begin anew with the access lines."""
        self._written.clear()

    async def line(self) -> dict[str, Any]:
        """Return the newest access line."""
        [found] = await self.lines()
        return found


@asynccontextmanager
async def stage(
    valkey: Valkey, directory: Path, models: Mapping[str, Any] | None = None, **sections: Any
) -> AsyncIterator[Stage]:
    """Run a gateway whose models are `m` (or these), at a provider `p` over our own transport and at `x` over stock httpx."""
    found = settings({"m": model("m")} if models is None else models, **sections)
    async with scene(Models(), found, valkey, directory) as ready:
        yield Stage(ready)


def settings(models: Mapping[str, Any], **sections: Any) -> dict[str, Any]:
    """Return the settings; providers other than these two listen where `sections` says."""
    elsewhere = sections.pop("elsewhere", {})
    always = {"breaker": FORGIVING, "fallback": {"retry_budget": 1}}
    found = config({"p": "{upstream}", "x": "{upstream}", **elsewhere}, models, **always, **sections)
    found["providers"]["x"]["transport"] = "httpx"
    return {**found, "keys": [*found["keys"], PATIENT]}


def model(name: str, provider: str = "p", **fields: Any) -> dict[str, Any]:
    """One model at one provider."""
    return {"deployments": [{"provider": provider, "model": f"up-{name}"}], "price": {"input": 1.0, "output": 2.0}, **fields}


def used(prompt: int, completion: int) -> dict[str, Any]:
    return {"prompt_tokens": prompt, "completion_tokens": completion, "total_tokens": prompt + completion}


def event(payload: bytes) -> bytes:
    return b"data: " + payload + b"\n\n"


def error(code: object, message: str = "worker limit") -> dict[str, Any]:
    return {"error": {"code": code, "message": message}}


def no_more(_: Call) -> None:
    """Leave a stream as it is, with nothing more to come."""


async def turns(count: int = TURNS) -> None:
    """Let the loop turn."""
    for _ in range(count):
        await asyncio.sleep(0)


def apart(*pieces: bytes, then: Callable[[Call], None] = Call.end, headers: Iterable[tuple[str, str]] = SSE) -> Script:
    """Make a script that streams these pieces, each of which is read before the next is sent, and ends as `then` has it.

    A piece of nothing is none: it would end the body.
    """

    async def act(call: Call) -> None:
        call.head(200, headers, chunked=True)
        for each in filter(None, pieces):
            await turns()
            call.piece(each)
        await turns()
        then(call)

    return act
