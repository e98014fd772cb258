"""What a ledger that waits for the disk has, and one that does not may lose: a worker and its store killed at one moment."""

import asyncio
import os
import signal
from pathlib import Path

import httpx
import pytest

from gateway.admission.spool import entries
from gateway.policy.record import Outcome
from tests.fakes.http_server import Call, HttpServer
from tests.fakes.openai import DONE, SSE, USAGE, Models, event, streams
from tests.integration.load.served import Served, rows_of, settings
from tests.integration.load.test_killed_alone import told
from tests.integration.processes.conditions import LONGEST_START_S, until, until_gone
from tests.running import HEADERS, Running, config, running
from tests.valkey import Valkey

MODELS = {"m": {"deployments": [{"provider": "p", "model": "up-m"}], "price": {"input": 1, "output": 1}}}
STRICT = {"ledger": {"durability": "strict"}}


async def broken(call: Call) -> None:
    """Begin a stream, and cut it."""
    call.head(200, SSE, chunked=True)
    call.piece(event({"content": "Hel"}))
    call.reset()


async def unmarked(call: Call) -> None:
    """Stream to the end and leave its mark out."""
    await streams(event({"content": "Hello"}), event({}, "stop"), event({}, choices=[], usage=USAGE))(call)


def written(run: Running) -> dict[str, str]:
    """Return what is on disk, by how it ended, and look no further than the name of the outcome."""
    found = [entry for path in run.gateway._failover.spool.paths for entry in entries(path)]
    return {entry.id: next(each for each in Outcome if each.encode() in entry.end.closed) for entry in found if entry.end}


@pytest.mark.parametrize(
    ("stream", "act", "outcome"),
    [
        (False, None, Outcome.OK),
        (True, None, Outcome.OK),
        (True, unmarked, Outcome.OK),
        (True, broken, Outcome.INTERRUPTED),
    ],
    ids=["whole", "stream", "stream without a mark", "broken stream"],
)
@pytest.mark.parametrize("durability", ["standard", "strict"])
async def test_the_end_is_on_disk_when_the_client_has_the_last_byte(
    durability: str, stream: bool, act: object, outcome: Outcome, tmp_path: Path
) -> None:
    with Valkey() as valkey:
        models = Models()
        if act is not None:
            models.acts["m"] = act  # type: ignore[assignment] # a script
        async with HttpServer(models) as server:
            settings = config({"p": server.base_url}, MODELS, ledger={"durability": durability})
            async with running(settings, valkey, tmp_path) as run:
                answer = await run.chat(stream=stream)
                on_disk = written(run)
                assert answer.status_code == 200
                expected = {answer.headers["x-request-id"]: outcome} if durability == "strict" else {}
                assert on_disk == expected
                [row] = await run.rows()
                assert row["outcome"] == outcome
        assert [*(tmp_path / "spool").glob("*")] == [], "a worker that left in good order has told all"


async def asked(server: HttpServer, count: int) -> None:
    """Wait until the provider has been asked so often, by a worker that may have to start first."""

    async def reached() -> bool:
        return len(server.requests) == count

    await until(reached, within_s=LONGEST_START_S)


async def test_refusals_and_counts_have_no_end_to_write_down(tmp_path: Path) -> None:
    with Valkey() as valkey:
        async with (
            HttpServer(Models()) as server,
            running(config({"p": server.base_url}, MODELS, **STRICT), valkey, tmp_path) as run,
        ):
            assert (await run.chat(model="another")).status_code == 404
            assert written(run) == {}


async def test_strict_has_what_a_client_had_whole_though_worker_and_store_die_at_once(tmp_path: Path) -> None:
    with Valkey() as valkey:
        models = Models()
        async with HttpServer(models) as server:
            configured = settings(
                {"p": server.base_url}, MODELS, tmp_path, redis={"url": valkey.url}, keys_pepper="a-pepper-of-its-own", **STRICT
            )
            async with (
                Served("gateway", configured, tmp_path) as gateway,
                httpx.AsyncClient(headers=HEADERS, timeout=60) as client,
            ):

                async def ask(own_id: str, *, stream: bool) -> httpx.Response:
                    body = {"model": "m", "messages": [{"role": "user", "content": "hi"}], "stream": stream}
                    url = f"{gateway.url}/v1/chat/completions"
                    return await client.post(url, json=body, headers={"x-request-id": own_id})

                for number in range(2):
                    stream = bool(number % 2)
                    released = asyncio.Event()

                    async def held(call: Call, released: asyncio.Event = released, stream: bool = stream) -> None:
                        await released.wait()
                        await models.usual(call, {"stream": stream})(call)

                    models.acts["m"] = held
                    asking = asyncio.create_task(ask(f"call-{number}", stream=stream))
                    await asked(server, number + 1)
                    valkey.pause()  # it has granted, and hears of no end
                    released.set()
                    answer = await asking
                    assert (answer.status_code, answer.text.endswith(DONE.decode()) or not stream) == (200, True)
                    workers = gateway.workers()
                    for pid in workers:
                        os.kill(pid, signal.SIGKILL)
                    valkey.stop()
                    await until_gone(workers)
                    valkey.start()  # the second time before it has been told of the first for good
                await told(valkey, tmp_path / "state")
                assert await gateway.stop() == 0
    rows = {row["client_request_id"]: row for row in await rows_of(tmp_path, live=True)}
    assert {own_id: row["outcome"] for own_id, row in rows.items()} == {f"call-{number}": Outcome.OK for number in range(2)}
    for row in rows.values():
        assert (row["input_tokens"], row["output_tokens"], row["cost_micro_usd"], row["estimated"]) == (10, 20, 30, False)
