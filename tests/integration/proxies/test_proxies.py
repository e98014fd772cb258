"""A gateway behind the proxies it comes with configurations for: what passes, what is refused there, what is tried elsewhere."""

import asyncio
import os
import re
import signal
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx
import msgspec
import pytest
import pytest_asyncio
import yaml

from gateway.config.structs.serving import Api, Bounds, Shutdown
from gateway.policy.deadlines import LONGEST_S
from tests.fakes.http_server import Call, HttpServer
from tests.fakes.openai import DONE, SSE, Models, event, silence
from tests.fakes.wire import Answer, Wire, post
from tests.field.leaving import Leaving, chat
from tests.integration.edge.bad import AUTH, TYPE
from tests.integration.processes.conditions import until, until_gone
from tests.integration.proxies.proxy import DEPLOY, PROXIES, Place, Proxy
from tests.running import HEADERS
from tests.valkey import Valkey

pytestmark = pytest.mark.asyncio(loop_scope="module")

LIMIT = 10 << 20
NOBODY_THERE = {"haproxy": 503, "nginx": 502, "envoy": 503}


class Front:
    """A proxy in front of one gateway, a gateway that is not there, and the upstream behind them."""

    def __init__(self, proxy: Proxy, gateway: Leaving, server: HttpServer, models: Models) -> None:
        self.proxy = proxy
        self.gateway = gateway
        self.server = server
        self.models = models

    async def says(self, *fields: tuple[str, str], **body: Any) -> Answer:
        """Ask through the proxy, on a connection of its own."""
        async with Wire(self.proxy.url) as wire:
            await wire.send(asked(*fields, **body))
            return await wire.answer()


def asked(*fields: tuple[str, str], **body: Any) -> bytes:
    return post(msgspec.json.encode(chat(**body)), AUTH, TYPE, *fields)


def nowhere() -> Place:
    """Return where nobody listens."""
    with socket.create_server(("127.0.0.1", 0)) as one, socket.create_server(("127.0.0.1", 0)) as other:
        return Place(one.getsockname()[1], other.getsockname()[1])


@asynccontextmanager
async def served(valkey: Valkey, directory: Path) -> AsyncIterator[tuple[Leaving, HttpServer, Models]]:
    models = Models()
    async with HttpServer(models) as server, Leaving(server, valkey, directory) as gateway:
        yield gateway, server, models


@asynccontextmanager
async def fronted(name: str, gateway: Leaving, directory: Path) -> AsyncIterator[Proxy]:
    ops = int(gateway.ops.rpartition(":")[2])
    async with Proxy(PROXIES[name], [nowhere(), Place(gateway.port, ops)], directory) as proxy, httpx.AsyncClient() as client:

        async def passes() -> bool:
            return (await client.get(f"{proxy.url}/health")).status_code == 200

        await until(passes)
        yield proxy


@pytest_asyncio.fixture(scope="module", loop_scope="module", params=PROXIES)
async def shared(request: Any, valkey_server: Valkey, tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Front]:
    directory = tmp_path_factory.mktemp(request.param)
    async with served(valkey_server, directory) as (gateway, server, models), fronted(request.param, gateway, directory) as proxy:
        yield Front(proxy, gateway, server, models)


@pytest_asyncio.fixture(loop_scope="module")
async def front(shared: Front) -> AsyncIterator[Front]:
    yield shared
    shared.models.forget()


async def test_a_gateway_that_is_not_there_costs_no_request(front: Front) -> None:
    assert [(await front.says()).status for _ in range(20)] == [200] * 20
    assert len(front.models.asked) == 20


async def test_events_pass_one_by_one(front: Front) -> None:
    words, more = ["One", " two", " three"], asyncio.Event()

    async def act(call: Call) -> None:
        call.head(200, SSE, chunked=True)
        for word in words:
            call.piece(event({"content": word}))
            await more.wait()
            more.clear()
        call.piece(event({}, "stop") + DONE)
        call.end()

    front.models.acts["m"] = act
    url, headers = f"{front.proxy.url}/v1/chat/completions", {**HEADERS, "accept-encoding": "gzip"}
    async with (
        httpx.AsyncClient(timeout=10) as client,
        client.stream("POST", url, json=chat(stream=True), headers=headers) as answer,
    ):
        assert "content-encoding" not in answer.headers
        text, pieces = "", answer.aiter_text()
        for word in words:
            while f'"{word}"' not in text:
                text += await anext(pieces)
            more.set()
        text += "".join([piece async for piece in pieces])
    assert text.endswith("data: [DONE]\n\n")


@pytest.mark.parametrize("stream", [False, True])
async def test_who_leaves_is_noticed_behind_it(stream: bool, front: Front) -> None:
    gone = asyncio.Event()

    async def act(call: Call) -> None:
        if stream:
            call.head(200, SSE, chunked=True)
            call.piece(event({"content": "Hello"}))
        begun.set()
        await silence(call)
        gone.set()

    front.models.acts["m"], begun = act, asyncio.Event()
    async with Wire(front.proxy.url) as wire:
        await wire.send(asked(stream=stream))
        await begun.wait()
    async with asyncio.timeout(5):
        await gone.wait()


async def test_what_two_servers_may_read_differently_does_not_pass(front: Front) -> None:
    both = post(b"0\r\n\r\n", AUTH, TYPE, ("transfer-encoding", "chunked"), ("content-length", "5"), framed=False)
    async with Wire(front.proxy.url) as wire:
        await wire.send(both)
        # HAProxy goes by the chunks, as RFC 9112 has it, and the gateway hears of no body; nginx refuses.
        assert (await wire.answer()).status == 400
    assert front.models.asked == []


