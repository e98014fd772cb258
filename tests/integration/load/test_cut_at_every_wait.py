"""A request that is cut short at any of its waits, for any reason, lets go of all that it held and is told of exactly once."""

import asyncio
import contextlib
import gzip
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Iterator, Sequence
from pathlib import Path
from typing import Any

import msgspec
import pytest

from gateway.watch import Cut
from gateway.web.client import SERVER
from gateway.web.inference import Inference, Route
from gateway.wire.request import Endpoint
from tests.fakes.http_server import Call, HttpServer
from tests.fakes.openai import BUSY, DONE, JSON, SSE, USAGE, completion, event
from tests.integration.load.cutting import CutAt, Moment
from tests.integration.load.rest import Notes, comes_to_rest, idle
from tests.running import SECRET, Running, config, running
from tests.valkey import Valkey

PATH = "/v1/chat/completions"
ASKED = {"messages": [{"role": "user", "content": "hi"}]}
HEADERS = [(b"authorization", f"Bearer {SECRET}".encode()), (b"content-type", b"application/json")]
HOLDER = "holder"


class Shape(msgspec.Struct, frozen=True):
    """What is asked, and how it comes.

    `called`: the server offers calls beside messages; `queued`: the model's slot is taken until the request waits for it;
    `fewest` is how often an undisturbed request waits at the least, or the test would see nothing.
    """

    fields: dict[str, Any]
    called: bool = False
    packed: bool = False
    queued: bool = False
    fewest: int = 6


WHOLE, STREAM, WALK = {"model": "m"}, {"model": "m", "stream": True}, {"models": ["busy", "m"]}
SHAPES = {
    "whole": Shape(WHOLE),
    "stream": Shape(STREAM),
    "stream, called": Shape(STREAM, called=True),
    "packed": Shape(WHOLE, packed=True),
    "walk": Shape(WALK, called=True),
    "walk, stream": Shape({**WALK, "stream": True}, packed=True),
    "queued": Shape({"model": "slot"}, queued=True),
    "walk, queued, stream": Shape({"models": ["busy", "slot"], "stream": True}, called=True, queued=True),
    "heard out": Shape({"model": "heard"}),
    "walk, heard out, stream": Shape({"models": ["busy", "heard"], "stream": True}, called=True),
}
HEARD_OUT = {"whole": Shape({"model": "heard"}, fewest=3), "stream": Shape({"model": "heard", "stream": True}, fewest=3)}
"""Their attempts wait by themselves: to connect, for the head, for the body."""

MODELS = {"busy": "p", "m": "p", "slot": "p", "heard": "h"}


class Upstream:
    """Refuses for the busy model, keeps the holder's request until it is let go, else answers in pieces, each in a turn."""

    def __init__(self) -> None:
        self.let_go = asyncio.Event()

    async def __call__(self, call: Call) -> None:
        body = call.request.body
        if b"up-busy" in body:
            call.reply(429, BUSY, JSON)
        elif b'"stream":true' in body:
            await self._stream(call)
        else:
            if HOLDER.encode() in body:
                await self.let_go.wait()
            answer = completion()
            call.head(200, JSON, length=len(answer))
            await call.write_apart(answer[:40], answer[40:])

    async def _stream(self, call: Call) -> None:
        call.head(200, SSE, chunked=True)
        for piece in (event({"role": "assistant"}), event({"content": "Hel"}), event({"content": "lo"}), event({}, "stop")):
            call.piece(piece)
            await asyncio.sleep(0)
        call.piece(event({}, choices=[], usage=USAGE))
        call.piece(DONE)
        call.end()


