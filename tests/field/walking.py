"""Walks over models, of both endpoints, streamed and not: settings, requests and what an upstream writes in each."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from itertools import pairwise
from typing import Any

import httpx
import msgspec
import pytest

from gateway.policy.admission import Order, Upstream, Word
from tests.fakes.http_server import Call, Script
from tests.fakes.openai import DONE, SSE, Models, answers, error, event, streams
from tests.field.metering import Metered
from tests.integration.fallback.chain import FORGIVING, PRICE, closed_url
from tests.integration.scene import Scene, scene
from tests.running import config
from tests.valkey import Valkey

BRIEF = {"first_content": "500ms", "idle": "500ms"}


def model(*providers: str, name: str, **fields: Any) -> dict[str, Any]:
    """A model that is asked for at each of these providers as `up-name` and a number, in this order; `p` where none is named."""
    places = [(provider, f"up-{name}{number}") for number, provider in enumerate(providers, 1)] or [("p", f"up-{name}")]
    deployments = [{"provider": provider, "model": at, "order": order} for order, (provider, at) in enumerate(places, 1)]
    return {"deployments": deployments, "price": PRICE, "timeouts": BRIEF, **fields}


def walks(**sections: Any) -> dict[str, Any]:
    """Return settings: A to D at `p`, T at `p` and at `q`, `closed` where nobody listens; what fails is forgiven at once."""
    models = {name: model(name=name) for name in "ABCD"}
    models |= {"T": model("p", "q", name="T"), "closed": model("nobody", name="closed"), **sections.pop("models", {})}
    urls = {"p": "{upstream}", "q": "{upstream}", "nobody": closed_url()}
    rules = {"breaker": FORGIVING, "fallback": {"retry_budget": 1}, "plan": {"explain": True}}
    return config(urls, models, **{**rules, **sections})


@asynccontextmanager
async def walking(settings: dict[str, Any], valkey: Valkey, factory: pytest.TempPathFactory) -> AsyncIterator[Metered]:
    """Run one gateway for all tests of a module."""
    async with scene(Models(), settings, valkey, factory.mktemp("field")) as found:
        yield Metered(found)


async def reset(walk: Scene) -> None:
    """Have the gateway forget all that it knows of its upstreams."""
    gateway = walk.run.gateway
    deployments = [each for model in gateway._corridor.snapshot.catalogue.models.values() for each in model.deployments]
    await gateway._admission.order(Order(Word.RESET, tuple(Upstream(each.id, each.provider.name) for each in deployments)))


class Mode(msgspec.Struct, frozen=True):
    """One of the ways to ask: an endpoint, streamed or not."""

    chat: bool
    stream: bool

    def __str__(self) -> str:
        return f"{'chat' if self.chat else 'completions'}-{'stream' if self.stream else 'whole'}"

    async def ask(self, walk: Scene, *, headers: dict[str, str] | None = None, **fields: Any) -> httpx.Response:
        """Ask, and wait until all of it is settled."""
        asked: dict[str, Any] = {"messages": [{"role": "user", "content": "hi"}]} if self.chat else {"prompt": "hi"}
        path = "/v1/chat/completions" if self.chat else "/v1/completions"
        body = {**asked, "stream": self.stream, **fields}
        response = await walk.run.client.post(path, json=body, headers={"x-gateway-explain": "true", **(headers or {})})
        await walk.run.settled()
        return response

    def chunk(self, text: str | None = None, finish: str | None = None) -> bytes:
        """One event: text, an end, or nothing but a beginning."""
        if self.chat:
            delta = {"role": "assistant", "content": ""} if text is None and finish is None else {"content": text}
            return event({} if text is None and finish else delta, finish)
        choice = {"index": 0, "text": text or "", "finish_reason": finish, "logprobs": None}
        return event({}, object="text_completion", choices=[choice])

    def answer(self, text: str, finish: str = "stop", **members: Any) -> Script:
        """A whole answer, as it is asked for."""
        if self.stream:
            return streams(self.chunk(), self.chunk(text), self.chunk(finish=finish), DONE)
        said = {"message": {"role": "assistant", "content": text}} if self.chat else {"text": text}
        kind = {} if self.chat else {"object": "text_completion"}
        return answers(choices=[{"index": 0, **said, "finish_reason": finish}], **kind, **members)

    def text(self, response: httpx.Response) -> str:
        """Return what an answer says, whole or streamed."""
        found = chunks(response) if self.stream else [response.json()]
        said = ""
        for choice in (choice for each in found for choice in each.get("choices", ())):
            part = choice.get("delta") or choice.get("message") or choice
            said += part.get("content") or part.get("text") or ""
        return said


CHAT, CHAT_STREAM, TEXT, TEXT_STREAM = MODES = tuple(Mode(chat, stream) for chat in (True, False) for stream in (False, True))
STREAMS = (CHAT_STREAM, TEXT_STREAM)


def payloads(response: httpx.Response) -> list[str]:
    """Return the payloads of a stream as they came."""
    return [line.removeprefix("data: ") for line in response.text.split("\n\n") if line]


def chunks(response: httpx.Response) -> list[Any]:
    """Return the events of a stream, without its end mark."""
    return [msgspec.json.decode(each) for each in payloads(response) if each != "[DONE]"]


def outcomes(response: httpx.Response) -> list[str]:
    """Return how each attempt ended, as the answer explains itself."""
    told = msgspec.json.decode(response.headers["x-gateway-explain"])
    return [step["outcome"] for step in told["attempts"]]


def failing(number: int, said: str, **members: Any) -> bytes:
    """One event with an error."""
    return b"data: " + error(said, code=number, type="some_error", **members) + b"\n\n"


def bytes_apart(data: bytes, *cuts: int, end: bool = True) -> Script:
    """Make a script that streams these bytes, cut here."""

    async def act(call: Call) -> None:
        call.head(200, SSE)
        places = [0, *cuts, len(data)]
        await call.write_apart(*(data[start:stop] for start, stop in pairwise(places)))
        if end:
            call.close()

    return act


FRAMINGS = {"lf": b"\n", "crlf": b"\r\n", "cr": b"\r"}
