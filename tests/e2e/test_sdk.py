"""The official OpenAI SDK against `tiergate serve`, a process of its own with a demo provider behind it: answers and exceptions.

The SDK lives in an environment of its own, which `make test` makes; what it is used for is in `sdk.py`.
"""

import asyncio
from asyncio.subprocess import PIPE
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import msgspec
import pytest
import pytest_asyncio

from gateway.demo.provider import Provider
from gateway.demo.serving import serving
from tests.integration.load.served import Served, settings
from tests.running import SECRET

pytestmark = pytest.mark.asyncio(loop_scope="module")

PYTHON = Path(__file__).parents[2] / ".venv-openai" / "bin" / "python"
SINGLE = "sk-test-secret-of-single"
"""A key that may ask once."""

PATIENT = "sk-test-secret-of-patient"
"""A key whose streams have comments."""

BRIEF = {tier: {"queue": "100ms"} for tier in ("priority", "default", "flex")}
"""How long a request waits for a provider that is busy or fails; what the SDK makes of the end is what is asked."""

MODELS = ("demo-brief", "demo-busy", "demo-500", "demo-silent", "demo-flaky", "demo-late")
LATE = "demo-slow?first_ms=400&words=3&word_ms=0"
TEXT = "demo-brief at p:"

Seen = dict[str, Any]


async def application(base_url: str) -> Seen:
    """Run the application to its end; return what it saw, by scenario."""
    assert PYTHON.exists(), "make test makes .venv-openai first"
    told = msgspec.json.encode({"base_url": base_url, "secret": SECRET, "single": SINGLE, "patient": PATIENT})
    running = await asyncio.create_subprocess_exec(PYTHON, Path(__file__).with_name("sdk.py"), told, stdout=PIPE, stderr=PIPE)
    out, err = await running.communicate()
    assert running.returncode == 0, err.decode()
    seen: Seen = msgspec.json.decode(out)
    return seen


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def seen(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Seen]:
    directory = tmp_path_factory.mktemp("sdk")
    models = {
        name: {"deployments": [{"provider": "p", "model": name}], "price": {"input": 1.0, "output": 2.0}} for name in MODELS
    }
    models["demo-late"]["deployments"] = [{"provider": "p", "model": LATE}]
    async with serving(Provider("p", key="sk-up-p")) as url:
        whole = settings({"p": url.removesuffix("/v1")}, models, directory, tiers=BRIEF)
        single = {"name": "single", "org": "acme", "secret": SINGLE, "limits": {"rpm": 1, "tpm": 2_000}}
        patient = {"name": "patient", "org": "acme", "secret": PATIENT, "keepalive": "100ms"}
        served = Served("sdk", {**whole, "keys": [*whole["keys"], single, patient]}, directory)
        await served.start()
        try:
            yield await application(f"{served.url}/v1")
        finally:
            assert await served.stop() == 0


def text_of(chunks: list[Seen]) -> str:
    """Return the text of a stream, of either endpoint."""
    parts = [choice.get("text") or choice.get("delta", {}).get("content") for chunk in chunks for choice in chunk["choices"]]
    return "".join(part or "" for part in parts)


async def test_an_answer(seen: Seen) -> None:
    answer = seen["chat"]
    assert (answer["object"], answer["model"], answer["service_tier"]) == ("chat.completion", "demo-brief", "default")
    assert answer["choices"][0]["message"]["content"] == TEXT
    assert answer["choices"][0]["finish_reason"] == "stop"
    assert answer["usage"]["total_tokens"] == 5
    assert len(answer["request_id"]) == 36


async def test_a_completion(seen: Seen) -> None:
    answer = seen["completion"]
    assert (answer["object"], answer["model"]) == ("text_completion", "demo-brief")
    assert (answer["choices"][0]["text"], answer["choices"][0]["finish_reason"]) == (TEXT, "stop")
    assert (answer["usage"]["prompt_tokens"], answer["usage"]["completion_tokens"]) == (2, 3)


@pytest.mark.parametrize("scenario", ["chat_stream", "async_chat_stream", "completion_stream", "fallback_stream"])
async def test_a_stream(scenario: str, seen: Seen) -> None:
    chunks = seen[scenario]
    assert text_of(chunks) == TEXT
    assert {chunk["model"] for chunk in chunks} == {"demo-brief"}
    assert len({chunk["id"] for chunk in chunks}) == 1
    assert [chunk["choices"][0]["finish_reason"] for chunk in chunks] == [None] * (len(chunks) - 1) + ["stop"]
    assert not any(chunk["usage"] for chunk in chunks)


