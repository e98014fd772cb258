"""Clients that never stop: so many streams at any time, so many requests a second, and what became of each."""

import asyncio
import time
from asyncio import IncompleteReadError
from collections import Counter
from collections.abc import Awaitable, Callable
from typing import Any

import msgspec

from tests.fakes.http_server import Call
from tests.fakes.openai import DONE, SSE, USAGE, answers, event
from tests.fakes.wire import Answer, Wire, post
from tests.running import HEADERS

EVENTS = 30
PAUSE_S = 0.2
"""A stream lasts six seconds."""

LONGEST_S = 60.0


async def provider(call: Call) -> None:
    """Answer at once, or stream one event after the other."""
    if b'"stream":true' not in call.request.body:
        await answers()(call)
        return
    call.head(200, SSE, chunked=True)
    for number in range(EVENTS):
        call.piece(event({"content": f" {number}"}))
        await asyncio.sleep(PAUSE_S)
    call.piece(event({}, "stop") + event({}, choices=[], usage=USAGE) + DONE)
    call.end()


def asked(**fields: Any) -> bytes:
    """Return the bytes of a request."""
    body = {"model": "m", "messages": [{"role": "user", "content": "hi"}], **fields}
    return post(msgspec.json.encode(body), *HEADERS.items(), ("content-type", "application/json"))


WHOLE, STREAM = asked(), asked(stream=True)


class Load:
    """`streams` at a time and `rate` requests a second, at `url`, from `run` to `stop`."""

    def __init__(self, url: str, *, streams: int, rate: float) -> None:
        self._url = url
        self._streams = streams
        self._rate = rate
        self._rested: list[Wire] = []
        self._over = asyncio.Event()
        self.requests = self.begun = self.running = 0
        self.failures: Counter[str] = Counter()
        """What became of requests and streams that did not end well."""
        self.took_s: list[float] = []
        """How long each request took that ended well."""

    def stop(self) -> None:
        """Begin nothing more."""
        self._over.set()

    async def run(self) -> None:
        """Ask until it is stopped, and wait for what is under way."""
        async with asyncio.TaskGroup() as tasks:
            for _ in range(self._streams):
                tasks.create_task(self._one_after_another())
            await self._in_time(lambda: tasks.create_task(self._request()))
        for wire in self._rested:
            await wire.__aexit__(None, None, None)

    async def _in_time(self, begin: Callable[[], object]) -> None:
        """Begin a request whenever one is due, however long the others take."""
        begun_s, count = time.monotonic(), 0
        while not self._over.is_set():
            count += 1
            begin()
            await asyncio.sleep(begun_s + count / self._rate - time.monotonic())

    async def _request(self) -> None:
        self.requests += 1
        began_s = time.monotonic()
        wire = self._rested.pop() if self._rested else await Wire(self._url).__aenter__()
        answer = await self._told("request", self._answer(wire, WHOLE))
        if answer is not None and answer.status == 200:
            self.took_s.append(time.monotonic() - began_s)
            if answer.headers.get("connection") != "close":
                self._rested.append(wire)
                return
        elif answer is not None:
            self.failures[f"request: {answer.status} {answer.body[:120]!r}"] += 1
        await wire.__aexit__(None, None, None)

    async def _one_after_another(self) -> None:
        while not self._over.is_set():
            self.begun += 1
            self.running += 1
            async with Wire(self._url) as wire:
                answer = await self._told("stream", self._answer(wire, STREAM))
            self.running -= 1
            if answer is not None and not is_whole(answer):
                self.failures[f"stream: {answer.status} {answer.body[-120:]!r}"] += 1

    async def _told(self, what: str, asking: Awaitable[Answer]) -> Answer | None:
        """Return an answer; none at all is a failure."""
        try:
            async with asyncio.timeout(LONGEST_S):
                return await asking
        except (OSError, IncompleteReadError, TimeoutError) as broken:
            self.failures[f"{what}: {broken!r}"] += 1
            return None

    @staticmethod
    async def _answer(wire: Wire, data: bytes) -> Answer:
        await wire.send(data)
        return await wire.answer()


def is_whole(answer: Answer) -> bool:
    """Return whether a stream brought every event, and its end."""
    said = all(b'" %d"' % number in answer.body for number in range(EVENTS))
    return answer.status == 200 and said and b'"error"' not in answer.body and answer.body.endswith(b"data: [DONE]\n\n")
