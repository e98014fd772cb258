"""Cases AK-02 to AK-07 and AK-09: who may enter, what the others hear, and whose key goes where."""

import asyncio
import hmac
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import msgspec
import pytest
import pytest_asyncio

from tests.fakes.openai import Models, error, event, refuses, streams
from tests.fakes.wire import Headers, Wire, post, request
from tests.field.metering import Metered, key, metered, model, secret, settings
from tests.integration.scene import scene
from tests.running import SECRET
from tests.valkey import Valkey

pytestmark = pytest.mark.asyncio(loop_scope="module")

KINDS: dict[str, dict[str, Any]] = {
    "usual": {},
    "limited": {"limits": {"rpm": 1_000, "concurrency": 10}},
    "unlimited": {"allow_no_limit": True, "default_tier": "no-limit"},
    "first": {"auto": "priority", "over_limit": {"rpm": 60}},
}
STATES: dict[str, tuple[dict[str, Any], int, str]] = {
    "expired": ({"expires": "2020-01-01"}, 401, "invalid_api_key"),
    "from elsewhere": ({"ips": ["203.0.113.0/24"]}, 403, "ip_not_allowed"),
    "for another model": ({"models": ["two"]}, 404, "model_not_found"),
    "without the tier": ({"tiers": ["default"]}, 400, "invalid_value"),
    "without money": ({"budget": {"usd": 0}}, 402, "insufficient_quota"),
}
KEYS = [
    key(f"{kind}-{state.replace(' ', '-')}", **{**fields, **STATES[state][0]})
    for kind, fields in KINDS.items()
    for state in STATES
]
ROUTES = {"chat": "/v1/chat/completions", "completions": "/v1/completions"}
CHAT = msgspec.json.encode({"model": "m", "messages": [{"role": "user", "content": "hi"}]})
TYPE = ("content-type", "application/json")
WRONG = "sk-wrong-0123456789abcdef"


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def shared(valkey_server: Valkey, tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Metered]:
    models = {"two": model("two", "p", "q")}
    async with metered(settings(*KEYS, models=models), valkey_server, tmp_path_factory.mktemp("ak")) as gate:
        yield gate


@pytest_asyncio.fixture(loop_scope="module")
async def gate(shared: Metered) -> AsyncIterator[Metered]:
    yield shared
    await shared.rest()


@pytest.mark.parametrize("state", STATES)
@pytest.mark.parametrize("kind", KINDS)
async def test_ak_02_no_kind_of_key_passes_by_a_check(kind: str, state: str, gate: Metered) -> None:
    name = f"{kind}-{state.replace(' ', '-')}"
    _, status, code = STATES[state]
    tier = "priority" if state == "without the tier" else ...
    for path in (*ROUTES.values(), *ROUTES.values()):  # the second time it is known
        answer = await gate.ask(key=secret(name), path=path, model="m", service_tier=tier)
        assert (answer.status_code, answer.json()["error"]["code"]) == (status, code)
    listed = await gate.run.client.get("/v1/models", headers={"authorization": f"Bearer {secret(name)}"})
    assert listed.status_code == (status if status in (401, 403) else 200)
    assert gate.models.asked == []


ENTERS: list[Headers] = [
    [("authorization", f"{scheme}{SECRET}{end}")]
    for scheme, end in (("Bearer ", ""), ("bearer ", ""), ("BEARER  ", ""), ("Bearer ", " "), ("Bearer ", "\t"))
]
ENTERS += [[(name, SECRET)] for name in ("x-api-key", "X-Api-Key", "api-key", "xi-api-key")]
NO_KEYS = ("Bearer", "Bearer ", "Bearer \t", f"Basic {SECRET}", SECRET, "", "Bearer \xff\xfe")
STAYS_OUT: list[tuple[Headers, int]] = [
    *(([("authorization", word)], 401) for word in NO_KEYS),
    ([("authorization", f"Bearer {SECRET.upper()}")], 401),
    ([("authorization", f"Bearer {SECRET}x")], 401),
    ([("x-api-key", "\xe9" * 20)], 401),
    ([("authorization", f"Bearer {SECRET}"), ("authorization", f"Bearer {SECRET}")], 400),
    ([("authorization", f"Bearer {SECRET}"), ("authorization", f"Bearer {WRONG}")], 400),
    ([("authorization", f"Bearer {SECRET}"), ("x-api-key", WRONG)], 400),
]  # fmt: skip