async def test_a_stream_ends_with_the_usage_that_was_asked_for(seen: Seen) -> None:
    *chunks, last = seen["chat_stream_with_usage"]
    assert text_of(chunks) == TEXT
    assert not any(chunk["usage"] for chunk in chunks)
    assert last["choices"] == []
    assert (last["usage"]["prompt_tokens"], last["usage"]["completion_tokens"]) == (2, 3)


async def test_the_next_model_answers_for_a_busy_one(seen: Seen) -> None:
    answer = seen["fallback"]
    assert (answer["model"], answer["choices"][0]["message"]["content"]) == ("demo-brief", TEXT)
    assert answer["attempts"] == "demo-busy;429, demo-brief;200"


async def test_a_tier_is_read_from_the_answer(seen: Seen) -> None:
    assert seen["tier"]["service_tier"] == "flex"


async def test_models(seen: Seen) -> None:
    assert seen["models"]["list"] == list(MODELS)
    assert (seen["models"]["one"]["id"], seen["models"]["one"]["object"]) == ("demo-brief", "model")


@pytest.mark.parametrize(
    ("scenario", "raised", "status", "kind", "code", "param"),
    [
        ("wrong_key", "AuthenticationError", 401, "invalid_request_error", "invalid_api_key", None),
        ("unknown_model", "NotFoundError", 404, "invalid_request_error", "model_not_found", "model"),
        ("bad_field", "UnprocessableEntityError", 422, "invalid_request_error", "out_of_range", "n"),
        ("bad_tier", "BadRequestError", 400, "invalid_request_error", "invalid_value", "service_tier"),
        ("rate_limit", "RateLimitError", 429, "requests", "rate_limit_exceeded", None),
        ("rate_limit_for_ever", "RateLimitError", 429, "tokens", "rate_limit_exceeded", None),
        ("busy", "RateLimitError", 429, "invalid_request_error", "engine_overloaded", None),
        ("provider_down", "InternalServerError", 502, "upstream_error", "upstream_unavailable", None),
        ("broken_answer", "InternalServerError", 502, "upstream_error", "upstream_unavailable", None),
        ("deadline", "InternalServerError", 504, "server_error", "upstream_timeout", None),
    ],
)
async def test_an_error_is_the_sdks_own_exception(
    scenario: str, raised: str, status: int, kind: str, code: str, param: str | None, seen: Seen
) -> None:
    error = seen[scenario]
    assert (error["raised"], error["status"]) == (raised, status)
    assert (error["type"], error["code"], error["param"]) == (kind, code, param)
    assert error["body"]["message"] in error["message"]
    assert error["request_id"] == error["headers"]["x-request-id"]
    assert error["retries"] == 0


async def test_every_bad_field_is_told_at_once(seen: Seen) -> None:
    assert {entry["loc"][-1] for entry in seen["bad_field"]["whole"]["detail"]} == {"temperature", "n"}


async def test_a_limit_says_when_to_come_back_and_one_that_never_fits_says_not_to(seen: Seen) -> None:
    headers = seen["rate_limit"]["headers"]
    assert 50 <= int(headers["retry-after"]) <= 60
    assert int(headers["retry-after"]) == -(-int(headers["retry-after-ms"]) // 1000)
    assert headers["x-ratelimit-remaining-requests"] == "0"
    assert seen["rate_limit_for_ever"]["headers"]["x-should-retry"] == "false"


@pytest.mark.parametrize("scenario", ["broken_stream", "async_broken_stream"])
async def test_a_stream_that_breaks_raises_after_what_came(scenario: str, seen: Seen) -> None:
    error = seen[scenario]
    assert error["seen"] == "demo-flaky at p: every request"
    assert (error["raised"], error["code"], error["type"]) == ("APIError", "stream_interrupted", "upstream_error")


async def test_a_stream_is_read_through_its_comments(seen: Seen) -> None:
    found = seen["commented_stream"]
    assert "x-gateway-model" not in found["head"], "it began with a comment"
    assert text_of(found["chunks"]).startswith("demo-slow")
    assert {chunk["model"] for chunk in found["chunks"]} == {"demo-late"}


async def test_a_failure_after_comments_raises(seen: Seen) -> None:
    error = seen["commented_failure"]
    assert (error["raised"], error["code"], error["type"]) == ("APIError", "upstream_timeout", "server_error")
