"""`python -m tests.chaos.upstream LOG`: a provider in a process of its own, which writes down what it did for whom.

It answers by the seed that a request's `user` is, prints its port, and adds one line to the log for each call when it is over:
whose it was, how it ended (`whole`, `left` by the gateway, `refused`, `broken`), when it came, and its tokens.
"""

import asyncio
import contextlib
import sys
import time
from pathlib import Path
from random import Random
from typing import Any

import msgspec
import uvloop

from tests.fakes.http_server import Call, HttpServer
from tests.fakes.openai import BUSY, DONE, JSON, SSE, completion, error, event

WORD = "abc "
"""A token, of as many bytes as the gateway takes one to have where it has to estimate."""

PIECE_S = {"quick": 0.0, "slow": 0.01}
MOST_TOKENS = {"quick": 6, "slow": 30}


End = tuple[str, int, float]
"""How a call ended, with how many tokens sent, and when."""


class Served(msgspec.Struct, frozen=True):
    """One call, from the log."""

    id: str
    model: str
    end: str
    asked_unix_s: float
    ended_unix_s: float
    """Before its last bytes were sent: whoever has them may be back by the time that they are gone."""
    input_tokens: int
    output_tokens: int
    """Those that were sent."""


class Upstream:
    """The script of the server."""

    def __init__(self, log: Path) -> None:
        self._log = log.open("ab", buffering=0)

    async def __call__(self, call: Call) -> None:
        """Serve one call, and write it down."""
        asked_s = time.time()
        body = msgspec.json.decode(call.request.body)
        name, user = body["model"].removeprefix("up-"), body["user"]
        random = Random(f"{user} {name}")
        input_tokens, tokens = random.randint(5, 50), random.randint(1, MOST_TOKENS.get(name, 6))
        end, sent, ended_s = await self._act(call, body, (name, random, tokens, input_tokens))
        line = Served(user, name, end, asked_s, ended_s, input_tokens, sent)
        self._log.write(msgspec.json.encode(line) + b"\n")

    async def _act(self, call: Call, body: dict[str, Any], asked: tuple[str, Random, int, int]) -> End:
        name, random, tokens, input_tokens = asked
        now_s = time.time()
        if name == "busy" and random.random() < 0.5:
            call.reply(429, BUSY, JSON)
            return "refused", 0, now_s
        if name == "shaky" and random.random() < 0.2:
            call.reply(500, error("out of order"), JSON)
            return "refused", 0, now_s
        breaks = name == "shaky" and random.random() < 0.2
        usage = {"prompt_tokens": input_tokens, "completion_tokens": tokens, "total_tokens": input_tokens + tokens}
        if body.get("stream"):
            return await self._stream(call, PIECE_S.get(name, 0.002), usage, breaks=breaks)
        if await gone(call, tokens * PIECE_S.get(name, 0.002)):
            return "left", 0, time.time()
        choice = {"index": 0, "message": {"role": "assistant", "content": WORD * tokens}, "finish_reason": "stop"}
        ended_s = time.time()
        call.reply(200, completion(choices=[choice], usage=usage), JSON)
        return "whole", tokens, ended_s

    async def _stream(self, call: Call, pause_s: float, usage: dict[str, int], *, breaks: bool) -> End:
        call.head(200, SSE, chunked=True)
        for number in range(usage["completion_tokens"]):
            if await gone(call, pause_s):
                return "left", number, time.time()
            call.piece(event({"content": WORD}))
            if breaks and number:
                ended_s = time.time()
                call.reset()
                return "broken", number + 1, ended_s
        ended_s = time.time()
        call.piece(event({}, "stop") + event({}, choices=[], usage=usage) + DONE)
        call.end()
        return "whole", usage["completion_tokens"], ended_s


async def gone(call: Call, pause_s: float) -> bool:
    """Wait, no longer than the gateway does. Return whether it has hung up by then."""
    if pause_s:
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(pause_s):
                await call.gone.wait()
    return call.gone.is_set()


async def serve(log: Path) -> None:
    """Serve until killed."""
    async with HttpServer(Upstream(log)) as server:
        print(server.port, flush=True)
        while True:
            await asyncio.sleep(1)
            server.requests.clear()


def served(log: Path) -> list[Served]:
    """Return what a log tells."""
    decode = msgspec.json.Decoder(Served).decode
    return [decode(line) for line in log.read_bytes().splitlines()]


if __name__ == "__main__":
    uvloop.run(serve(Path(sys.argv[1])))
