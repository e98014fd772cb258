"""A request that is cut short at any of its waits, for any reason, lets go of all that it held and is told of exactly once."""

import asyncio
from pathlib import Path
from typing import Any

import msgspec
import pytest

from gateway.watch import Cut
from gateway.web.inference import Inference, Route
from gateway.wire.request import Endpoint
from tests.fakes.http_server import Call, HttpServer
from tests.fakes.openai import BUSY, DONE, JSON, SSE, completion, event
from tests.integration.load.cutting import CutAt, Moment
from tests.integration.load.rest import Notes, comes_to_rest, idle
from tests.running import SECRET, Running, config, running
from tests.valkey import Valkey

PATH = "/v1/chat/completions"
ASKED = {"messages": [{"role": "user", "content": "hi"}]}
SHAPES: dict[str, dict[str, Any]] = {
    "unary": {"model": "m"},
    "stream": {"model": "m", "stream": True},
    "fallback": {"models": ["busy", "m"], "stream": True},
}
FEWEST_WAITS = 6
"""An undisturbed request waits as often as this at the least, or the test would see nothing."""


async def upstream(call: Call) -> None:
    """Refuse for the busy model, else answer in pieces, each in a turn of its own."""
    body = call.request.body
    if b"up-busy" in body:
        call.reply(429, BUSY, JSON)
    elif b'"stream":true' in body:
        call.head(200, SSE, chunked=True)
        for piece in (event({"role": "assistant"}), event({"content": "Hel"}), event({"content": "lo"}), event({}, "stop")):
            call.piece(piece)
            await asyncio.sleep(0)
        call.piece(DONE)
        call.end()
    else:
        answer = completion()
        call.head(200, JSON, length=len(answer))
        await call.write_apart(answer[:40], answer[40:])


class Caller:
    """The server's side of one request: hands its body in, in two pieces, and takes what comes back."""

    def __init__(self, body: bytes) -> None:
        self._pieces = [body[:9], body[9:]]
        self.sent: list[dict[str, Any]] = []

    async def receive(self) -> dict[str, Any]:
        await asyncio.sleep(0)
        if self._pieces:
            piece = self._pieces.pop(0)
            return {"type": "http.request", "body": piece, "more_body": bool(self._pieces)}
        await asyncio.get_running_loop().create_future()
        return {}

    async def send(self, message: Any) -> None:
        await asyncio.sleep(0)
        self.sent.append(message)


async def serve_cut(run: Running, fields: dict[str, Any], at: int, moment: Moment, reason: Cut | None) -> int:
    """Serve one request and cut it short at its wait `at`. Return how many waits it had."""
    faults: list[str] = []
    caller = Caller(msgspec.json.encode({**ASKED, **fields}))
    headers = [(b"authorization", f"Bearer {SECRET}".encode()), (b"content-type", b"application/json")]
    scope = {"type": "http", "method": "POST", "path": PATH, "query_string": b"", "headers": headers, "client": ("127.0.0.1", 1)}
    inference = Inference(Route(PATH, Endpoint.CHAT), run.gateway._floor, faults.append)

    def cut() -> None:
        if reason is None:
            task.cancel()
        else:
            [watch] = run.gateway._sweep._watches
            watch.cancel(reason)

    work = CutAt(inference(scope, caller.receive, caller.send), at, moment, cut)
    task = asyncio.get_running_loop().create_task(work)
    await asyncio.wait({task})
    if not task.cancelled():
        task.result()
    assert not faults
    return work.waits


def reasons() -> list[Cut | None]:
    return [None, *Cut]


@pytest.mark.parametrize("moment", Moment)
@pytest.mark.parametrize("shape", SHAPES)
async def test_whatever_is_cut_lets_go_of_everything(shape: str, moment: Moment, valkey: Valkey, tmp_path: Path) -> None:
    models = {name: {"deployments": [{"provider": "p", "model": f"up-{name}"}]} for name in ("busy", "m")}
    async with HttpServer(upstream) as server, running(config({"p": server.base_url}, models), valkey, tmp_path) as run:
        notes = Notes(run)
        served = 0
        for reason in reasons():
            waits, at = FEWEST_WAITS, 0
            while at <= waits:
                at += 1
                waits = await serve_cut(run, SHAPES[shape], at, moment, reason)
                served += 1
                await comes_to_rest(run)
                assert len(notes.lines) == served, (reason, at)
                await server.until(lambda: len(server.lines) == idle(run))
            assert waits >= FEWEST_WAITS
        ids = [row["request_id"] for row in await run.rows()]
        assert sorted(ids) == sorted(notes.opened().elements())
