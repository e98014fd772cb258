"""What cuts an answer short once it is under way: who hears of it, who is at fault, and what counts as whole all the same."""

import asyncio
import socket
from pathlib import Path
from typing import Any

import httpx
import msgspec
import pytest
from msgspec.structs import replace

from gateway.faults import Failed
from gateway.providers.openai import OpenAI
from gateway.providers.openai_stream import OpenAIStream
from gateway.providers.protocol import Answer, Edits, Step
from gateway.watch import Cut
from tests.fakes.http_server import Call, HttpServer
from tests.fakes.openai import JSON, SSE, Models, answers, completion, event
from tests.fakes.wire import post
from tests.integration.access import Access
from tests.running import HEADERS, Running, config, running
from tests.valkey import Valkey

SAID = event({"content": "Hello"})
FINISHED = (SAID, event({}, "stop"))


def one_model(server: HttpServer, **timeouts: str) -> dict[str, Any]:
    deployments = [{"provider": "p", "model": "up-m"}]
    return config({"p": server.base_url}, {"m": {"deployments": deployments, "timeouts": timeouts}})


async def ask(run: Running, **headers: str) -> httpx.Response:
    body = {"model": "m", "messages": [{"role": "user", "content": "hi"}], "stream": True}
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return await run.client.post("/v1/chat/completions", json=body, headers=named)


def says(*events: bytes) -> Any:
    """Make a script that streams these events and then says nothing more, ever."""

    async def act(call: Call) -> None:
        call.head(200, SSE, chunked=True)
        for each in events:
            call.piece(each)
        await call.gone.wait()

    return act


@pytest.mark.parametrize("timer", ["idle", "total"])
async def test_a_finished_answer_whose_end_mark_never_comes_is_whole(timer: str, valkey: Valkey, tmp_path: Path) -> None:
    async with HttpServer(says(*FINISHED)) as server, running(one_model(server, **{timer: "200ms"}), valkey, tmp_path) as run:
        access = Access(run)
        answer = await ask(run)
        assert answer.text.endswith('"finish_reason":"stop"}]}\n\ndata: [DONE]\n\n')
        line = await access.only()
        assert (line["outcome"], line["status"], line["error_code"]) == ("ok", 200, None)
        assert [attempt["outcome"] for attempt in line["attempts"]] == ["ok"]
        assert line["bytes_sent"] == len(answer.content)


async def test_a_finished_answer_is_whole_in_a_drain_too(valkey: Valkey, tmp_path: Path) -> None:
    async with HttpServer(says(*FINISHED)) as server, running(one_model(server), valkey, tmp_path) as run:
        access = Access(run)
        async with run.client.stream(
            "POST", "/v1/chat/completions", json={"model": "m", "messages": [{"role": "user", "content": "hi"}], "stream": True}
        ) as answer:
            pieces = answer.aiter_bytes()
            text = b""
            while b'"stop"' not in text:
                text += await anext(pieces)
            run.gateway._sweep.cut_all(Cut.DRAIN)
            text += b"".join([piece async for piece in pieces])
        assert text.endswith(b"data: [DONE]\n\n")
        assert (await access.only())["outcome"] == "ok"


@pytest.mark.parametrize(
    ("timers", "headers", "outcome", "attempt"),
    [
        ({"idle": "200ms"}, {}, "interrupted", "timeout"),
        ({"total": "200ms"}, {}, "timeout", "timeout"),
        ({}, {"x_request_timeout": "0.2"}, "timeout", "ok"),
    ],
    ids=["idle", "total", "the client's own deadline"],
)
async def test_the_provider_is_at_fault_only_for_its_own_timers(
    timers: dict[str, str], headers: dict[str, str], outcome: str, attempt: str, valkey: Valkey, tmp_path: Path
) -> None:
    async with HttpServer(says(SAID)) as server, running(one_model(server, **timers), valkey, tmp_path) as run:
        access = Access(run)
        answer = await ask(run, **headers)
        last = answer.text.strip().rpartition("data: ")[2]
        assert msgspec.json.decode(last)["error"]["code"] == "upstream_timeout"
        line = await access.only()
        assert (line["outcome"], line["attempts"][0]["outcome"]) == (outcome, attempt)


LARGE = completion(choices=[{"index": 0, "message": {"role": "assistant", "content": "x" * 16_000_000}, "finish_reason": "stop"}])


async def large(call: Call) -> None:
    call.reply(200, LARGE, JSON)


async def test_a_complete_answer_that_nobody_reads_is_not_delivered(valkey: Valkey, tmp_path: Path) -> None:
    async with HttpServer(large) as server, running(one_model(server, client_stall="300ms"), valkey, tmp_path) as run:
        access = Access(run)
        with socket.create_connection(("127.0.0.1", httpx.URL(run.url).port or 0)) as client:
            client.sendall(post(b'{"model":"m","messages":[{"role":"user","content":"hi"}]}', *HEADERS.items()))
            await server.until(lambda: bool(server.requests))
            line = await access.only()
        assert line["outcome"] == "cancelled"
        assert line["bytes_sent"] < len(LARGE)


async def test_a_complete_answer_that_is_read_slowly_arrives_whole(valkey: Valkey, tmp_path: Path) -> None:
    async with HttpServer(large) as server, running(one_model(server, client_stall="300ms"), valkey, tmp_path) as run:
        access = Access(run)
        body = {"model": "m", "messages": [{"role": "user", "content": "hi"}]}
        length = 0
        async with run.client.stream("POST", "/v1/chat/completions", json=body) as answer:
            async for piece in answer.aiter_bytes(1_000_000):
                length += len(piece)
                await asyncio.sleep(0.04)  # all of it takes twice as long as the client may stall
        line = await access.only()
        assert (line["outcome"], line["bytes_sent"]) == ("ok", length)


