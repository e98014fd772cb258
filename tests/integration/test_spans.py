"""The spans of requests, as a collector gets them over OTLP: which trace, below what, from when to when, and at whose expense."""

import asyncio
import os
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx
import msgspec
import pytest

from gateway.policy.record import Record
from gateway.policy.spans import Span
from gateway.tasks import Owned
from gateway.telemetry.health import LedgerHealth
from gateway.telemetry.spans import MISSING, Spans
from gateway.wire.traceparent import Parent
from tests.fakes.collector import Collector, Told
from tests.fakes.http_server import BlackHole, Call, Script
from tests.fakes.openai import DONE, SSE, Models, event, refuses
from tests.integration.access import Access
from tests.integration.scene import Scene, scene
from tests.running import HEADERS, Running, config
from tests.valkey import Valkey

TRACE, CALLER = "0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331"
PARENT = f"00-{TRACE}-{CALLER}-01"
ASKED = "what nobody but the model may know"
SAID = "the answer that nobody but the client may have"


@pytest.fixture(autouse=True)
def promptly(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gateway.telemetry.spans.PAUSE_S", 0.02)


@asynccontextmanager
async def traced(
    valkey: Valkey, directory: Path, models: Models, *, endpoint: str = "", propagate: tuple[str, ...] = (), **model: Any
) -> AsyncIterator[Scene]:
    """Run a gateway whose model `m` is at the provider `a` and else at `b`, with this collector."""
    deployments = [{"provider": "a", "model": "up-first"}, {"provider": "b", "model": "up-second", "order": 2}]
    settings = config(
        {"a": "{upstream}", "b": "{upstream}"},
        {"m": {"deployments": deployments, "price": {"input": 1, "output": 2}, **model}},
        telemetry={"level": "error", "otlp_endpoint": endpoint, "propagate": list(propagate)},
    )
    async with scene(models, settings, valkey, directory) as found:
        yield found


def body(**fields: Any) -> dict[str, Any]:
    return {"model": "m", "messages": [{"role": "user", "content": ASKED}], **fields}


async def metric(run: Running, name: str) -> float:
    found = (await run.gateway._exposition.render()).decode().splitlines()
    return next(float(line.split(" ")[1]) for line in found if line.startswith(f"{name} "))


def held(go_on: asyncio.Event) -> Script:
    """Make a script that says something, and the rest when it may."""

    async def act(call: Call) -> None:
        call.head(200, SSE, chunked=True)
        call.piece(event({"role": "assistant", "content": SAID}))
        await go_on.wait()
        call.piece(event({}, "stop", usage={"prompt_tokens": 10, "completion_tokens": 20, "total_tokens": 30}))
        call.piece(DONE)
        call.end()

    return act


def check_tree(request: Told, first: Told, second: Told) -> None:
    """Hold the spans of a request that the second provider served to their places in the client's trace."""
    spans = (request, first, second)
    assert {each.trace_id for each in spans} == {TRACE}
    assert [each.parent_id for each in spans] == [CALLER, request.span_id, request.span_id]
    assert len({CALLER, *(each.span_id for each in spans)}) == 4
    assert [each.kind for each in spans] == ["server", "client", "client"]
    assert [each.name for each in spans] == ["chat m", "chat up-first", "chat up-second"]
    assert [each.status for each in spans] == ["unset", "error", "unset"]


async def test_a_request_of_two_attempts_is_one_trace_that_ends_with_the_stream(valkey: Valkey, tmp_path: Path) -> None:
    models, go_on = Models(), asyncio.Event()
    models.acts = {"first": refuses(500), "second": held(go_on)}
    async with Collector() as collector:
        async with traced(valkey, tmp_path, models, endpoint=collector.url, propagate=("b",)) as found:
            access = Access(found.run)
            headers = {"traceparent": PARENT, "x-request-id": "theirs"}
            began_ns = time.time_ns()
            async with found.run.client.stream("POST", "/v1/chat/completions", json=body(stream=True), headers=headers) as answer:
                pieces = answer.aiter_bytes()
                text = await anext(pieces)
                await asyncio.sleep(0.1)
                assert collector.spans == []  # the head and the first content are out, the request is not over
                released_ns = time.time_ns()
                go_on.set()
                text += b"".join([piece async for piece in pieces])
            assert text.endswith(DONE)
            request, first, second = await collector.heard(3)
            line = await access.only()

        assert line["trace_id"] == TRACE
        assert answer.headers["traceparent"] == f"00-{TRACE}-{request.span_id}-01"
        check_tree(request, first, second)

        near_ns = 5_000_000  # the wall clock is read in whole milliseconds
        assert began_ns - near_ns <= request.start_ns <= first.start_ns <= first.end_ns <= second.start_ns + near_ns
        assert second.start_ns < released_ns <= second.end_ns + near_ns
        assert second.end_ns == request.end_ns

        # The upstream that may hear of it hangs below the call that reached it; the other one hears nothing.
        told = {msgspec.json.decode(each.body)["model"]: each.header("traceparent") for each in found.server.requests}
        assert told == {"up-first": None, "up-second": f"00-{TRACE}-{second.span_id}-01"}


async def test_what_the_spans_say(valkey: Valkey, tmp_path: Path) -> None:
    models, go_on = Models(), asyncio.Event()
    go_on.set()
    models.acts = {"first": refuses(500), "second": held(go_on)}
    async with Collector() as collector, traced(valkey, tmp_path, models, endpoint=collector.url) as found:
        answer = await found.run.client.post("/v1/chat/completions", json=body(stream=True, service_tier="flex"))
        request, first, second = await collector.heard(3)
        port = found.server.port
    shown = {
        "http.request.method": "POST",
        "http.route": "/v1/chat/completions",
        "http.response.status_code": 200,
        "gen_ai.operation.name": "chat",
        "gen_ai.provider.name": "b",
        "gen_ai.request.model": "m",
        "gen_ai.request.stream": True,
        "gen_ai.response.model": "m",
        "gen_ai.usage.input_tokens": 10,
        "gen_ai.usage.output_tokens": 20,
        "tiergate.request_id": answer.headers["x-request-id"],
        "tiergate.org": "acme",
        "tiergate.key_id": "test",
        "tiergate.tier.requested": "flex",
        "tiergate.tier.served": "flex",
        "tiergate.outcome": "ok",
        "tiergate.attempts": 2,
    }
    assert request.attributes.items() >= shown.items()
    assert "error.type" not in request.attributes
    assert request.attributes["tiergate.cost_usd"] == pytest.approx((10 + 2 * 20) * 0.8 / 1_000_000)
    assert request.parent_id == ""
    fallback, content = request.events
    assert (fallback[0], content[0]) == ("tiergate.fallback", "tiergate.first_content")
    assert fallback[1] == second.start_ns
    assert second.start_ns < content[1] <= second.end_ns
    assert fallback[2] == {
        "tiergate.from.model": "m",
        "tiergate.from.provider": "a",
        "tiergate.to.model": "m",
        "tiergate.to.provider": "b",
        "tiergate.reason": "server",
    }
    where = {"server.address": "127.0.0.1", "server.port": port, "gen_ai.operation.name": "chat"}
    assert first.attributes.items() >= {**where, "gen_ai.provider.name": "a", "gen_ai.request.model": "up-first"}.items()
    assert (first.attributes["error.type"], first.attributes["http.response.status_code"]) == ("server", 500)
    assert "gen_ai.usage.input_tokens" not in first.attributes
    assert second.attributes.items() >= {**where, "gen_ai.provider.name": "b", "gen_ai.usage.output_tokens": 20}.items()
    assert request.resource["service.name"] == "tiergate"
    sent = b"".join(collector.bodies)
    for secret in (ASKED, SAID, "sk-up-", HEADERS["authorization"].removeprefix("Bearer ")):
        assert secret.encode() not in sent


async def test_a_client_that_leaves_has_a_whole_trace(valkey: Valkey, tmp_path: Path) -> None:
    models = Models()
    models.acts = {"first": held(asyncio.Event())}
    async with Collector() as collector, traced(valkey, tmp_path, models, endpoint=collector.url) as found:
        async with found.run.client.stream("POST", "/v1/chat/completions", json=body(stream=True)) as answer:
            await anext(answer.aiter_bytes())
        request, call = await collector.heard(2)
    assert (request.attributes["tiergate.outcome"], request.attributes["error.type"]) == ("cancelled", "cancelled")
    assert (request.status, call.status) == ("unset", "unset")
    assert call.parent_id == request.span_id
    assert call.end_ns == request.end_ns


async def test_a_client_that_leaves_before_there_is_an_answer_has_one_too(valkey: Valkey, tmp_path: Path) -> None:
    async def silence(call: Call) -> None:
        await call.gone.wait()

    models = Models()
    models.acts = {"first": silence}
    async with Collector() as collector, traced(valkey, tmp_path, models, endpoint=collector.url) as found:
        asking = asyncio.create_task(found.run.client.post("/v1/chat/completions", json=body()))
        await found.server.until(lambda: bool(found.server.requests))
        asking.cancel()
        request, call = await collector.heard(2)
    assert request.attributes["error.type"] == "client_closed"
    assert (call.attributes["error.type"], call.status) == ("cancelled", "unset")
    assert "gen_ai.response.model" not in request.attributes


async def test_a_wait_for_a_busy_model_is_an_event(valkey: Valkey, tmp_path: Path) -> None:
    models = Models()
    settings = config(
        {"a": "{upstream}"},
        {"m": {"deployments": [{"provider": "a", "model": "up-m", "max_concurrency": 1}]}},
    )
    async with Collector() as collector:
        settings["telemetry"] = {"level": "error", "otlp_endpoint": collector.url}
        async with scene(models, settings, valkey, tmp_path) as found:
            async with found.filled("m"):
                asking = asyncio.create_task(found.ask(model="m"))
                await found.run.waiting(1)
            assert (await asking).status_code == 200
            spans = await collector.heard(4)
    [request] = [each for each in spans if each.kind == "server" and each.attributes["tiergate.org"] == "acme"]
    [call] = [each for each in spans if each.parent_id == request.span_id]
    [(name, moment_ns, told)] = request.events
    assert name == "tiergate.queue"
    assert request.start_ns <= moment_ns <= call.start_ns
    assert told["tiergate.queue.wait_ms"] == request.attributes["tiergate.queue.wait_ms"]


@pytest.mark.parametrize("value", ["nonsense", f"00-{TRACE}-{CALLER}-01-more", f"00-{'0' * 32}-{CALLER}-01", "x" * 8000])
async def test_a_malformed_parent_is_none(value: str, valkey: Valkey, tmp_path: Path) -> None:
    async with Collector() as collector, traced(valkey, tmp_path, Models(), endpoint=collector.url) as found:
        answer = await found.run.client.post("/v1/chat/completions", json=body(), headers={"traceparent": value})
        assert answer.status_code == 200
        request, call = await collector.heard(2)
    assert request.parent_id == ""
    assert request.trace_id == call.trace_id != TRACE


async def test_who_is_refused_has_a_span_as_well(valkey: Valkey, tmp_path: Path) -> None:
    async with Collector() as collector, traced(valkey, tmp_path, Models(), endpoint=collector.url) as found:
        stranger = {"authorization": "Bearer sk-nobody-knows-this-one", "traceparent": PARENT}
        answer = await found.run.client.post("/v1/chat/completions", json=body(), headers=stranger)
        assert answer.status_code == 401
        [request] = await collector.heard(1)
    assert answer.headers["traceparent"] == f"00-{TRACE}-{request.span_id}-01"
    assert (request.name, request.trace_id, request.parent_id) == ("chat", TRACE, CALLER)
    assert (request.attributes["http.response.status_code"], request.attributes["error.type"]) == (401, "invalid_api_key")
    assert request.status == "unset"


@pytest.mark.parametrize(
    ("headers", "sampler"),
    [({"traceparent": f"00-{TRACE}-{CALLER}-00"}, None), ({}, "always_off"), ({"traceparent": PARENT}, "always_off")],
    ids=["the caller keeps no spans", "the sampler keeps none", "the sampler keeps none whatever the caller does"],
)
async def test_a_trace_that_is_not_kept_goes_on_all_the_same(
    headers: dict[str, str], sampler: str | None, valkey: Valkey, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if sampler is not None:
        monkeypatch.setenv("OTEL_TRACES_SAMPLER", sampler)
    async with Collector() as collector:
        async with traced(valkey, tmp_path, Models(), endpoint=collector.url, propagate=("a",)) as found:
            access = Access(found.run)
            await found.run.client.post("/v1/chat/completions", json=body(), headers=headers)
            line = await access.only()
            [asked] = found.server.requests
        assert collector.asked == 0  # whatever was there has been flushed by now
    version, trace_id, span_id, flags = str(asked.header("traceparent")).split("-")
    assert (version, trace_id, flags) == ("00", line["trace_id"], "00")
    assert span_id != CALLER
    assert not headers or trace_id == TRACE


async def test_without_a_collector_the_clients_own_trace_goes_on(valkey: Valkey, tmp_path: Path) -> None:
    async with traced(valkey, tmp_path, Models(), propagate=("a",)) as found:
        access = Access(found.run)
        answer = await found.run.client.post("/v1/chat/completions", json=body(), headers={"traceparent": PARENT})
        assert "traceparent" not in answer.headers  # there is no span that it could name but the client's
        assert (await access.only())["trace_id"] == TRACE
        assert [each.header("traceparent") for each in found.server.requests] == [PARENT]
        found.server.requests.clear()
        await found.run.client.post("/v1/chat/completions", json=body())
        assert [each.header("traceparent") for each in found.server.requests] == [None]


async def ask_many(run: Running, count: int) -> list[httpx.Response]:
    return await asyncio.gather(*(run.client.post("/v1/chat/completions", json=body()) for _ in range(count)))


async def test_a_collector_that_never_answers_holds_nobody_up(
    valkey: Valkey, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("gateway.telemetry.spans.MOST_PENDING", 8)
    monkeypatch.setattr("gateway.telemetry.spans.LEAVING_S", 0.1)
    async with Collector() as collector:
        collector.silent = True
        async with traced(valkey, tmp_path, Models(), endpoint=collector.url) as found:
            run = found.run
            assert (await ask_many(run, 1))[0].status_code == 200
            async with asyncio.timeout(5.0):
                while not collector.asked:
                    await asyncio.sleep(0.01)
            answers = await ask_many(run, 20)
            assert [answer.status_code for answer in answers] == [200] * 20
            await run.settled()
            # One batch is at the collector and stays there; eight requests wait for their turn, and the rest found no room.
            assert collector.asked == 1
            assert await metric(run, "tiergate_spans_dropped_total") == (20 - 8) * 2
            assert await metric(run, "tiergate_spans_exported_total") == 0
            started_s = time.monotonic()
        assert time.monotonic() - started_s < 8.0  # leaving did not wait for it either


@pytest.mark.parametrize("how", ["refuses", "is not there"])
async def test_what_a_collector_does_not_take_is_counted(how: str, valkey: Valkey, tmp_path: Path) -> None:
    async with Collector() as collector, BlackHole() as hole:
        collector.refusing = True
        endpoint = collector.url if how == "refuses" else hole.base_url
        async with traced(valkey, tmp_path, Models(), endpoint=endpoint) as found:
            assert (await ask_many(found.run, 3))[0].status_code == 200
            if how == "refuses":
                async with asyncio.timeout(5.0):
                    while await metric(found.run, "tiergate_spans_dropped_total") < 6:
                        await asyncio.sleep(0.02)
        health = found.run.gateway._health
        assert (health.spans_dropped_count, health.spans_exported_count) == (6, 0)


async def test_what_is_left_goes_out_when_a_worker_leaves(
    valkey: Valkey, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("gateway.telemetry.spans.PAUSE_S", 600.0)
    async with Collector() as collector:
        async with traced(valkey, tmp_path, Models(), endpoint=f"{collector.url}/v1/traces") as found:
            await ask_many(found.run, 3)
            assert collector.asked == 0
        assert (collector.asked, len(collector.spans)) == (1, 6)
        assert found.run.gateway._health.spans_exported_count == 6


class Faulty:
    """An exporter with a fault of ours in it, which shows once."""

    def __init__(self) -> None:
        self.exported = 0

    def span(self, parent: Parent | None) -> Span:
        return Span(trace_id=1, span_id=2, sampled=True)

    def export(self, records: Sequence[Record]) -> bool:
        self.exported += 1
        if self.exported == 1:
            raise RuntimeError("a fault of ours")
        return True

    def shutdown(self) -> None:
        pass


async def test_a_fault_of_ours_costs_its_own_batch_alone() -> None:
    exporter, health, owned = Faulty(), LedgerHealth(), Owned()
    spans = Spans(exporter, health)
    spans.start(owned)
    for ended in (1, 2):
        spans.add(Record(request_id="r", route="/v1/chat/completions", started_s=1.0, started_unix_ms=1, span=spans.begin({})))
        async with asyncio.timeout(5.0):
            while health.spans_dropped_count + health.spans_exported_count < ended:
                await asyncio.sleep(0.005)
    await spans.stop()
    assert (health.spans_dropped_count, health.spans_exported_count, len(owned)) == (1, 1, 0)


WITHOUT = "import sys; sys.modules['opentelemetry'] = None; from gateway.__main__ import main; main()"
LOADED = (
    "import sys, gateway.app; print(*(name for name in sys.modules if name.startswith(('opentelemetry.exporter', 'google.'))))"
)


def python(code: str, *arguments: str, **environ: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", code, *arguments],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, **environ},
        timeout=30,
    )


def test_a_gateway_that_lacks_the_extra_says_so_in_one_line(tmp_path: Path) -> None:
    settings = config({"a": "http://127.0.0.1:9"}, {"m": {"deployments": [{"provider": "a", "model": "m"}]}})
    path = tmp_path / "gateway.yaml"
    path.write_bytes(
        msgspec.json.encode(
            {**settings, "state_dir": str(tmp_path), "telemetry": {"otlp_endpoint": "${COLLECTOR:-}", "level": "error"}}
        )
    )
    found = python(WITHOUT, "serve", "--config", str(path), "--port", "0", "--ops-port", "0", COLLECTOR="http://127.0.0.1:4318")
    assert (found.returncode, found.stderr.splitlines()[-1]) == (69, MISSING)


def test_without_a_collector_nothing_of_it_is_loaded() -> None:
    found = python(LOADED)
    assert (found.returncode, found.stdout.strip()) == (0, "")
