"""Cases FB-09, FB-10 and FB-20: errors that a client can act on reach it, and none of its own counts against a provider."""

from collections.abc import AsyncIterator

import pytest
import pytest_asyncio

from tests.fakes.http_server import Script
from tests.fakes.openai import BUSY, CONTEXT, FILTERED, error, refuses, silence, streams
from tests.field.metering import Metered
from tests.field.walking import CHAT, CHAT_STREAM, MODES, STREAMS, Mode, model, outcomes, reset, walking, walks
from tests.integration.scene import Scene
from tests.valkey import Valkey

pytestmark = pytest.mark.asyncio(loop_scope="module")

OPTED_IN = ["capacity", "unavailable", "context_length", "content_filter"]


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def shared(valkey_server: Valkey, tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Metered]:
    models = {"short": model(name="short", timeouts={"first_content": "150ms", "total": "150ms"})}
    models |= {"small": model(name="small", context_window=10), "large": model(name="large", context_window=20)}
    breaker = {"open": "60s", "cooldown_max": "1ms"}
    settings = walks(models=models, breaker=breaker, fallback={"on": OPTED_IN, "retry_budget": 1})
    async with walking(settings, valkey_server, tmp_path_factory) as found:
        yield found


@pytest_asyncio.fixture(loop_scope="module")
async def walk(shared: Metered) -> AsyncIterator[Metered]:
    yield shared
    await shared.rest()
    await reset(shared)


TOO_LONG = {
    "code": CONTEXT,
    "mistral": error("Prompt contains 9000 tokens, too large for model with 8192 maximum context length", type="invalid"),
    "sglang": error("The input (9000 tokens) is longer than the model's context length (8192 tokens).", type="BadRequest"),
    "google": b'[{"error":{"code":400,"status":"INVALID_ARGUMENT","message":"The input token count (12) exceeds the maximum'
    b' number of tokens allowed (10)."}}]',
    "anthropic": b'{"type":"error","error":{"type":"invalid_request_error","message":"prompt is too long: 12 > 10"}}',
    "tgi": b'{"error":"Input validation error: `inputs` must have less than 10 tokens. Given: 12","error_type":"validation"}',
    "fastapi": b'{"detail":"This model\'s maximum context length is 10 tokens. However, you requested 12"}',
}


def everywhere(body: bytes) -> dict[str, Script]:
    """Return the ways in which a provider may say so."""
    return {
        "400": refuses(400, body),
        "413": refuses(413, body),
        "422": refuses(422, body),
        "200": refuses(200, body),
        "event": streams(CHAT_STREAM.chunk(), b"data: " + body + b"\n\n"),
    }


@pytest.mark.parametrize("words", TOO_LONG)
async def test_fb_09_a_prompt_too_long_in_any_words_goes_to_the_larger_model(words: str, walk: Scene) -> None:
    for place, script in everywhere(TOO_LONG[words]).items():
        mode = CHAT_STREAM if place in ("event", "413") else CHAT
        walk.models.acts.update({"small": script, "large": mode.answer("Hello")})
        response = await mode.ask(walk, models=["small", "large"])
        assert (mode.text(response), response.headers["x-gateway-model"]) == ("Hello", "large")
        for behind in (refuses(503), refuses(500), script):
            walk.models.acts["large"] = behind
            response = await mode.ask(walk, models=["small", "large"], fail_fast=True)
            assert (response.status_code, response.json()["error"]["code"]) == (400, "context_length_exceeded")


async def test_fb_09_a_model_that_is_no_larger_is_not_asked(walk: Scene) -> None:
    walk.models.acts["large"] = refuses(400, CONTEXT)
    response = await CHAT.ask(walk, models=["large", "small"])
    assert (response.status_code, walk.models.asked) == (400, ["large"])


