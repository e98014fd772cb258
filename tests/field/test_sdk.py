"""Cases SDK-02 and SDK-03: what the official SDKs make of a refusal, and that every error has the shape that they read."""

from collections.abc import AsyncIterator
from typing import Any

import httpx
import msgspec
import pytest
import pytest_asyncio
from msgspec.structs import replace

from gateway.faults import Failed
from gateway.policy.catalogue import Provider
from gateway.providers.openai import OpenAI
from gateway.providers.protocol import Answer, Edits
from tests.fakes.openai import BUSY, Models, refuses
from tests.fakes.wire import Wire, post, request
from tests.field.walking import CHAT, CHAT_STREAM, MODES, Mode, model, reset, walks
from tests.integration.scene import Scene, bearer, scene
from tests.running import HEADERS, SECRET
from tests.valkey import Valkey

pytestmark = pytest.mark.asyncio(loop_scope="module")

RETRIED = frozenset({408, 409, 429})
RETRIES = 2
LONGEST_WAIT_S = 120
"""Beyond which openai-python does not come back; older ones and openai-node come back at once above 60 s."""

MOST_ATTEMPTS = 6


class Sdk:
    """One call of an official SDK: what it repeats by its own rules (wire contract, 6.3), and how long it would have waited."""

    def __init__(self) -> None:
        self.waits_s: list[float] = []

    async def create(self, mode: Mode, walk: Scene, headers: dict[str, str], **fields: Any) -> httpx.Response:
        """Ask, and ask again as long as an SDK would; without its waits."""
        response = await mode.ask(walk, headers=headers, **fields)
        for _ in range(RETRIES):
            if not self._comes_back(response):
                break
            response = await mode.ask(walk, headers=headers, **fields)
        return response

    def _comes_back(self, response: httpx.Response) -> bool:
        word = response.headers.get("x-should-retry")
        wait_s = float(response.headers.get("retry-after-ms", 0)) / 1000 or float(response.headers.get("retry-after", 0))
        if word == "false" or wait_s > LONGEST_WAIT_S:
            return False
        if word != "true" and response.status_code not in RETRIED and response.status_code < 500:
            return False
        self.waits_s.append(wait_s)
        return True


class Faulty(OpenAI):
    """A dialect with a fault of ours in it."""

    def answer(self, body: bytes, edits: Edits) -> Answer | Failed:
        raise RuntimeError("a fault of ours, with up-A and worker-3 in it")

    def reader(self, edits: Edits) -> Any:
        raise RuntimeError("a fault of ours, with up-A and worker-3 in it")


def of(name: str) -> dict[str, str]:
    return bearer(f"sk-test-secret-of-{name}")


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def shared(valkey_server: Valkey, tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Scene]:
    settings = walks(
        models={"faulty": model("faulty", name="faulty")},
        breaker={"failures": 1_000, "window": "1ms", "cooldown_max": "1ms"},
        tiers={"default": {"queue": "5s"}},
        plan={"tiers": ["default"]},
        limits={"body": "64KiB"},
    )
    settings["providers"]["faulty"] = settings["providers"]["p"]
    rights = {"minute": {"limits": {"rpm": 1}}, "day": {"limits": {"rpd": 1}}, "small": {"limits": {"tpm": 100}}}
    settings["keys"] += [
        {
            "name": f"{name}-{mode}",
            "org": "acme",
            "secret": f"sk-test-secret-of-{name}-{mode}",
            "default_tier": "default",
            **right,
        }
        for name, right in {**rights, "broke": {"budget": {"usd": 0}}}.items()
        for mode in MODES
    ]
    async with scene(Models(), settings, valkey_server, tmp_path_factory.mktemp("sdk")) as found:
        snapshot = found.run.gateway._corridor.snapshot
        provider: Provider = snapshot.catalogue.models["faulty"].deployments[0].provider
        dialects = {**snapshot.dialects, "faulty": Faulty(provider)}
        found.run.gateway._corridor.snapshot = replace(snapshot, dialects=dialects)
        yield found


@pytest_asyncio.fixture(loop_scope="module")
async def walk(shared: Scene) -> AsyncIterator[Scene]:
    yield shared
    await shared.rest()
    await reset(shared)


@pytest.mark.parametrize("mode", MODES, ids=str)
@pytest.mark.parametrize(
    ("name", "status", "code"),
    [("broke", 402, "insufficient_quota"), ("day", 429, "rate_limit_exceeded"), ("small", 429, "rate_limit_exceeded")],
)
async def test_sdk_02_what_is_not_over_soon_is_asked_once(name: str, status: int, code: str, mode: Mode, walk: Scene) -> None:
    """A spent budget, a day's quota, a request larger than its whole bucket: coming back in a minute helps nobody."""
    headers, fields = of(f"{name}-{mode}"), {"model": "A", "max_tokens": 2_000 if name == "small" else 1}
    if name == "day":
        assert (await mode.ask(walk, headers=headers, **fields)).status_code == 200
    walk.models.asked.clear()
    sdk = Sdk()
    response = await sdk.create(mode, walk, headers, **fields)
    assert (response.status_code, response.json()["error"]["code"]) == (status, code)
    assert response.headers["x-should-retry"] == "false"
    assert sdk.waits_s == []
    assert walk.models.asked == []


