"""Comments in a stream's silences: in the queue, before the first content and after it, and what an end after them looks like."""

from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import Any

import httpx
import msgspec
import pytest

from tests.fakes.http_server import Call, Script
from tests.fakes.openai import DONE, SSE, Models, event, refuses, silence
from tests.integration.access import Access
from tests.integration.fallback.chain import FORGIVING, model
from tests.integration.scene import Scene, scene
from tests.running import config
from tests.valkey import Valkey

COMMENT = b": keep-alive\n\n"
EVERY = {"keepalive": "50ms"}
QUIET = "sk-test-secret-of-the-quiet-key"


@pytest.fixture
async def told(valkey: Valkey, tmp_path: Path) -> AsyncIterator[Scene]:
    """Yield models whose requests are kept company, by the key's own word; the key `quiet` has its plan's, which is none."""
    models = {
        "A": model("A", timeouts={"first_content": "300ms"}),
        "B": model("B"),
        "C": model("C", fallbacks=["B"]),
    }
    tiers = {"priority": {"queue": "0s"}, "default": {"queue": "5s"}, "flex": {"queue": "300ms"}}
    found = config({"p": "{upstream}"}, models, key=EVERY, tiers=tiers, breaker=FORGIVING)
    quiet = {"name": "quiet", "org": "acme", "secret": QUIET}
    async with scene(Models(), {**found, "keys": [*found["keys"], quiet]}, valkey, tmp_path) as walk:
        yield walk


def streaming(told: Scene, name: str, **fields: Any) -> AbstractAsyncContextManager[httpx.Response]:
    """Ask for a stream that is read piece by piece."""
    body = {"model": name, "messages": [{"role": "user", "content": "hi"}], "stream": True, **fields}
    return told.run.client.stream("POST", "/v1/chat/completions", json=body)


HELLO = event({"content": "Hello"}, "stop")


def pausing(told: Scene, *pieces: bytes) -> Script:
    """Make a script that says the last of these pieces, and the end, once it is released."""

    async def act(call: Call) -> None:
        call.head(200, SSE, chunked=True)
        for piece in pieces[:-1]:
            call.piece(piece)
        await told.models.released()
        call.piece(pieces[-1])
        call.piece(DONE)
        call.end()

    return act


def events(body: bytes) -> list[bytes]:
    """Return a stream's events without its comments."""
    return [each for each in body.split(b"\n\n") if each and not each.startswith(b":")]


async def until(pieces: AsyncIterator[bytes], expected: bytes) -> bytes:
    """Read until this has come; return all that has."""
    body = b""
    while expected not in body:
        body += await anext(pieces)
    return body


def error_of(found: bytes) -> Any:
    return msgspec.json.decode(found.removeprefix(b"data: "))["error"]


async def test_who_waits_in_a_queue_hears_comments_and_then_the_answer(told: Scene) -> None:
    async with told.filled("B"), streaming(told, "B", service_tier="default") as response:
        pieces = response.aiter_raw()
        assert (await until(pieces, COMMENT)).startswith(COMMENT)
        assert response.status_code == 200
        told.models.release()
        rest = b"".join([piece async for piece in pieces])
    found = events(rest)
    assert b'"content":"Hello"' in b"".join(found)
    assert (found[-1], found.count(b"data: [DONE]")) == (b"data: [DONE]", 1)


async def test_the_head_that_goes_out_with_a_comment_says_what_is_certain(told: Scene) -> None:
    access = Access(told.run)
    told.models.acts["B"] = pausing(told, HELLO)
    async with streaming(told, "B") as response:
        pieces = response.aiter_raw()
        body = await until(pieces, COMMENT)
        assert body.startswith(COMMENT)
        told.models.release()
        body += b"".join([piece async for piece in pieces])
    assert response.headers["content-type"] == "text/event-stream; charset=utf-8"
    assert {name for name in response.headers if name.startswith("x-")} == {"x-accel-buffering", "x-request-id"}
    line = await access.only()
    assert (line["status"], line["outcome"], line["early_head"]) == (200, "ok", True)
    assert line["bytes_sent"] == len(body.replace(COMMENT, b""))


