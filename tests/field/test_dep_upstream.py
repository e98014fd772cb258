"""Cases DEP-05, DEP-09 and MEM-05: connections that went stale, upstreams that hang, and outages that leave nothing behind."""

import asyncio
import gc
import tracemalloc
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import contextmanager

import msgspec
import pytest
import pytest_asyncio

from tests.fakes.http_server import BlackHole, Call, Line
from tests.fakes.openai import refuses, silence
from tests.field.metering import Metered
from tests.field.walking import CHAT, MODES, STREAMS, Mode, model, outcomes, reset, walking, walks
from tests.integration.scene import Scene
from tests.valkey import Valkey

pytestmark = pytest.mark.asyncio(loop_scope="module")

HANGING = 100
WAITING = 32
BODY_BYTES = 1 << 20
MARKER = "xq-marker-of-a-prompt"


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def shared(valkey_server: Valkey, tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Metered]:
    models = {
        "mute": model(name="mute", timeouts={"first_content": "30s", "total": "30s"}),
        "short": model(name="short", timeouts={"first_content": "100ms", "total": "100ms"}),
        "hole": model("hole", name="hole", timeouts={"connect": "200ms"}),
    }
    async with BlackHole() as hole:
        settings = walks(models=models, breaker={"failures": 4})
        settings["providers"]["hole"] = {**settings["providers"]["p"], "base_url": f"{hole.base_url}/v1"}
        async with walking(settings, valkey_server, tmp_path_factory) as found:
            yield found


@pytest_asyncio.fixture(loop_scope="module")
async def walk(shared: Metered) -> AsyncIterator[Metered]:
    yield shared
    await shared.rest()
    await reset(shared)


def hang_up(line: Line) -> None:
    line.transport.close()


@pytest.mark.parametrize("mode", MODES, ids=str)
@pytest.mark.parametrize("end", [hang_up, Line.reset], ids=["closed", "reset"])
async def test_dep_05_a_connection_that_ended_while_it_rested_is_passed_over(
    end: Callable[[Line], None], mode: Mode, walk: Scene
) -> None:
    """Whether its end was seen or not: the next request comes at once, or after some turns of the loop."""
    walk.models.acts["A"] = mode.answer("Hello")
    for turns in (0, 0, 1, 2, 3, 5, 10, 20):
        response = await mode.ask(walk, model="A")
        assert (response.status_code, mode.text(response)) == (200, "Hello")
        for line in [*walk.server.lines]:
            end(line)
        for _ in range(turns):
            await asyncio.sleep(0)
    assert walk.models.asked == ["A"] * 8, "and each was carried out once"


@pytest.mark.parametrize("mode", MODES, ids=str)
async def test_dep_05_one_that_ends_as_it_is_handed_on_to_who_waits_is_passed_over(mode: Mode, walk: Scene) -> None:
    """As servers of few threads end theirs with the reply, without a word in its head, where others wait to be accepted."""

    async def answer_and_close(call: Call) -> None:
        await mode.answer("Hello")(call)
        call.close()

    walk.models.acts["A"] = answer_and_close
    responses = await asyncio.gather(*(mode.ask(walk, model="A") for _ in range(WAITING)))
    assert [(response.status_code, mode.text(response)) for response in responses] == [(200, "Hello")] * WAITING
    assert walk.models.asked == ["A"] * WAITING, "and each was carried out once"


@pytest.mark.parametrize("mode", MODES, ids=str)
async def test_dep_05_one_that_closes_as_the_request_arrives_may_have_carried_it_out(mode: Mode, walk: Scene) -> None:
    """It is never asked again for it (decision 18): another one is, so that the client notices nothing where there is one."""
    served: set[int] = set()

    async def once_each(call: Call) -> None:
        if call.request.connection in served:
            call.close()
            return
        served.add(call.request.connection)
        await mode.answer("Hello")(call)

    walk.models.acts.update({"T1": once_each, "A": once_each})
    for _ in range(5):
        seen = [outcomes(await mode.ask(walk, model="T")) for _ in range(2)]
        assert seen == [["ok"], ["reset", "ok"]]
    assert walk.models.asked == ["T1", "T1", "T2"] * 5
    walk.models.asked.clear()
    assert [(await mode.ask(walk, model="A")).status_code for _ in range(4)] == [200, 502, 200, 502]
    assert walk.models.asked == ["A"] * 4