class Caller:
    """The server's side of one request: hands its body in, in two pieces or at once, and takes what comes back."""

    def __init__(self, body: bytes) -> None:
        self._pieces = [body[:9], body[9:]]
        self.departed: Callable[[], None] | None = None

    async def receive(self) -> dict[str, Any]:
        await asyncio.sleep(0)
        if self._pieces:
            piece = self._pieces.pop(0)
            return {"type": "http.request", "body": piece, "more_body": bool(self._pieces)}
        await asyncio.get_running_loop().create_future()
        return {}

    async def send(self, _: Any) -> None:
        await asyncio.sleep(0)

    # what a server may offer beside that

    def whole_body(self) -> bytes | None:
        return None

    def on_departure(self, departed: Callable[[], None]) -> None:
        self.departed = departed

    async def start(self, _: int, headers: Sequence[tuple[bytes, bytes]]) -> None:
        await asyncio.sleep(0)

    async def write(self, _: bytes) -> None:
        await asyncio.sleep(0)

    async def finish(self, _: bytes) -> None:
        await asyncio.sleep(0)


class World:
    """A gateway, its upstream, and the requests that are cut short in it one after the other."""

    def __init__(self, run: Running, server: HttpServer, upstream: Upstream) -> None:
        self.run = run
        self.served = 0
        self.notes = Notes(run)
        self._server = server
        self._upstream = upstream

    def begin(self, shape: Shape, wrap: Callable[[Coroutine[Any, Any, None]], Coroutine[Any, Any, None]]) -> "asyncio.Task[None]":
        """Serve one request of this shape, in a task of its own."""
        self.served += 1
        body = msgspec.json.encode({**ASKED, **shape.fields})
        caller = Caller(gzip.compress(body) if shape.packed else body)
        headers = [*HEADERS, (b"content-encoding", b"gzip")] if shape.packed else HEADERS
        scope: dict[str, Any] = {"type": "http", "method": "POST", "path": PATH, "query_string": b"", "headers": headers}
        scope |= {"client": ("127.0.0.1", 1), "extensions": {SERVER: caller} if shape.called else {}}
        inference = Inference(Route(PATH, Endpoint.CHAT), self.run.gateway._floor, self._on_fault)
        return asyncio.get_running_loop().create_task(wrap(inference(scope, caller.receive, caller.send)))

    def cut(self, task: "asyncio.Task[None]", reason: Cut | None) -> None:
        """Cut this request short, or cancel its task for no reason given."""
        if reason is None:
            task.cancel()
        for watch in self.run.gateway._sweep._watches:
            if reason is not None and watch._task is task:
                watch.cancel(reason)

    @contextlib.asynccontextmanager
    async def slot_taken(self, shape: Shape) -> AsyncIterator[None]:
        """Let another hold the slot until somebody waits for it, or the block ends."""
        if not shape.queued:
            yield
            return
        before = len(self._server.requests)
        holder = self.begin(Shape({"model": "slot", "user": HOLDER}), as_it_is)
        await self._server.until(lambda: len(self._server.requests) > before)
        releasing = asyncio.get_running_loop().create_task(self._release())
        try:
            yield
        finally:
            self._upstream.let_go.set()
            await asyncio.wait({holder, releasing})
            self._upstream.let_go.clear()

    async def at_rest(self) -> None:
        """Wait until nothing is held, here or in the store or by the upstream; each request was told of once."""
        await comes_to_rest(self.run)
        assert len(self.notes.lines) == self.served
        await self._server.until(lambda: len(self._server.lines) == idle(self.run))

    async def disconnected(self) -> None:
        """Have the upstream hang up, so that whoever comes next has to connect."""
        for line in [*self._server.lines]:
            line.transport.abort()
        while idle(self.run):
            await asyncio.sleep(0)

    async def _release(self) -> None:
        while not len(self.run.gateway._turns) and not self._upstream.let_go.is_set():
            await asyncio.sleep(0)
        self._upstream.let_go.set()

    def _on_fault(self, request_id: str) -> None:
        pytest.fail(f"{request_id} met a fault of the gateway's own")


