"""Clients that leave at every moment of a request, two thousand of them: a gateway that comes to rest and books that add up."""

import asyncio
import socket
import struct
from collections import Counter
from enum import Enum
from pathlib import Path
from random import Random
from typing import Any

import msgspec

from gateway.policy.record import Outcome
from tests.fakes.http_server import BlackHole, Call, HttpServer
from tests.fakes.openai import BUSY, JSON, SSE, Models, completion, event, refuses, silence, streams
from tests.integration.load.rest import Noted, Notes, comes_to_rest, idle
from tests.running import SECRET, Running, config, running
from tests.valkey import Valkey

REQUESTS = 2_000
AT_ONCE = 100
SEED = 1
LONGEST_STAY_S = 0.25
"""So long a request takes at the most, with all the others beside it."""

CONNECT_S = 1.0
"""How long the gateway may go on connecting to nowhere for a client that has left."""

ROLE, CONTENT = event({"role": "assistant", "content": ""}), event({"content": "Hello"})
TORRENT = event({"content": "Hello" * 20_000})
STAGES = {"hole": 6, "silent": 6, "headed": 6, "flowing": 6, "half": 6, "whole": 6, "busy": 6, "torrent": 1}
"""How far each model's upstream comes before it says no more, and in what proportion they are asked.

Not even connected, no head, no content, a part, all of it; and more than the connection to a client takes that does not read.
"""

STREAMED = ("headed", "flowing", "whole", "torrent")
ANSWERING = ("flowing", "whole", "torrent")


async def half(call: Call) -> None:
    call.head(200, JSON, length=len(completion()))
    call.piece(completion()[:50])


async def torrent(call: Call) -> None:
    call.head(200, SSE, chunked=True)
    while not call.gone.is_set():
        call.piece(TORRENT)
        await asyncio.sleep(0)
        await call.write_slowly(b"")


def no_more(_: Call) -> None:
    """Leave a stream as it is."""


class Moment(Enum):
    """When a client goes: having sent what it sends, some time later, when its request has reached the upstream, at an answer."""

    SENT = "sent"
    LATER = "later"
    REACHED = "reached"
    ANSWERED = "answered"


class Leaving(Enum):
    """How a client goes."""

    CLOSE = "close"
    RESET = "reset"
    HALF_CLOSE = "half-close"


class Visitor(msgspec.Struct, frozen=True):
    """One client: what it asks, how much of that it sends, when it leaves and how."""

    name: str
    stage: str
    request: bytes
    sends_bytes: int
    moment: Moment
    stay_s: float
    leaving: Leaving


def visitor(name: str, random: Random) -> Visitor:
    [stage] = random.choices(list(STAGES), list(STAGES.values()))
    names: dict[str, Any] = {"models": ["busy", "silent"]} if stage == "busy" else {"model": stage}
    fields = {**names, "user": name, "stream": stage in STREAMED, "messages": [{"role": "user", "content": "hi"}]}
    body = msgspec.json.encode(fields)
    lines = ("POST /v1/chat/completions HTTP/1.1", "host: t", f"authorization: Bearer {SECRET}", f"content-length: {len(body)}")
    request = "\r\n".join([*lines, "", ""]).encode() + body
    whole = random.random() < 0.9
    moments = [Moment.SENT, Moment.LATER, *([Moment.REACHED] * 2 if whole and stage != "hole" else [])]
    if whole and stage in ANSWERING:
        moments = [Moment.ANSWERED, *moments]
    return Visitor(
        *(name, stage, request, len(request) if whole else random.randint(1, len(request) - 1)),
        moment=random.choice(moments),
        stay_s=random.uniform(0, LONGEST_STAY_S),
        leaving=random.choice(list(Leaving)),
    )


class Upstream:
    """The provider, and whose requests have reached it."""

    def __init__(self) -> None:
        self._models = Models()
        self._models.acts = {
            "silent": silence,
            "busy": refuses(429, BUSY),
            "headed": streams(ROLE, then=no_more),
            "flowing": streams(ROLE, CONTENT, then=no_more),
            "half": half,
            "torrent": torrent,
        }
        self._reached: dict[str, asyncio.Event] = {}

    async def __call__(self, call: Call) -> None:
        self.reached(msgspec.json.decode(call.request.body)["user"]).set()
        await self._models(call)

    def reached(self, name: str) -> asyncio.Event:
        return self._reached.setdefault(name, asyncio.Event())


async def visit(port: int, upstream: Upstream, who: Visitor) -> None:
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(who.request[: who.sends_bytes])
    match who.moment:
        case Moment.SENT:
            await writer.drain()
        case Moment.LATER:
            await asyncio.sleep(who.stay_s)
        case Moment.REACHED:
            await upstream.reached(who.name).wait()
        case Moment.ANSWERED:
            await reader.readuntil(b"[DONE]" if who.stage == "whole" else b"\r\n\r\n")
    if who.leaving is Leaving.HALF_CLOSE:
        writer.write_eof()
        await reader.read()
    elif who.leaving is Leaving.RESET:
        linger = struct.pack("ii", 1, 0)
        writer.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, linger)
        writer.transport.abort()
    writer.close()


async def all_leave(run: Running, upstream: Upstream, count: int) -> None:
    """Have clients visit, so many at once, until `count` of them have come and gone."""
    random, port = Random(SEED), int(run.url.rpartition(":")[2])
    places = asyncio.Semaphore(AT_ONCE)

    async def come(who: Visitor) -> None:
        async with places:
            await visit(port, upstream, who)

    await asyncio.gather(*(come(visitor(str(number), random)) for number in range(count)))


async def test_clients_that_leave_take_everything_along(valkey: Valkey, tmp_path: Path) -> None:
    models = {
        stage: {
            "deployments": [{"provider": "nowhere" if stage == "hole" else "p", "model": f"up-{stage}"}],
            "timeouts": {"connect": f"{CONNECT_S}s"},
        }
        for stage in STAGES
    }
    upstream = Upstream()
    async with BlackHole() as hole, HttpServer(upstream) as server:
        settings = config({"p": server.base_url, "nowhere": hole.base_url}, models, redis={"timeout": "2s"})
        async with running(settings, valkey, tmp_path) as run:
            notes = Notes(run)
            await all_leave(run, upstream, REQUESTS)
            await comes_to_rest(run, within_s=2.0)
            await server.until(lambda: len(server.lines) == idle(run))
            opened = notes.opened()
            assert set(opened.values()) == {1}
            assert Counter(row["request_id"] for row in await run.rows()) == opened
            assert_every_stage_was_left(notes.lines)


def assert_every_stage_was_left(lines: list[Noted]) -> None:
    """Requests were left before they were admitted, before an answer, in the middle of one, and behind its end."""
    stages = Counter((line.opened, line.status, line.outcome) for line in lines)
    left = [(False, 499), (True, 499), (True, 200)]
    for stage in [*((*each, Outcome.CANCELLED) for each in left), (True, 200, Outcome.OK)]:
        assert stages[stage] > REQUESTS / 50, stages