async def test_ak_03_a_key_is_read_however_clients_write_it(gate: Metered) -> None:
    for headers in ENTERS:
        async with Wire(gate.run.url) as wire:
            await wire.send(post(CHAT, TYPE, *headers))
            assert (await wire.answer()).status == 200, headers
    for headers, status in STAYS_OUT:
        async with Wire(gate.run.url) as wire:
            await wire.send(post(CHAT, TYPE, *headers))
            answer = await wire.answer()
            assert (answer.status, answer.json()["error"]["type"]) == (status, "invalid_request_error"), headers


async def test_ak_04_a_refusal_gives_nothing_away(
    valkey: Valkey, tmp_path: Path, capfdbinary: pytest.CaptureFixture[bytes]
) -> None:
    told: list[bytes] = []
    found = {**settings(), "telemetry": {"level": "debug", "log": "json"}}
    async with scene(Models(), found, valkey, tmp_path) as own, Wire(own.run.url) as wire:
        auth = ("authorization", f"Bearer {WRONG}")
        for data in (
            *(post(CHAT, TYPE, auth, path=path) for path in ROUTES.values()),
            *(request("GET", path, auth) for path in ("/v1/models", "/v1/models/m", "/v1/nothing")),
            post(CHAT, TYPE, path=f"{ROUTES['chat']}?api_key={WRONG}"),
            post(CHAT, TYPE, auth, path=f"{ROUTES['chat']}?key={WRONG}&ai_project_id={WRONG}"),
            post(b'{"api_key":"' + WRONG.encode(), TYPE, auth),
            post(b'{"api_key":"' + WRONG.encode(), TYPE, ("authorization", f"Bearer {SECRET}")),
            post(CHAT, TYPE, ("x-api-key", WRONG), ("x-request-id", "theirs")),
        ):
            await wire.send(data)
            answer = await wire.answer()
            assert answer.status in (400, 401, 404)
            told.append(b" ".join([answer.body, *(f"{name}: {value}".encode() for name, value in answer.headers.items())]))
        incorrect = {body.partition(b"message")[2][:60] for body in told[:4]}
        assert len(incorrect) == 1, "the same words everywhere"
        await own.run.settled()
        await asyncio.sleep(0)
    logs = capfdbinary.readouterr().out
    assert logs.count(b'"event":"request"') >= 6
    digest = hmac.digest(b"test-pepper", WRONG.encode(), "sha256").hex()
    for secret_word in (WRONG, WRONG[:12], digest, digest[:12], SECRET):
        assert secret_word.encode() not in logs
        assert not [text for text in told if secret_word.encode() in text]
    assert not [
        text
        for text in told
        for word in (b"redis", b"valkey", b"sqlite", b".py", b"hmac", str(tmp_path).encode())
        if word in text.lower()
    ]


UPSTREAM_KEY = "sk-up-1234****"
NO_KEY = error(f"Incorrect API key provided: {UPSTREAM_KEY}", code="invalid_api_key")