@pytest.fixture
async def world(valkey: Valkey, tmp_path: Path) -> AsyncIterator[World]:
    upstream = Upstream()
    models = {name: {"deployments": [{"provider": provider, "model": f"up-{name}"}]} for name, provider in MODELS.items()}
    models["slot"]["deployments"][0] |= {"max_concurrency": 1}  # type: ignore[dict-item]
    models["m"] |= {"strategy": "least_busy"}  # type: ignore[dict-item]
    async with HttpServer(upstream) as server:
        settings = config({"p": server.base_url, "h": server.base_url}, models)
        settings["providers"]["h"]["on_disconnect"] = "drain"
        async with running(settings, valkey, tmp_path) as run:
            yield World(run, server, upstream)


async def ended(task: "asyncio.Task[None]") -> None:
    await asyncio.wait({task})
    if not task.cancelled():
        task.result()


@contextlib.contextmanager
def attempts_wrapped(wrap: Callable[[Any], Any]) -> Iterator[None]:
    """Wrap what runs in the tasks of attempts that outlive their requests."""
    loop = asyncio.get_running_loop()

    def make(loop: asyncio.AbstractEventLoop, work: Any, **options: Any) -> "asyncio.Task[Any]":
        return asyncio.Task(wrap(work) if work.__name__ == "attempt" else work, loop=loop, **options)

    loop.set_task_factory(make)
    try:
        yield
    finally:
        loop.set_task_factory(None)


def as_it_is(work: Coroutine[Any, Any, None]) -> Coroutine[Any, Any, None]:
    return work


class Cutting:
    """Cuts one request short, for one reason, at the wait `at` of whatever it is put around."""

    def __init__(self, world: World, at: int, moment: Moment, reason: Cut | None) -> None:
        self.task: asyncio.Task[None]
        """The request's, set when it has begun."""
        self.works: list[CutAt] = []
        self._world = world
        self._at = at
        self._moment = moment
        self._reason = reason

    @property
    def waits(self) -> int:
        return self.works[0].waits

    def __call__(self, work: Coroutine[Any, Any, None]) -> CutAt:
        self.works.append(CutAt(work, self._at, self._moment, self._cut))
        return self.works[-1]

    def _cut(self) -> None:
        self._world.cut(self.task, self._reason)


async def cut_in_the_request(world: World, shape: Shape, cutting: Cutting) -> None:
    async with world.slot_taken(shape):
        cutting.task = world.begin(shape, cutting)
        await ended(cutting.task)
    await world.at_rest()


async def cut_in_the_attempt(world: World, shape: Shape, cutting: Cutting) -> None:
    await world.disconnected()
    with attempts_wrapped(cutting):
        cutting.task = world.begin(shape, as_it_is)
        await ended(cutting.task)
        await world.at_rest()


async def cut_everywhere(
    world: World, shape: Shape, moment: Moment, one: Callable[[World, Shape, Cutting], Awaitable[None]]
) -> None:
    """Cut requests short at the first wait, at the second, and so on, until one was served undisturbed; for every reason."""
    for reason in (None, *Cut):
        waits, at = shape.fewest, 0
        while at <= waits:
            at += 1
            cutting = Cutting(world, at, moment, reason)
            await one(world, shape, cutting)
            waits = cutting.waits
        assert waits >= shape.fewest
    ids = [row["request_id"] for row in await world.run.rows()]
    assert sorted(ids) == sorted(world.notes.opened().elements())


@pytest.mark.parametrize("moment", Moment)
@pytest.mark.parametrize("shape", SHAPES.values(), ids=SHAPES)
async def test_whatever_is_cut_lets_go_of_everything(shape: Shape, moment: Moment, world: World) -> None:
    await cut_everywhere(world, shape, moment, cut_in_the_request)


@pytest.mark.parametrize("moment", Moment)
@pytest.mark.parametrize("shape", HEARD_OUT.values(), ids=HEARD_OUT)
async def test_whatever_is_cut_while_its_attempt_waits_lets_go_of_everything(shape: Shape, moment: Moment, world: World) -> None:
    await cut_everywhere(world, shape, moment, cut_in_the_attempt)