ENDS: dict[str, tuple[Script, Script, tuple[int, str], str | None]] = {
    "too long, then unavailable": (refuses(400, CONTEXT), refuses(503), (400, "context_length_exceeded"), None),
    "too long, then broken": (refuses(400, CONTEXT), refuses(500), (400, "context_length_exceeded"), None),
    "too long, then our key": (refuses(400, CONTEXT), refuses(401), (400, "context_length_exceeded"), None),
    "filtered, then nobody there": (refuses(400, FILTERED), refuses(502), (400, "content_filter"), None),
    "filtered, then too long": (refuses(400, FILTERED), refuses(400, CONTEXT), (400, "context_length_exceeded"), None),
    "busy, then our key": (refuses(429, BUSY, retry_after="9"), refuses(401), (429, "engine_overloaded"), "9"),
    "busy, then our bill": (refuses(429, BUSY, retry_after="9"), refuses(402), (429, "engine_overloaded"), "9"),
    "busy, then no such model": (refuses(429, BUSY, retry_after="9"), refuses(404), (429, "engine_overloaded"), "9"),
    "our key, then busy": (refuses(403), refuses(529, retry_after="9"), (429, "engine_overloaded"), "9"),
    "broken, then our key": (refuses(500), refuses(401), (502, "upstream_unavailable"), None),
    "our key, then our bill": (refuses(401), refuses(402), (502, "upstream_auth_error"), None),
    "busy, then broken": (refuses(429, BUSY, retry_after="9"), refuses(500), (502, "upstream_unavailable"), None),
}


@pytest.mark.parametrize("mode", [CHAT, CHAT_STREAM], ids=str)
@pytest.mark.parametrize("name", ENDS)
async def test_fb_10_the_client_hears_of_what_it_can_act_on(name: str, mode: Mode, walk: Scene) -> None:
    first, second, end, retry_after = ENDS[name]
    walk.models.acts.update({"C": first, "D": second})
    response = await mode.ask(walk, models=["C", "D"], fail_fast=True)
    assert (response.status_code, response.json()["error"]["code"]) == end
    assert response.headers.get("retry-after") == retry_after
    tried = response.headers["x-gateway-attempts"]
    assert [each.partition(";")[0] for each in tried.split(", ")] == ["C", "D"], "and all that was tried stands beside it"
    assert not any(word in f"{response.text} {response.headers}" for word in ("sk-up", "127.0.0.1", "up-C", "up-D"))


async def test_fb_10_late_behind_too_long(walk: Scene) -> None:
    for mode in (CHAT, CHAT_STREAM):
        walk.models.acts.update({"A": refuses(400, CONTEXT), "short": silence})
        response = await mode.ask(walk, models=["A", "short"])
        assert (response.status_code, outcomes(response)) == (400, ["rejected", "timeout"])


MISTAKE = b'{"error":{"message":"messages: at least one user message","type":"invalid_request_error"}}'


@pytest.mark.parametrize("mode", MODES, ids=str)
async def test_fb_20_a_clients_mistake_inside_a_200_is_its_own(mode: Mode, walk: Metered) -> None:
    inside = streams(mode.chunk(), b"data: " + MISTAKE + b"\n\n") if mode.stream else refuses(200, MISTAKE)
    walk.models.acts["T1"] = inside
    for _ in range(20):
        response = await mode.ask(walk, models=["T", "B"])
        told = response.json()["error"]
        assert (response.status_code, told["type"], told["code"]) == (400, "invalid_request_error", "invalid_value")
        assert told["message"] == "messages: at least one user message"
    assert set(walk.models.asked) == {"T1"}
    walk.models.acts.clear()
    assert outcomes(await mode.ask(walk, model="T")) == ["ok"], "nobody blames the provider"
    assert [line["outcome"] for line in await walk.notes.lines()] == ["client_error"] * 20 + ["ok"]


@pytest.mark.parametrize("mode", STREAMS, ids=str)
async def test_fb_20_what_nobody_can_tell_is_told_as_no_answer(mode: Mode, walk: Scene) -> None:
    walk.models.acts["B"] = streams(mode.chunk(), b'data: {"error":{"message":"oops","type":"odd"}}\n\n')
    response = await mode.ask(walk, model="B")
    assert (response.status_code, response.json()["error"]["code"]) == (502, "upstream_bad_response")
    assert response.headers["x-gateway-attempts"] == "B;200", "no status is made up for it"
    assert "oops" not in response.text