async def taken_on(run: Running, server: HttpServer, *, requests: int = 1) -> None:
    """Wait until the provider has begun to answer this many requests, the last of which is under way."""
    await server.until(lambda: len(server.requests) == requests)
    [kept] = run.gateway._leases._kept.values()
    holder = kept.source.__self__.holder  # type: ignore[attr-defined]  # it is a bound method
    async with asyncio.timeout(5.0):
        while not holder.accepted:
            await asyncio.sleep(0.002)


class Faulty(OpenAI):
    """A dialect with a fault of ours in it: its streams break at the second piece, its answers at once."""

    def answer(self, body: bytes, edits: Edits) -> Answer | Failed:
        raise RuntimeError("a fault of ours")

    def reader(self, edits: Edits) -> OpenAIStream:
        return FaultyStream(edits)


class FaultyStream(OpenAIStream):
    def feed(self, piece: bytes) -> Step:
        if self.output_bytes:
            raise RuntimeError("a fault of ours")
        return super().feed(piece)


def spoil(run: Running, model: str = "m") -> None:
    """Put the faulty dialect in the place of a model's provider's."""
    snapshot = run.gateway._corridor.snapshot
    provider = snapshot.catalogue.models[model].deployments[0].provider
    dialects = {**snapshot.dialects, provider.name: Faulty(provider)}
    run.gateway._corridor.snapshot = replace(snapshot, dialects=dialects)


async def test_a_stream_that_breaks_by_our_own_fault_is_not_the_clients_doing(valkey: Valkey, tmp_path: Path) -> None:
    go_on = asyncio.Event()

    async def act(call: Call) -> None:
        call.head(200, SSE, chunked=True)
        call.piece(SAID)
        await go_on.wait()
        call.piece(SAID)

    async with HttpServer(act) as server, running(one_model(server), valkey, tmp_path) as run:
        access = Access(run)
        spoil(run)
        body = {"model": "m", "messages": [{"role": "user", "content": "hi"}], "stream": True}
        async with run.client.stream("POST", "/v1/chat/completions", json=body) as answer:
            pieces = [await anext(found := answer.aiter_bytes())]
            go_on.set()
            pieces += [piece async for piece in found]
        last = b"".join(pieces).strip().rpartition(b"data: ")[2]
        assert msgspec.json.decode(last)["error"]["code"] == "internal_error"
        line = await access.only()
        assert (line["outcome"], line["error_code"]) == ("interrupted", "internal_error")


async def test_an_answer_that_breaks_by_our_own_fault_costs_nothing(valkey: Valkey, tmp_path: Path) -> None:
    async with HttpServer(answers()) as server, running(one_model(server), valkey, tmp_path) as run:
        access = Access(run)
        spoil(run)
        answer = await run.chat()
        assert (answer.status_code, answer.json()["error"]["code"]) == (500, "internal_error")
        line = await access.only()
        assert (line["opened"], line["outcome"], line["status"], line["error_code"]) == (
            True,
            "interrupted",
            500,
            "internal_error",
        )
        assert (line["input_tokens"], line["estimated"]) == (0, False)


async def half(call: Call) -> None:
    call.head(200, JSON, length=100)
    await call.gone.wait()


@pytest.mark.parametrize(
    ("headers", "status", "code", "outcome"),
    [({"x-request-timeout": "0.3"}, 504, "upstream_timeout", "timeout"), ({}, 503, "draining", "interrupted")],
    ids=["deadline", "drain"],
)
async def test_a_request_that_is_cut_before_its_answer_costs_nothing(
    headers: dict[str, str], status: int, code: str, outcome: str, valkey: Valkey, tmp_path: Path
) -> None:
    async with HttpServer(half) as server, running(one_model(server), valkey, tmp_path) as run:
        access = Access(run)
        body = {"model": "m", "messages": [{"role": "user", "content": "hi"}]}
        asking = asyncio.create_task(run.client.post("/v1/chat/completions", json=body, headers=headers))
        await taken_on(run, server)
        if not headers:
            run.gateway._sweep.cut_all(Cut.DRAIN)
        answer = await asking
        assert (answer.status_code, answer.json()["error"]["code"]) == (status, code)
        line = await access.only()
        assert (line["outcome"], line["input_tokens"], line["estimated"]) == (outcome, 0, False)


async def test_a_heartbeat_posts_nothing_of_an_attempt_that_may_yet_fail(valkey: Valkey, tmp_path: Path) -> None:
    go_on = asyncio.Event()

    async def breaks(call: Call) -> None:
        call.head(200, SSE, chunked=True)
        call.piece(event({"role": "assistant", "content": ""}))
        await go_on.wait()
        call.reset()

    models = Models()
    async with HttpServer(models) as server:
        settings = {**one_model(server), "plans": {"all": {"models": ["*"], "limits": {"tpm": 40_000}}}}
        async with running(settings, valkey, tmp_path) as run:
            before = await run.chat(max_tokens=1)
            models.acts["m"] = breaks
            asking = asyncio.create_task(
                run.chat(max_tokens=1, stream=True, messages=[{"role": "user", "content": "word " * 8000}])
            )
            await taken_on(run, server, requests=2)
            await run.gateway._leases.beat()
            go_on.set()
            assert (await asking).status_code == 502
            await run.settled()
            models.forget()
            after = await run.chat(max_tokens=1)
        tokens = [int(answer.headers["x-ratelimit-remaining-tokens"]) for answer in (before, after)]
        assert tokens[0] - tokens[1] < 100
