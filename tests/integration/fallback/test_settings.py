"""What the operator sets about the walk: which ends lead on, the server's own list, bounds of attempts and of time."""

from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.fakes.http_server import Call, Script
from tests.fakes.openai import BUSY, CONTEXT, FILTERED, SSE, Models, error, refuses, silence, streams
from tests.integration.fallback.chain import chain, model
from tests.integration.scene import Scene, scene
from tests.valkey import Valkey

Begin = Callable[..., AbstractAsyncContextManager[Scene]]

busy = refuses(429, BUSY)


@pytest.fixture
def begin(valkey: Valkey, tmp_path: Path) -> Begin:
    """Make scenes of the chain with other settings."""

    @asynccontextmanager
    async def make(**sections: Any) -> AsyncIterator[Scene]:
        async with scene(Models(), chain(**sections), valkey, tmp_path) as found:
            yield found

    return make


async def head_and_silence(call: Call) -> None:
    call.head(200, SSE, chunked=True)
    await call.gone.wait()


async def test_case_25_with_capacity_alone_a_fault_leads_nowhere_and_a_busy_model_still_does(begin: Begin) -> None:
    async with begin(fallback={"on": ["capacity"]}) as walk:
        response = await walk.ask(models=["closed", "B"])
        assert (response.status_code, response.json()["error"]["code"]) == (502, "upstream_unavailable")
        assert walk.models.asked == []
        walk.models.acts["A"] = busy
        assert (await walk.ask(models=["A", "B"])).json()["model"] == "B"
        assert (await walk.ask(model="half")).json()["model"] == "half"


@pytest.mark.parametrize("stream", [False, True], ids=["whole", "stream"])
async def test_case_24_opted_in_a_prompt_too_long_goes_to_a_larger_model(stream: bool, begin: Begin) -> None:
    sizes = {"A": 8192, "B": 4096, "C": 32768}
    models = {name: model(name, context_window=size) for name, size in sizes.items()}
    async with begin(models=models, fallback={"on": ["context_length"]}) as walk:
        inside = streams(b"data: " + CONTEXT + b"\n\n")
        walk.models.acts["A"] = inside if stream else refuses(400, CONTEXT)
        response = await walk.ask(models=["A", "B", "C"], stream=stream)
        assert response.headers["x-gateway-model"] == "C"
        assert walk.models.asked == ["A", "C"]
        walk.models.acts["C"] = refuses(400, CONTEXT)
        response = await walk.ask(models=["A", "B", "C"], stream=stream)
        assert (response.status_code, response.json()["error"]["code"]) == (400, "context_length_exceeded")


async def test_opted_in_a_filtered_prompt_goes_to_the_next_model(begin: Begin) -> None:
    async with begin(fallback={"on": ["content_filter"]}) as walk:
        walk.models.acts["A"] = refuses(400, FILTERED)
        assert (await walk.ask(models=["A", "B"])).json()["model"] == "B"
        walk.models.acts["A"] = refuses(400, error("bad", code="invalid_value"))
        assert (await walk.ask(models=["A", "B"])).status_code == 400
        assert walk.models.asked == ["A", "B", "A"]


@pytest.mark.parametrize("opted_in", [False, True], ids=["default", "opted_in"])
async def test_a_limit_of_the_caller_on_one_model_leads_to_the_next_where_opted_in(opted_in: bool, begin: Begin) -> None:
    on = ["capacity", "rate_limit"] if opted_in else ["capacity"]
    async with begin(plan={"limits": {"per_model": {"A": {"rpm": 1}}}}, fallback={"on": on}) as walk:
        first = await walk.ask(models=["A", "B"], service_tier="default")
        second = await walk.ask(models=["A", "B"], service_tier="default")
        assert first.headers["x-gateway-model"] == "A"
        if opted_in:
            assert (second.status_code, second.json()["model"]) == (200, "B")
            assert second.headers["x-gateway-attempts"] == "A;429, B;200"
        else:
            assert (second.status_code, second.json()["error"]["code"]) == (429, "rate_limit_exceeded")