@pytest.mark.parametrize("mode", MODES, ids=str)
async def test_sdk_02_a_limit_of_the_minute_says_exactly_when(mode: Mode, walk: Scene) -> None:
    headers = of(f"minute-{mode}")
    assert (await mode.ask(walk, headers=headers, model="A")).status_code == 200
    sdk = Sdk()
    response = await sdk.create(mode, walk, headers, model="A")
    assert (response.status_code, response.json()["error"]["code"]) == (429, "rate_limit_exceeded")
    assert "x-should-retry" not in response.headers
    assert int(response.headers["retry-after"]) == -(-int(response.headers["retry-after-ms"]) // 1000)
    assert len(sdk.waits_s) == RETRIES
    assert all(30 < wait_s <= 60 for wait_s in sdk.waits_s)
    assert walk.models.asked == ["A"]


@pytest.mark.parametrize("mode", MODES, ids=str)
async def test_sdk_02_a_provider_that_is_out_for_weeks_is_not_slept_for(mode: Mode, walk: Scene) -> None:
    walk.models.acts["A"] = refuses(429, BUSY, retry_after="1382400")
    sdk = Sdk()
    response = await sdk.create(mode, walk, {}, model="A", fail_fast=True)
    assert (response.status_code, response.headers["x-should-retry"], sdk.waits_s) == (429, "false", [])


@pytest.mark.parametrize("mode", [CHAT, CHAT_STREAM], ids=str)
@pytest.mark.parametrize("status", [503, 500, 401])
async def test_sdk_02_the_calls_of_one_call_are_bounded(status: int, mode: Mode, walk: Scene) -> None:
    """No more than `fallback.max_attempts` for each of the SDK's own three."""
    walk.models.acts.update(dict.fromkeys(("A", "B", "C", "T1", "T2"), refuses(status)))
    sdk = Sdk()
    response = await sdk.create(mode, walk, {}, models=["A", "T", "B", "C"])
    assert response.status_code == (429 if status == 503 else 502)
    assert len(response.headers["x-gateway-attempts"].split(", ")) <= MOST_ATTEMPTS
    assert 5 <= len(walk.models.asked) <= MOST_ATTEMPTS * (1 + RETRIES)
    if status == 503:
        assert all(0 < wait_s <= 60 for wait_s in sdk.waits_s)


TYPE = ("content-type", "application/json")
GOOD = b'{"model":"A","messages":[{"role":"user","content":"hi"}]}'
STREAMED = b'{"model":"A","stream":true,"messages":[{"role":"user","content":"hi"}]}'
AUTH = tuple(HEADERS.items())

FOREIGN: dict[str, tuple[bytes, int, str]] = {
    "broken JSON": (post(b'{"model":', *AUTH, TYPE), 400, "invalid_json"),
    "broken JSON of a stream": (post(STREAMED[:-1], *AUTH, TYPE), 400, "invalid_json"),
    "nothing": (post(b"", *AUTH, TYPE), 400, "invalid_json"),
    "no messages": (post(b'{"model":"A"}', *AUTH, TYPE), 422, "missing_required_parameter"),
    "no messages of a stream": (post(b'{"model":"A","stream":true}', *AUTH, TYPE), 422, "missing_required_parameter"),
    "no prompt": (post(b'{"model":"A"}', *AUTH, TYPE, path="/v1/completions"), 422, "missing_required_parameter"),
    "no such model": (post(GOOD.replace(b"A", b"Z"), *AUTH, TYPE), 404, "model_not_found"),
    "no such path": (post(GOOD, *AUTH, TYPE, path="/v1/nowhere"), 404, "unknown_url"),
    "no such path below": (request("GET", "/v1/models/A/b/c", *AUTH), 404, "model_not_found"),
    "GET": (request("GET", "/v1/chat/completions", *AUTH), 405, "method_not_allowed"),
    "POST": (post(GOOD, *AUTH, TYPE, path="/v1/models"), 405, "method_not_allowed"),
    "too large": (post(b" " * 70_000, *AUTH, TYPE), 413, "request_too_large"),
    "text": (post(GOOD, *AUTH, ("content-type", "text/plain")), 415, "unsupported_media_type"),
    "no key": (post(GOOD, TYPE), 401, "invalid_api_key"),
    "a fault of ours": (post(GOOD.replace(b"A", b"faulty"), *AUTH, TYPE), 500, "internal_error"),
    "a fault of ours in a stream": (post(STREAMED.replace(b"A", b"faulty"), *AUTH, TYPE), 500, "internal_error"),
}


@pytest.mark.parametrize("name", FOREIGN)
async def test_sdk_03_every_error_has_the_one_shape(name: str, walk: Scene) -> None:
    data, status, code = FOREIGN[name]
    async with Wire(walk.run.url) as wire:
        await wire.send(data)
        answer = await wire.answer()
    assert (answer.status, answer.headers["content-type"]) == (status, "application/json")
    assert len(answer.headers["x-request-id"]) == 36
    told = msgspec.json.decode(answer.body)
    assert set(told["error"]) == {"message", "type", "param", "code"}
    assert (told["error"]["code"], "status_code" in told) == (code, False)
    assert ("detail" in told) == (status == 422)
    assert not any(word in answer.body.decode() for word in (SECRET, "Traceback", "worker-3", "up-A", "msgspec", "litestar"))