@pytest.mark.parametrize("stream", [False, True], ids=["whole", "stream"])
@pytest.mark.parametrize("status", [401, 403, 200])
async def test_ak_05_the_gateways_own_key_refused_is_not_the_callers(status: int, stream: bool, gate: Metered) -> None:
    inside = stream and status == 200
    gate.models.acts["m"] = (
        streams(event({"role": "assistant"}), b"data: " + NO_KEY + b"\n\n") if inside else refuses(status, NO_KEY)
    )
    answer = await gate.ask(model="m", stream=stream)
    assert (answer.status_code, answer.json()["error"]["code"]) == (502, "upstream_auth_error")
    assert "www-authenticate" not in answer.headers
    assert "Incorrect" not in answer.text
    assert "sk-up" not in f"{answer.text} {answer.headers}"
    line = await gate.line()
    assert [attempt["outcome"] for attempt in line["attempts"]] == ["credential"]
    page = (await gate.run.gateway._exposition.render()).decode()
    told = 'tiergate_upstream_attempts_total{attempt="1",model="m",outcome="credential",provider="p"} '
    assert float(page.partition(told)[2].partition("\n")[0]) > 0, "an operator can be called by it"


async def test_ak_05_another_provider_serves_meanwhile(gate: Metered) -> None:
    gate.models.acts["two"] = first_refuses
    answer = await gate.ask(model="two")
    assert (answer.status_code, answer.headers["x-gateway-attempts"]) == (200, "two;401, two;200")


async def first_refuses(call: Any) -> None:
    await (refuses(401, NO_KEY) if call.request.header("authorization") == "Bearer sk-up-p" else refuses(200, WHOLE))(call)


WHOLE = b'{"id":"1","choices":[{"index":0,"message":{"role":"assistant","content":"x"},"finish_reason":"stop"}]}'

CALLERS = {
    "x-api-key": SECRET,
    "api-key": SECRET,
    "cookie": f"session={SECRET}",
    "openai-organization": "org-of-the-caller",
    "openai-project": "proj",
    "x-forwarded-for": "203.0.113.9",
    "x-forwarded-host": "host.test",
    "forwarded": "for=203.0.113.9",
    "x-request-id": "theirs",
    "traceparent": "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
    "accept-encoding": "gzip, br",
    "user-agent": "theirs/1.0",
    "proxy-authorization": f"Basic {SECRET}",
    "x-goog-api-key": SECRET,
}
SENT = {"host", "content-type", "content-length", "accept", "accept-encoding", "user-agent", "authorization"}


@pytest.mark.parametrize("stream", [False, True], ids=["whole", "stream"])
async def test_ak_06_each_provider_sees_its_own_key_and_nothing_of_the_callers(stream: bool, gate: Metered) -> None:
    gate.models.acts["two"] = refuses(500)
    body = {"model": "two", "messages": [{"role": "user", "content": "hi"}], "stream": stream}
    await gate.run.client.post(ROUTES["chat"], json=body, headers=CALLERS)
    assert [call.header("authorization") for call in gate.server.requests] == ["Bearer sk-up-p", "Bearer sk-up-q"]
    for call in gate.server.requests:
        assert {name for name, _ in call.headers} <= SENT
        assert len(call.headers) == len({name for name, _ in call.headers})
        assert not {value for _, value in call.headers} & set(CALLERS.values())
        assert SECRET.encode() not in call.body


async def test_ak_07_and_ak_09_a_flood_of_unknown_keys_is_refused_for_nearly_nothing(gate: Metered) -> None:
    redis = gate.run.gateway._redis
    assert (await gate.ask(model="m")).status_code == 200
    await gate.run.settled()
    before = int((await redis.info("stats"))["total_commands_processed"])
    keys = len(gate.run.gateway._corridor._floods._keys)
    async with Wire(gate.run.url) as wire:
        for number in range(300):
            await wire.send(post(CHAT, TYPE, ("authorization", f"Bearer sk-guessed-{number:016}")))
            answer = await wire.answer()
            assert (answer.status, answer.json()["error"]["code"]) == (401, "invalid_api_key")
    assert int((await redis.info("stats"))["total_commands_processed"]) - before < 100
    assert len(gate.run.gateway._corridor._floods._keys) == keys
    assert (await gate.ask(model="m")).status_code == 200