async def test_names_with_underscores_are_left_out(front: Front) -> None:
    assert (await front.says(("content_length", "1"), ("x_api_key", "sk-other"))).status == 200


async def test_a_head_that_is_too_large_does_not_pass(front: Front) -> None:
    async with Wire(front.proxy.url) as wire:
        await wire.send(asked(("x-large", "y" * 60_000)))
        head = await wire.rest()
    assert re.match(rb"HTTP/1\.[01] (400|431) ", head)
    assert front.models.asked == []


async def test_a_body_that_is_too_large_is_refused_in_the_shape_of_every_error(front: Front) -> None:
    assert Bounds().body_bytes == LIMIT
    async with Wire(front.proxy.url) as wire:
        await wire.send(post(b"", AUTH, TYPE, ("content-length", str(LIMIT + 1)), framed=False))
        answer = await wire.answer()
    assert (answer.status, answer.json()["error"]["code"]) == (413, "request_too_large")
    large = await front.says(user="x" * 2_000_000)
    assert large.status == 200


async def test_an_error_of_the_gateway_passes_as_it_is(front: Front) -> None:
    async with Wire(front.proxy.url) as wire:
        await wire.send(post(b"{", AUTH, TYPE))
        answer = await wire.answer()
    assert (answer.status, answer.json()["error"]["code"]) == (400, "invalid_json")
    assert len(answer.headers["x-request-id"]) == 36


@pytest.mark.parametrize("name", PROXIES)
async def test_what_was_sent_is_sent_to_nobody_else_and_a_gateway_that_ends_is_left(
    name: str, valkey_server: Valkey, tmp_path: Path
) -> None:
    async with served(valkey_server, tmp_path) as (gateway, server, models), fronted(name, gateway, tmp_path) as proxy:
        models.acts["m"] = silence
        async with Wire(proxy.url) as wire:
            await wire.send(asked())
            await server.until(lambda: bool(server.requests))
            [worker] = gateway.workers()
            os.kill(worker, signal.SIGKILL)
            async with asyncio.timeout(20):  # who is asked again is silent again
                answer = await wire.answer()
            assert answer.status in (502, 503)
            assert set(answer.json()["error"]) == {"message", "type", "param", "code"}
        assert models.asked == ["m"]
        members = gateway.members()
        gateway.kill()
        await until_gone(members)
        async with Wire(proxy.url) as wire:
            await wire.send(asked())
            answer = await wire.answer()
        assert answer.status == NOBODY_THERE[name]
        assert (answer.json()["error"]["code"], answer.headers["retry-after"]) == ("unavailable", "1")
        assert models.asked == ["m"]


def seconds(text: str, name: str) -> float:
    """Return the one figure of this name in a configuration."""
    [(figure, unit)] = set(re.findall(rf"^\s*(?:.* )?{name}[ ]+(\d+)(ms|s|m)\b", text, flags=re.MULTILINE))
    return int(figure) * {"ms": 0.001, "s": 1.0, "m": 60.0}[unit]


async def test_the_figures_fit_those_of_the_gateway() -> None:
    nginx = (DEPLOY / "nginx" / "nginx.conf").read_text()
    haproxy = (DEPLOY / "haproxy" / "haproxy.cfg").read_text()
    for longest_s in (
        seconds(nginx, "proxy_read_timeout"),
        seconds(haproxy, "timeout server"),
        seconds(haproxy, "timeout client"),
    ):
        assert longest_s > LONGEST_S
    for idle_s in (seconds(nginx[nginx.index("upstream") :].partition("server {")[0], "keepalive_timeout"), 30.0):
        assert idle_s < Api().keep_alive_s
    assert seconds(haproxy, "pool-purge-delay") < Api().keep_alive_s
    unnoticed_s = seconds(haproxy, "inter") + 2 * seconds(haproxy, "timeout check") + seconds(haproxy, "fastinter")
    assert unnoticed_s < Shutdown().delay_s


async def test_envoys_figures_fit_too() -> None:
    text = (DEPLOY / "envoy" / "envoy.yaml").read_text()

    def figure(path: str) -> float:
        found: Any = yaml.safe_load(text)["static_resources"]
        for part in path.split("."):
            found = found[int(part)] if part.isdigit() else found[part]
        return float(str(found).removesuffix("s"))

    connections = "listeners.0.filter_chains.0.filters.0.typed_config"
    assert figure(f"{connections}.stream_idle_timeout") > LONGEST_S
    assert figure(f"{connections}.route_config.virtual_hosts.0.routes.1.route.idle_timeout") > LONGEST_S
    assert figure(f"{connections}.route_config.virtual_hosts.0.routes.1.route.timeout") == 0
    assert figure(f"{connections}.request_timeout") > Api().receipt_s
    assert figure(f"{connections}.max_request_headers_kb") * 1024 == Bounds().header_bytes
    [too_large] = re.findall(r"range_match: \{start: (\d+)", text)
    assert int(too_large) == Bounds().body_bytes + 1
    assert figure("clusters.0.connect_timeout") < 5
    [idle_s] = re.findall(r"common_http_protocol_options: \{idle_timeout: (\d+)s\}", text)
    assert int(idle_s) < Api().keep_alive_s
    assert figure("clusters.0.common_lb_config.healthy_panic_threshold.value") == 0
    check = "clusters.0.health_checks.0"
    unnoticed_s = figure(f"{check}.interval") + figure(f"{check}.unhealthy_interval") + 2 * figure(f"{check}.timeout")
    assert unnoticed_s < Shutdown().delay_s