async def test_dep_05_a_connection_that_rests_well_is_used_again(walk: Scene) -> None:
    await CHAT.ask(walk, model="B")
    before = walk.server.connections
    for _ in range(20):
        assert (await CHAT.ask(walk, model="B")).status_code == 200
    assert walk.server.connections == before


def asking(walk: Scene, name: str) -> "asyncio.Task[int]":
    async def ask() -> int:
        body = {"model": name, "messages": [{"role": "user", "content": "hi"}], "fail_fast": True}
        return (await walk.run.client.post("/v1/chat/completions", json=body)).status_code

    return asyncio.create_task(ask())


async def test_dep_09_an_upstream_that_hangs_is_in_nobody_elses_way(walk: Scene) -> None:
    walk.models.acts["mute"] = silence
    before = len(walk.server.requests)
    hanging = [asking(walk, "mute") for _ in range(HANGING // 2)]
    await walk.server.until(lambda: len(walk.server.requests) == before + HANGING // 2)
    connecting = [asking(walk, "hole") for _ in range(HANGING // 2)]
    for mode in MODES:
        body = {"messages": [{"role": "user", "content": "hi"}]} if mode.chat else {"prompt": "hi"}
        path = "/v1/chat/completions" if mode.chat else "/v1/completions"
        response = await walk.run.client.post(path, json={**body, "model": "B", "stream": mode.stream})
        assert (response.status_code, mode.text(response)) == (200, "Hello")
    assert not any(each.done() for each in hanging)
    assert set(await asyncio.gather(*connecting)) == {502}, "and who waits for it is told in time"
    for each in hanging:
        each.cancel()
    await asyncio.gather(*hanging, return_exceptions=True)
    await walk.run.settled()
    assert await walk.run.leases() == 0
    await walk.server.until(lambda: len(walk.server.lines) <= 4)


async def test_dep_09_who_waits_for_one_that_never_answers_is_told_in_time(walk: Scene) -> None:
    walk.models.acts["short"] = silence
    ends = await asyncio.gather(*(asking(walk, "short") for _ in range(HANGING)))
    assert 504 in ends
    assert {*ends} <= {504, 429}, "those who come when it is known to be slow find less room"
    assert await asking(walk, "B") == 200


@contextmanager
def kept() -> Iterator[list[int]]:
    """Tell, when the block has ended, how many of the bytes that were allocated in it are still in use."""
    found: list[int] = []
    tracemalloc.start()
    try:
        yield found
        gc.collect()
        found.append(tracemalloc.get_traced_memory()[0])
    finally:
        tracemalloc.stop()


async def test_mem_05_an_outage_leaves_nothing_of_its_requests_behind(walk: Metered, capfd: pytest.CaptureFixture[str]) -> None:
    """Fifteen requests of a mebibyte that fail everywhere: not the bytes of one are kept."""
    walk.models.acts.update(dict.fromkeys(("A", "T1", "T2", "B"), refuses(500, b"<html>" + b"x" * 60_000)))
    messages = [{"role": "user", "content": MARKER * (BODY_BYTES // len(MARKER))}]

    async def outage(requests: int) -> None:
        for number in range(requests):
            mode = STREAMS[0] if number % 2 else CHAT
            response = await mode.ask(walk, models=["A", "T", "B"], messages=messages)
            assert (response.status_code, MARKER in f"{response.text} {response.headers}") == (502, False)
            walk.server.requests.clear()

    await outage(5)
    with kept() as bytes_kept:
        await outage(15)
    assert bytes_kept[0] < BODY_BYTES
    lines = [msgspec.json.encode(line) for line in await walk.notes.lines()]
    assert len(lines) == 20
    assert max(map(len, lines)) < 3_000
    assert MARKER.encode() not in b"".join(lines)
    assert MARKER not in "".join(capfd.readouterr())