async def test_an_answer_in_time_has_its_usual_head_and_no_comment(told: Scene) -> None:
    access = Access(told.run)
    response = await told.ask(model="B", stream=True)
    assert COMMENT not in response.content
    assert response.headers["x-gateway-model"] == "B"
    assert (await access.only())["early_head"] is False


async def test_comments_fill_a_silence_between_events(told: Scene) -> None:
    told.models.acts["B"] = pausing(told, event({"content": "Hel"}), event({"content": "lo"}, "stop"))
    async with streaming(told, "B") as response:
        pieces = response.aiter_raw()
        assert b"Hel" in (await until(pieces, COMMENT)).partition(COMMENT)[0]
        told.models.release()
        rest = b"".join([piece async for piece in pieces])
    assert rest.endswith(DONE)
    assert response.headers["x-gateway-model"] == "B"


async def test_after_a_comment_the_next_model_may_still_answer(told: Scene) -> None:
    told.models.acts["A"] = silence
    access = Access(told.run)
    response = await told.ask(models=["A", "B"], stream=True)
    assert response.content.startswith(COMMENT)
    assert b'"model":"B"' in response.content
    line = await access.only()
    assert [attempt["model"] for attempt in line["attempts"]] == ["A", "B"]
    assert (line["model_served"], line["outcome"]) == ("B", "ok")


async def test_a_failure_after_a_comment_is_one_event_and_no_proper_end(told: Scene) -> None:
    told.models.acts["A"] = silence
    access = Access(told.run)
    response = await told.ask(model="A", stream=True)
    assert (response.status_code, response.content.startswith(COMMENT)) == (200, True)
    [last] = events(response.content)
    assert error_of(last)["code"] == "upstream_timeout"
    line = await access.only()
    assert (line["status"], line["outcome"], line["error_code"]) == (504, "timeout", "upstream_timeout")
    assert line["early_head"] is True
    [row] = await told.run.rows()
    assert (row["status"], row["outcome"]) == (504, "timeout")


async def test_a_wait_in_vain_is_told_in_the_stream(told: Scene) -> None:
    async with told.filled("B"):
        response = await told.ask(model="B", stream=True, service_tier="flex")
        [last] = events(response.content)
        assert (response.status_code, error_of(last)["code"]) == (200, "flex_no_capacity")
    assert len(await told.run.rows()) == 1, "of the request that held the slot"


async def test_after_a_wait_in_vain_with_comments_the_fallback_answers(told: Scene) -> None:
    async with told.filled("C"):
        response = await told.ask(model="C", stream=True, service_tier="flex")
    assert response.content.startswith(COMMENT)
    assert b'"model":"B"' in response.content
    assert response.content.endswith(DONE)


async def test_a_failure_before_the_first_comment_has_its_own_status(told: Scene) -> None:
    told.models.acts["B"] = refuses(500)
    response = await told.ask(model="B", stream=True)
    assert (response.status_code, response.json()["error"]["code"]) == (502, "upstream_unavailable")


@pytest.mark.parametrize("fields", [{"key": QUIET, "stream": True}, {"stream": False}], ids=["off", "whole"])
async def test_who_did_not_ask_for_comments_has_the_status_of_the_end(fields: dict[str, Any], told: Scene) -> None:
    async with told.filled("B"):
        response = await told.ask(model="B", service_tier="flex", **fields)
        assert (response.status_code, response.json()["error"]["code"]) == (429, "flex_no_capacity")


async def test_a_client_that_leaves_amid_comments_leaves_nothing_behind(told: Scene) -> None:
    async with told.filled("B"):
        async with streaming(told, "B", service_tier="default") as response:
            await until(response.aiter_raw(), COMMENT * 2)
        await told.run.waiting(0)
    left, held = sorted(await told.run.rows(), key=lambda row: str(row["outcome"]))
    assert (left["outcome"], left["status"], held["outcome"]) == ("cancelled", 499, "ok")
    assert await told.run.leases() == 0
    assert len(told.run.gateway._floor.watchers) == 0


async def test_a_connection_is_good_for_the_next_request_after_comments(told: Scene) -> None:
    told.models.acts["A"] = silence
    for _ in range(2):
        response = await told.ask(model="A", stream=True)
        assert error_of(events(response.content)[-1])["code"] == "upstream_timeout"
        assert (await told.ask(model="B", stream=True)).content.endswith(DONE)
