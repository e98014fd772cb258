"""A provider that is heard out: whose client has left, its answer is read on for the usage, and its slot is held until then."""

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import msgspec
import pytest
import pytest_asyncio

from gateway.upstream.remainder import Remainders
from tests.fakes.http_server import BlackHole, Call
from tests.fakes.openai import BUSY, DONE, JSON, SSE, USAGE, Models, completion, event
from tests.fakes.wire import Wire, post
from tests.integration.load.rest import comes_to_rest
from tests.integration.scene import Scene, scene
from tests.running import HEADERS, config
from tests.valkey import Valkey

pytestmark = pytest.mark.asyncio(loop_scope="module")

TRANSPORTS = ("http1", "httpx")
PLACES = ("head", "content", "middle", "usage")
"""Before what of its answer an upstream is left."""

AT_ONCE = 2
LONGEST_S = 5.0

ROLE, SAID, FINISHED = event({"role": "assistant", "content": ""}), event({"content": "Hello"}), event({}, "stop")
TOLD = event({}, choices=[], usage=USAGE)
STREAM = {"head": (), "content": (ROLE,), "middle": (ROLE, SAID), "usage": (ROLE, SAID, FINISHED)}


def settings(hole: str) -> dict[str, Any]:
    """One model by each transport with one slot, another behind it, one that cannot be connected to, one that is cancelled."""
    heard_out = dict.fromkeys(TRANSPORTS, "{upstream}")
    slot = {"max_concurrency": 1}
    models: dict[str, Any] = {name: {"deployments": [{"provider": name, "model": f"up-{name}", **slot}]} for name in TRANSPORTS}
    models["other"] = {"deployments": [{"provider": "http1", "model": "up-other"}]}
    models["plain"] = {"deployments": [{"provider": "plain", "model": "up-plain", **slot}]}
    models["nowhere"] = {
        "deployments": [{"provider": "nowhere", "model": "up-nowhere"}],
        "timeouts": {"connect": "200ms"},  # how long the pool goes on connecting for whoever comes next
    }
    found = config({**heard_out, "plain": "{upstream}", "nowhere": hole}, models, breaker={"open": "1ms", "cooldown_max": "1ms"})
    for name, provider in found["providers"].items():
        provider["transport"] = name if name in TRANSPORTS else "http1"
        if name != "plain":
            provider["on_disconnect"] = "drain"
    return found


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def shared(valkey_server: Valkey, tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Scene]:
    directory = tmp_path_factory.mktemp("left")
    async with BlackHole() as hole, scene(Models(), settings(hole.base_url), valkey_server, directory) as found:
        yield found


@pytest_asyncio.fixture(loop_scope="module")
async def provider(shared: Scene) -> AsyncIterator[Scene]:
    shared.run.gateway._corridor.remainders = Remainders(at_once=AT_ONCE, longest_s=LONGEST_S)
    yield shared
    await comes_to_rest(shared.run)
    await shared.rest()


class Half:
    """A script that stops before a part of its answer, and goes on when it is told to."""

    def __init__(self, place: str) -> None:
        self.place = place
        self.gone = asyncio.Event()
        """Set when the other side has gone before that."""
        self._go_on = asyncio.Event()

    def go_on(self) -> None:
        self._go_on.set()

    async def __call__(self, call: Call) -> None:
        stream = b'"stream":true' in call.request.body
        await (self._stream(call) if stream else self._whole(call))

    async def _stream(self, call: Call) -> None:
        said = STREAM[self.place]
        if self.place != "head":
            call.head(200, SSE, chunked=True)
        for each in said:
            call.piece(each)
        await self._told(call)
        if self.place == "head":
            call.head(200, SSE, chunked=True)
        for each in (ROLE, SAID, FINISHED)[len(said) :]:
            call.piece(each)
        call.piece(TOLD)
        call.piece(DONE)
        call.end()

    async def _whole(self, call: Call) -> None:
        body = completion()
        sent = {"head": 0, "content": 0, "middle": 20, "usage": len(body) - 5}[self.place]
        if self.place != "head":
            call.head(200, JSON, length=len(body))
        call.write(body[:sent])
        await self._told(call)
        if self.place == "head":
            call.head(200, JSON, length=len(body))
        call.write(body[sent:])

    async def _told(self, call: Call) -> None:
        told, gone = asyncio.create_task(self._go_on.wait()), asyncio.create_task(call.gone.wait())
        await asyncio.wait({told, gone}, return_when=asyncio.FIRST_COMPLETED)
        if gone.done():
            self.gone.set()
        for each in (told, gone):
            each.cancel()


def body(*models: str, stream: bool = True) -> bytes:
    named = {"model": models[0]} if len(models) == 1 else {"models": models}
    return msgspec.json.encode({**named, "stream": stream, "messages": [{"role": "user", "content": "hi"}]})


async def left(provider: Scene, place: str, asked: bytes) -> None:
    """Ask, and leave when as much has come of the answer as comes before that place."""
    before, more = len(provider.server.requests), STREAM[place] if b'"stream":true' in asked else ()
    async with Wire(provider.run.url) as wire:
        await wire.send(post(asked, *HEADERS.items()))
        await provider.server.until(lambda: len(provider.server.requests) > before)
        if SAID in more:
            await wire._reader.readuntil(b"stop" if FINISHED in more else b"Hello")
    await provider.run.gateway._sweep.empty.wait()


async def soon(event: asyncio.Event) -> None:
    async with asyncio.timeout(2.0):
        await event.wait()


async def row_of(provider: Scene) -> tuple[Any, ...]:
    row = (await provider.run.rows())[0]
    return tuple(row[name] for name in ("outcome", "estimated", "input_tokens", "output_tokens"))