async def test_a_limit_on_the_next_model_holds_for_a_walk_that_leads_there(begin: Begin) -> None:
    async with begin(plan={"limits": {"per_model": {"B": {"rpm": 1}}}}) as walk:
        walk.models.acts["A"] = busy
        answers = [await walk.ask(models=["A", "B"], service_tier="default") for _ in range(3)]
        assert [answer.status_code for answer in answers] == [200, 429, 429]
        assert answers[1].json()["error"]["code"] == "rate_limit_exceeded"
        assert walk.models.asked == ["A", "B", "A", "A"]
        async with walk.filled("A"):
            refused = await walk.ask(models=["A", "B", "C"], service_tier="default")
        assert (refused.status_code, refused.json()["error"]["code"]) == (429, "rate_limit_exceeded")
        assert refused.headers["x-gateway-attempts"] == "A;429, B;429"


async def test_the_servers_own_list_is_walked_where_the_client_sent_none(begin: Begin) -> None:
    models = {"A": model("A", fallbacks=["B", "C"]), "B": model("B", fallbacks=["D"])}
    async with begin(models=models) as walk:
        walk.models.acts.update({"A": busy, "B": refuses(500)})
        response = await walk.ask(model="A")
        assert (response.json()["model"], response.headers["x-gateway-attempts"]) == ("C", "A;429, B;500, C;200")
        walk.models.asked.clear()
        response = await walk.ask(models=["A"], fail_fast=True)
        assert (response.status_code, walk.models.asked) == (429, ["A"])


async def test_the_walk_never_reaches_a_model_that_the_key_may_not_use(begin: Begin) -> None:
    models = {"A": model("A", fallbacks=["B", "C"])}
    async with begin(models=models, key={"models": ["A", "C"]}) as walk:
        walk.models.acts["A"] = busy
        assert (await walk.ask(model="A")).json()["model"] == "C"
        forbidden, unknown = [await walk.ask(models=["A", name]) for name in ("B", "X")]
        assert (forbidden.status_code, unknown.status_code) == (404, 404)
        assert forbidden.json()["error"]["message"].replace("'B'", "'X'") == unknown.json()["error"]["message"]
        assert walk.models.asked == ["A", "C"]


async def test_no_more_attempts_than_allowed(begin: Begin) -> None:
    async with begin(fallback={"max_attempts": 2}) as walk:
        walk.models.acts.update(dict.fromkeys("ABC", busy))
        response = await walk.ask(models=["A", "B", "C"])
        assert (response.status_code, response.headers["x-gateway-attempts"]) == (429, "A;429, B;429")
        assert walk.models.asked == ["A", "B"]


@pytest.mark.parametrize("slow", [silence, head_and_silence], ids=["no_head", "head_alone"])
async def test_a_provider_that_says_nothing_is_left_for_the_next(slow: Script, begin: Begin) -> None:
    async with begin(models={"A": model("A", timeouts={"first_content": "150ms"})}) as walk:
        walk.models.acts["A"] = slow
        response = await walk.ask(models=["A", "B"], stream=True)
        assert (response.headers["x-gateway-model"], response.headers["x-gateway-attempts"]) == ("B", "A;0, B;200")
        await walk.server.until(lambda: len(walk.server.lines) == 1)


async def test_the_deadline_runs_over_all_attempts_together(begin: Begin) -> None:
    quick = {"timeouts": {"total": "200ms"}}
    async with begin(models={name: model(name, **quick) for name in "ABCD"}) as walk:
        walk.models.acts.update(dict.fromkeys("ABCD", silence))
        body = {"models": list("ABCD"), "messages": [{"role": "user", "content": "hi"}]}
        response = await walk.run.client.post("/v1/chat/completions", json=body, headers={"x-request-timeout": "0.45"})
        assert (response.status_code, response.json()["error"]["code"]) == (504, "upstream_timeout")
        assert response.elapsed.total_seconds() < 1.5
        tried = response.headers["x-gateway-attempts"].split(", ")
        assert tried == [f"{name};0" for name in walk.models.asked]
        assert 2 <= len(tried) <= 3
        [row] = await walk.run.rows()
        assert (row["outcome"], row["attempts"], row["cost_micro_usd"]) == ("timeout", len(tried), 0)
        assert await walk.run.leases() == 0
