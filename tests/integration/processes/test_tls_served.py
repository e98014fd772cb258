"""A whole gateway whose two listeners speak TLS: streams, departures, the certificate's renewal, operations, and its end."""

import asyncio
import contextlib
import os
import signal
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx
import msgspec
import pytest
from click.testing import CliRunner

from gateway.cli import tiergate
from tests.certificates import Pems, issue, trust
from tests.fakes.http_server import Call, HttpServer
from tests.fakes.openai import DONE, SSE, event
from tests.fakes.wire import Wire, post, request
from tests.integration.load.served import HERE, Served, rows_of, settings
from tests.integration.processes.conditions import LONGEST_START_S, until, until_gone
from tests.running import HEADERS, SECRET

pytestmark = pytest.mark.timeout(180)

ASKED = {"model": "m", "messages": [{"role": "user", "content": "hi"}], "stream": True}
AUTHORIZED = (("authorization", f"Bearer {SECRET}"), ("content-type", "application/json"))
SAID = event({"content": "Hello"})
REST = (event({}, "stop"), DONE)


class Upstream:
    """A provider that says one word, and the rest when a test lets it; `gone` counts who was not waited for."""

    def __init__(self) -> None:
        self.going_on = asyncio.Event()
        self.gone = 0

    async def __call__(self, call: Call) -> None:
        call.head(200, SSE, chunked=True)
        call.piece(SAID)
        leaving = asyncio.ensure_future(call.gone.wait())
        going_on = asyncio.ensure_future(self.going_on.wait())
        await asyncio.wait({leaving, going_on}, return_when=asyncio.FIRST_COMPLETED)
        leaving.cancel()
        going_on.cancel()
        if call.gone.is_set():
            self.gone += 1
        for each in REST:
            call.piece(each)
        call.end()


class Gateway(Served):
    """One of two workers that speaks TLS; its operations port is asked over TLS too."""

    ops_port = 0

    def __init__(self, settings: dict[str, Any], directory: Path, pems: Pems) -> None:
        super().__init__("gateway", settings, directory)
        self.directory, self.pems = directory, pems
        self.path = self._config

    @property
    def url(self) -> str:
        return f"https://127.0.0.1:{self.port}"

    @property
    def ops_url(self) -> str:
        return f"https://127.0.0.1:{self.ops_port}"

    async def _comes_up(self) -> None:
        self.ops_port = int((await self._started())["ops"].rpartition(":")[2])
        await until(self.is_ready, within_s=LONGEST_START_S)

    async def is_ready(self) -> bool:
        with contextlib.suppress(OSError, httpx.TransportError):
            async with client() as asks:
                readiness = (await asks.get(f"{self.ops_url}/readyz")).json()
                return {each["state"] for each in readiness["workers"]} == {"ready"}
        return False

    def wire(self) -> Wire:
        return Wire(self.url, tls=trust())

    def said(self, name: str) -> list[dict[str, Any]]:
        """Return the events of this name."""
        return [line for line in self.lines() if line["event"] == name]

    async def shown(self, url: str) -> bytes | None:
        async with Wire(url, tls=trust()) as wire:
            return wire.shown

    async def show(self, certificate: bytes) -> bool:
        """Return whether every new connection is shown this certificate; which worker takes one in is chance."""
        return {await self.shown(url) for url in [self.url] * 8 + [self.ops_url]} == {certificate}


def client() -> httpx.AsyncClient:
    return httpx.AsyncClient(verify=trust(), timeout=10, trust_env=False)


@asynccontextmanager
async def gateway(upstream: Upstream, directory: Path) -> AsyncIterator[Gateway]:
    pems = issue(directory)
    async with HttpServer(upstream) as server:
        models = {"m": {"deployments": [{"provider": "p", "model": "up-m"}]}}
        whole = settings({"p": server.base_url}, models, directory, workers=2, shutdown={"delay": "0s", "drain": "20s"})
        whole.update(api={**HERE, "tls": pems.section}, ops={**HERE, "tls": pems.section})
        whole["telemetry"] = {"level": "debug"}
        async with Gateway(whole, directory, pems) as run:
            yield run


async def asked(wire: Wire) -> bytes:
    """Ask for a stream. Return its beginning, up to the first word."""
    await wire.send(post(msgspec.json.encode(ASKED), *AUTHORIZED))
    return await wire.until(b"Hello")