@pytest.mark.parametrize("stream", [True, False], ids=["stream", "whole"])
@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("model", TRANSPORTS)
async def test_an_answer_is_read_to_its_end_for_its_usage(model: str, place: str, stream: bool, provider: Scene) -> None:
    act = provider.models.acts[model] = Half(place)
    await left(provider, place, body(model, stream=stream))
    assert await provider.run.leases() == 1
    refused = await provider.ask(model=model, fail_fast=True)
    assert refused.status_code == 429
    act.go_on()
    outcome = "ok" if stream and place == "usage" else "cancelled"
    assert await row_of(provider) == (outcome, False, 10, 20)
    assert not act.gone.is_set()
    assert await provider.run.leases() == 0
    del provider.models.acts[model]
    assert (await provider.ask(model=model)).status_code == 200


@pytest.mark.parametrize("stream", [True, False], ids=["stream", "whole"])
async def test_one_that_breaks_off_is_estimated(stream: bool, provider: Scene) -> None:
    async def breaks(call: Call) -> None:
        call.head(200, SSE if stream else JSON, chunked=True)
        call.piece(ROLE + SAID)
        await go_on.wait()
        call.reset()

    go_on = asyncio.Event()
    provider.models.acts["http1"] = breaks
    await left(provider, "middle" if stream else "content", body("http1", stream=stream))
    go_on.set()
    outcome, estimated, _, output = await row_of(provider)
    # A complete answer that broke off is a failed attempt, which costs its client nothing.
    assert (outcome, estimated, output) == ("cancelled", stream, 2 if stream else 0)


async def test_one_that_takes_too_long_is_cancelled_and_estimated(provider: Scene) -> None:
    provider.run.gateway._corridor.remainders = Remainders(longest_s=0.05)
    act = provider.models.acts["http1"] = Half("middle")
    for stream in (True, False):
        await left(provider, "middle", body("http1", stream=stream))
        outcome, estimated, _, output = await row_of(provider)
        assert (outcome, estimated, output) == ("cancelled", True, 2 if stream else 0)
        await soon(act.gone)


async def test_no_more_than_so_many_are_read_on(provider: Scene) -> None:
    acts = [Half("middle") for _ in range(AT_ONCE + 1)]
    for number, act in enumerate(acts):
        provider.models.acts["other"] = act
        await left(provider, "middle", body("other"))
        assert len(provider.run.gateway._corridor.remainders) == min(number + 1, AT_ONCE)
    await soon(acts[-1].gone)
    for act in acts:
        act.go_on()
    rows = (await provider.run.rows())[: len(acts)]
    assert sorted(row["estimated"] for row in rows) == [False, False, True]


async def test_what_was_not_sent_is_not_sent_for_nobody(provider: Scene) -> None:
    async with Wire(provider.run.url) as wire:
        await wire.send(post(body("nowhere"), *HEADERS.items()))
        async with asyncio.timeout(5.0):
            while not provider.run.gateway._corridor.snapshot.transports["nowhere/nowhere/up-nowhere"].occupancy().waiting:
                await asyncio.sleep(0)
    await provider.run.gateway._sweep.empty.wait()
    assert len(provider.run.gateway._corridor.remainders) == 0
    for _ in range(5):
        await asyncio.sleep(0)  # a cancellation takes a turn or two
    assert provider.run.gateway._corridor.snapshot.transports["nowhere/nowhere/up-nowhere"].occupancy().waiting == 0
    assert await row_of(provider) == ("cancelled", False, 0, 0)


@pytest.mark.parametrize("stream", [True, False], ids=["stream", "whole"])
@pytest.mark.parametrize("place", ["head", "content"])
async def test_whose_time_is_up_is_not_heard_out(place: str, stream: bool, provider: Scene) -> None:
    act = provider.models.acts["http1"] = Half(place)
    asked = body("http1", stream=stream)
    async with Wire(provider.run.url) as wire:
        await wire.send(post(asked, *HEADERS.items(), ("x-request-timeout", "0.2")))
        assert (await wire.answer()).status == 504
    await soon(act.gone)
    assert len(provider.run.gateway._corridor.remainders) == 0
    assert await row_of(provider) == ("timeout", False, 0, 0)


@pytest.mark.parametrize("stream", [True, False], ids=["stream", "whole"])
async def test_a_refusal_that_nobody_hears_ends_the_walk(stream: bool, provider: Scene) -> None:
    async def busy(call: Call) -> None:
        await go_on.wait()
        call.reply(429, BUSY, JSON)

    go_on = asyncio.Event()
    provider.models.acts["http1"] = busy
    await left(provider, "head", body("http1", "other", stream=stream))
    go_on.set()
    assert await row_of(provider) == ("cancelled", False, 0, 0)
    assert provider.models.asked == ["http1"]


async def test_a_gateway_that_stops_does_not_hear_out(provider: Scene) -> None:
    act = provider.models.acts["http1"] = Half("middle")
    await left(provider, "middle", body("http1"))
    await provider.run.gateway._corridor.remainders.stop()
    outcome, estimated, *_ = await row_of(provider)
    assert (outcome, estimated) == ("cancelled", True)
    await soon(act.gone)
    await left(provider, "middle", body("http1"))
    assert len(provider.run.gateway._corridor.remainders) == 0


@pytest.mark.parametrize("stream", [True, False], ids=["stream", "whole"])
async def test_others_are_cancelled_at_once(stream: bool, provider: Scene) -> None:
    act = provider.models.acts["plain"] = Half("head")
    await left(provider, "head", body("plain", stream=stream))
    assert len(provider.run.gateway._corridor.remainders) == 0
    await soon(act.gone)
    assert (await row_of(provider))[0] == "cancelled"
