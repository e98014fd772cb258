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
from tests.integration.load.rest import Notes, comes_to_rest, idle
from tests.running import SECRET, Running, config, running
from tests.valkey import Valkey

REQUESTS = 2_000
AT_ONCE = 100
LONGEST_STAY_S = 0.03
"""A client that leaves of itself does so within this: enough for any of the upstream's acts to have begun."""

CONNECT_S = 1.0
"""How long the gateway may go on connecting to nowhere for a client that has left."""

ROLE, CONTENT = event({"role": "assistant", "content": ""}), event({"content": "Hello"})
TORRENT = event({"content": "Hello" * 20_000})
STAGES = {"hole": 6, "silent": 6, "headed": 6, "flowing": 6, "half": 6, "whole": 6, "busy": 6, "torrent": 1}
"""How far each model's upstream comes before it says no more, and in what proportion they are asked.

Not even connected, no head, no content, a part, all of it; and more than the connection to a client takes that does not read.
"""


async def half(call: Call) -> None:
    call.head(200, JSON, length=len(completion()))
    call.piece(completion()[:50])


async def torrent(call: Call) -> None:
    call.head(200, SSE, chunked=True)
    while not call.gone.is_set():
        call.piece(TORRENT)
        await asyncio.sleep(0)
        await call.write_slowly(b"")


def upstream() -> Models:
    """Return the provider; the model `whole` answers as usual."""
    models = Models()
    models.acts = {
        "silent": silence,
        "busy": refuses(429, BUSY),
        "headed": streams(ROLE, then=no_more),
        "flowing": streams(ROLE, CONTENT, then=no_more),
        "half": half,
        "torrent": torrent,
    }
    return models


def no_more(_: Call) -> None:
    """Leave a stream as it is."""


class Leaving(Enum):
    """How a client goes."""

    CLOSE = "close"
    RESET = "reset"
    HALF_CLOSE = "half-close"


class Visitor(msgspec.Struct, frozen=True):
    """One client: what it asks, how much of that it sends, when it leaves and how.

    `stay_s` counts from the last byte sent; None stays for the answer's first bytes, or for all of it where there is an end.
    """

    request: bytes
    sends_bytes: int
    stay_s: float | None
    leaving: Leaving


def visitor(random: Random) -> Visitor:
    [stage] = random.choices(list(STAGES), list(STAGES.values()))
    names: dict[str, Any] = {"models": ["busy", "silent"]} if stage == "busy" else {"model": stage}
    stream = stage in ("headed", "flowing", "torrent") or (stage != "half" and random.random() < 0.5)
    body = msgspec.json.encode(
        {**names, "stream": stream, "messages": [{"role": "user", "content": "hi" * random.randint(1, 500)}]}
    )
    head = (
        f"POST /v1/chat/completions HTTP/1.1\r\nhost: t\r\nauthorization: Bearer {SECRET}\r\ncontent-length: {len(body)}\r\n\r\n"
    )
    request = head.encode() + body
    whole = random.random() < 0.85
    answered = stage in ("flowing", "whole")
    return Visitor(
        request,
        len(request) if whole else random.randint(1, len(request) - 1),
        None if whole and answered and random.random() < 0.6 else random.uniform(0, LONGEST_STAY_S),
        random.choice(list(Leaving)),
    )


async def visit(port: int, who: Visitor) -> None:
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(who.request[: who.sends_bytes])
    if who.stay_s is None:
        await reader.readuntil(b"[DONE]" if b'"model":"whole","stream":true' in who.request else b"\r\n\r\n")
    else:
        await asyncio.sleep(who.stay_s)
    if who.leaving is Leaving.HALF_CLOSE and not writer.is_closing():
        writer.write_eof()
        await reader.read()
    elif who.leaving is Leaving.RESET:
        linger = struct.pack("ii", 1, 0)
        writer.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, linger)
        writer.transport.abort()
    writer.close()


async def all_leave(run: Running, count: int) -> None:
    """Have clients visit, so many at once, until `count` of them have come and gone."""
    random, port = Random(1), int(run.url.rpartition(":")[2])
    places = asyncio.Semaphore(AT_ONCE)

    async def come() -> None:
        async with places:
            await visit(port, visitor(random))

    await asyncio.gather(*(come() for _ in range(count)))


async def test_clients_that_leave_take_everything_along(valkey: Valkey, tmp_path: Path) -> None:
    models = {
        stage: {
            "deployments": [{"provider": "nowhere" if stage == "hole" else "p", "model": f"up-{stage}"}],
            "timeouts": {"connect": f"{CONNECT_S}s"},
        }
        for stage in STAGES
    }
    async with BlackHole() as hole, HttpServer(upstream()) as server:
        settings = config({"p": server.base_url, "nowhere": hole.base_url}, models, redis={"timeout": "2s"})
        async with running(settings, valkey, tmp_path) as run:
            notes = Notes(run)
            await all_leave(run, REQUESTS)
            await comes_to_rest(run, within_s=2.0)
            await server.until(lambda: len(server.lines) == idle(run))
            opened = notes.opened()
            assert set(opened.values()) == {1}
            assert Counter(row["request_id"] for row in await run.rows()) == opened
            ends = Counter(line.outcome for line in notes.lines)
            assert len(opened) > REQUESTS / 2
            assert ends[Outcome.CANCELLED] > REQUESTS / 2
            assert ends[Outcome.OK] > REQUESTS / 20