async def test_streams_departures_operations_and_a_rolling_stop(tmp_path: Path) -> None:
    upstream = Upstream()
    async with gateway(upstream, tmp_path) as run:
        async with run.wire() as leaver:
            await asked(leaver)
        async with asyncio.timeout(1.0):
            while not upstream.gone:
                await asyncio.sleep(0.01)
        async with Wire(run.url) as plain:
            await plain.send(request("GET", "/v1/models"))
            with contextlib.suppress(ConnectionResetError):
                assert b"HTTP" not in await plain.rest()

        async with client() as asks:
            listed = await asks.get(f"{run.url}/v1/models", headers=HEADERS)
            page = await asks.get(f"{run.ops_url}/metrics")
            told = [await asks.get(f"{run.ops_url}/admin/config", headers={"origin": o}) for o in (run.ops_url, plain_of(run))]
        assert (listed.status_code, page.status_code) == (200, 200)
        assert [answer.status_code for answer in told] == [200, 403]
        await the_same_by_the_command_line(run, tmp_path)

        async with run.wire() as idle, run.wire() as wire:
            await asked(wire)
            stopping = asyncio.create_task(run.stop())
            await until(lambda: logged(run, "draining"))
            assert await idle.ended()
            upstream.going_on.set()
            assert b"[DONE]" in await wire.rest()
            assert await stopping == 0
        assert not [line for line in run.lines() if line["level"] == "error" or "exception" in line]
    outcomes = sorted(row["outcome"] for row in await rows_of(tmp_path, live=False))
    assert outcomes == ["cancelled", "ok"]


def plain_of(run: Gateway) -> str:
    return run.ops_url.replace("https:", "http:")


async def the_same_by_the_command_line(run: Gateway, directory: Path) -> None:
    """Compare the gateway with its file, on this machine, where the certificate is for other names too."""
    file = msgspec.json.decode(run.path.read_bytes())
    file["ops"]["port"] = run.ops_port
    (directory / "file.yaml").write_bytes(msgspec.json.encode(file))
    words = ["config", "diff", "--config", str(directory / "file.yaml"), "--json"]
    result = await asyncio.to_thread(CliRunner().invoke, tiergate, words, obj={})
    assert [each["path"] for each in msgspec.json.decode(result.stdout)] == ["ops.port"], result.output
    elsewhere = await asyncio.to_thread(CliRunner().invoke, tiergate, [*words, "--url", run.ops_url], obj={})
    assert (elsewhere.exit_code, "CERTIFICATE_VERIFY_FAILED" in elsewhere.output) == (69, True)


async def test_a_renewed_certificate_is_taken_by_all_and_a_bad_one_by_nobody(tmp_path: Path) -> None:
    upstream = Upstream()
    async with gateway(upstream, tmp_path) as run, run.wire() as wire:
        await asked(wire)
        first = run.pems.der
        assert await run.show(first)
        second = issue(tmp_path).der
        await until(lambda: run.show(second))
        assert wire.shown == first

        run.pems.key.write_bytes(issue(tmp_path, "other").key.read_bytes())
        await until(lambda: logged(run, "config_refused"))
        assert {line["problem"] for line in run.said("config_refused")} == {
            f"{run.path}:1: {listener}.tls.key: {run.pems.key} does not fit the certificate of this listener"
            for listener in ("api", "ops")
        }
        killed = run.workers()
        for worker in killed:
            os.kill(worker, signal.SIGKILL)
        await until_gone(killed)
        await until(run.is_ready, within_s=LONGEST_START_S)
        assert await run.show(second)  # who was started anew knows no other either

        third = issue(tmp_path).der
        await until(lambda: run.show(third))


async def test_other_paths_wait_for_a_restart_and_hold_nothing_up(tmp_path: Path) -> None:
    async with gateway(Upstream(), tmp_path) as run:
        first, pems = run.pems.der, issue(tmp_path, "other")
        file = msgspec.json.decode(run.path.read_bytes())
        for listener in ("api", "ops"):
            file[listener]["tls"] = pems.section
        run.path.write_bytes(msgspec.json.encode(file))
        await until(lambda: logged(run, "config_needs_restart"))
        changed = [f"{listener}.tls.{field}" for listener in ("api", "ops") for field in ("cert", "key")]
        assert run.said("config_needs_restart")[-1]["changed"] == changed
        assert await run.show(first)

        renewed = issue(tmp_path).der
        await until(lambda: run.show(renewed))  # what is shown goes on being renewed
        run.pems.key.unlink()
        await until(lambda: logged(run, "certificate_kept"))
        file["models"]["another"] = file["models"]["m"]
        run.path.write_bytes(msgspec.json.encode(file))
        await until(lambda: in_force(run, 3))
        assert await run.show(renewed)


async def in_force(run: Gateway, generation: int) -> bool:
    return bool([line for line in run.said("config_in_force") if line["generation"] >= generation])


async def logged(run: Gateway, name: str) -> bool:
    return bool(run.said(name))
