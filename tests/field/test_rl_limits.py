"""Cases RL-05 to RL-07 and RL-15 to RL-17: where a limit begins, what it says, and what is given back."""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator

import httpx
import pytest
import pytest_asyncio
from msgspec.structs import replace

from gateway.policy.charges import Dimension
from tests.fakes.http_server import Call
from tests.fakes.openai import BUSY, DONE, JSON, SSE, answers, error, event, refuses, streams
from tests.field.metering import Metered, figures, key, metered, model, prompt_tokens, secret, settings
from tests.integration.test_cuts import Faulty
from tests.valkey import Valkey

pytestmark = pytest.mark.asyncio(loop_scope="module")

PATHS = {"chat": "/v1/chat/completions", "completions": "/v1/completions"}
PROMPT_TOKENS = prompt_tokens("fresh")
EACH = PROMPT_TOKENS + 33
"""What a request holds that wants 33 tokens."""

MODELS = {
    "fresh": model("fresh"),
    "lost": model("lost", "lost"),
    "cooled": model("cooled"),
    "other": model("other"),
}
KEYS = [
    key("single", limits={"concurrency": 1}),
    key("late", limits={"tpm": 2 * EACH}),
    key("longer", limits={"tpm": 2 * EACH}),
    key("looping", limits={"rpm": 2}),
    key("impatient", limits={"rpm": 1}),
    key("headers", limits={"rpm": 60, "tpm": 6_000}),
    key("one-rpm", limits={"rpm": 1}),
    key("one-rpd", limits={"rpd": 1}),
    key("one-concurrency", limits={"concurrency": 1}),
    key("one-tpm", limits={"tpm": EACH}),
    key("one-tpm_in", limits={"tpm_in": PROMPT_TOKENS}),
    key("one-tpm_out", limits={"tpm_out": 33}),
    key("one-model", limits={"per_model": {"fresh": {"rpm": 1}}}),
    key("one-org", org="small"),
    key("too-small", limits={"tpm": EACH - 1}),
]


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def shared(valkey_server: Valkey, tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Metered]:
    found = settings(*KEYS, models=MODELS, limits={"body": "64KiB"})
    found["providers"]["lost"] = {**found["providers"]["p"], "base_url": "http://host.invalid/v1"}
    found["orgs"]["small"] = {"plan": "all", "limits": {"rpm": 1}}
    async with metered(found, valkey_server, tmp_path_factory.mktemp("limits")) as gate:
        yield gate


@pytest_asyncio.fixture(loop_scope="module")
async def gate(shared: Metered) -> AsyncIterator[Metered]:
    yield shared
    await shared.rest()


async def send(gate: Metered, name: str, body: bytes, path: str = PATHS["chat"]) -> httpx.Response:
    headers = {"authorization": f"Bearer {secret(name)}", "content-type": "application/json"}
    return await gate.run.client.post(path, content=body, headers=headers)


GOOD = b'{"model":"m","messages":[{"role":"user","content":"hi"}]}'
EARLY: dict[str, tuple[bytes, int]] = {
    "unknown model": (GOOD.replace(b'"m"', b'"none"'), 404),
    "malformed JSON": (GOOD[:-1], 400),
    "no role": (GOOD.replace(b'"role"', b'"part"'), 422),
    "a role that the provider does not know": (GOOD.replace(b'"user"', b'"user2"'), 400),
    "too large": (GOOD.replace(b"hi", b"x" * 70_000), 413),
    "a host that nobody knows": (GOOD.replace(b'"m"', b'"lost"'), 502),
    "a fault of the gateway's": (GOOD, 500),
}


@pytest.mark.parametrize("way", EARLY)
async def test_rl_05_a_request_that_fails_early_keeps_no_slot(way: str, gate: Metered) -> None:
    body, status = EARLY[way]
    snapshot = gate.run.gateway._corridor.snapshot
    if status == 500:
        provider = snapshot.catalogue.models["m"].deployments[0].provider
        gate.run.gateway._corridor.snapshot = replace(snapshot, dialects={**snapshot.dialects, "p": Faulty(provider)})
    if b"user2" in body:
        gate.models.acts["m"] = refuses(400, error("Invalid role"))
    assert (await send(gate, "single", body)).status_code == status
    gate.run.gateway._corridor.snapshot = snapshot
    gate.models.acts.clear()
    await gate.run.settled()
    assert (await send(gate, "single", GOOD)).status_code == 200
    await gate.run.settled()
    assert (await figures(gate.run, "k:single", Dimension.CONCURRENCY))[1] == 0


@pytest.mark.parametrize(("name", "used", "wait_s"), [("late", EACH, 30), ("longer", 2 * EACH, 90)], ids=["as held", "longer"])
async def test_rl_06_tokens_are_held_before_they_are_used(name: str, used: int, wait_s: int, gate: Metered) -> None:
    go_on = asyncio.Event()

    async def act(call: Call) -> None:
        call.head(200, SSE, chunked=True)
        call.piece(event({"content": "x"}))
        await go_on.wait()
        stated = {"prompt_tokens": PROMPT_TOKENS, "completion_tokens": used - PROMPT_TOKENS}
        call.piece(event({}, "stop") + event({}, choices=[], usage=stated) + DONE)
        call.end()

    gate.models.acts["fresh"] = act
    asking = [asyncio.create_task(gate.ask(key=secret(name), model="fresh", max_tokens=33, stream=True)) for _ in range(10)]
    async with asyncio.timeout(5.0):
        while sum(task.done() for task in asking) < 8:
            await asyncio.sleep(0.002)
    go_on.set()
    answered = await asyncio.gather(*asking)
    assert Counter(answer.status_code for answer in answered) == {200: 2, 429: 8}
    await gate.run.settled()
    # What was used is charged when it is known, all of it, and leaks away from then on.
    after = await gate.ask(key=secret(name), model="fresh", max_tokens=33)
    assert (after.status_code, after.json()["error"]["type"]) == (429, "tokens")
    assert wait_s - 5 <= int(after.headers["retry-after"]) <= wait_s
    assert after.headers["x-ratelimit-remaining-tokens"] == "0" or int(after.headers["x-ratelimit-remaining-tokens"]) < EACH


NO_GOOD = (b"{", GOOD.replace(b'"role"', b'"part"'), GOOD.replace(b'"m"', b'"none"'), GOOD[:-1] + b',"temperature":9}')


async def test_rl_07_a_client_that_loops_is_turned_away_at_last(gate: Metered) -> None:
    answered = [await send(gate, "looping", NO_GOOD[number % len(NO_GOOD)]) for number in range(100)]
    statuses = [answer.status_code for answer in answered]
    turned_away = statuses.index(429)
    assert 40 <= turned_away <= 42, "twenty times its limit of requests"
    assert {*statuses[:turned_away]} <= {400, 404, 422}
    assert Counter(statuses[turned_away:])[429] >= 50, "but for what has leaked since"
    assert int(answered[-1].headers["retry-after"]) <= 2, "to be turned away does not make it later"
    assert await gate.posted("looping", Dimension.RPM) == 0, "what is refused consumes nothing"


async def test_rl_07_to_knock_does_not_make_it_later(gate: Metered) -> None:
    assert (await gate.ask(key=secret("impatient"), model="m")).status_code == 200
    knocks = [await gate.ask(key=secret("impatient"), model="m") for _ in range(15)]
    waits_s = [int(answer.headers["retry-after"]) for answer in knocks]
    assert {answer.status_code for answer in knocks} == {429}
    assert 60 >= waits_s[0] >= waits_s[-1] >= 50


ONE: dict[str, tuple[str, str]] = {
    "one-rpm": ("requests", "requests per minute"),
    "one-rpd": ("requests", "requests per day"),
    "one-concurrency": ("requests", "concurrent requests"),
    "one-tpm": ("tokens", "tokens per minute"),
    "one-tpm_in": ("tokens", "input tokens per minute"),
    "one-tpm_out": ("tokens", "output tokens per minute"),
    "one-model": ("requests", "requests per minute"),
    "one-org": ("requests", "requests per minute"),
}


@pytest.mark.parametrize("name", ONE)
async def test_rl_15_the_first_passes_and_rl_16_the_second_hears_why_not(name: str, gate: Metered) -> None:
    go_on = asyncio.Event()

    async def act(call: Call) -> None:
        await go_on.wait()
        await answers(usage={"prompt_tokens": PROMPT_TOKENS, "completion_tokens": 33})(call)

    gate.models.acts["fresh"] = act
    first = asyncio.create_task(gate.ask(key=secret(name), model="fresh", max_tokens=33))
    await gate.server.until(lambda: bool(gate.server.requests))
    second = await gate.ask(key=secret(name), model="fresh", max_tokens=33)
    go_on.set()
    assert (await first).status_code == 200
    await gate.run.settled()
    assert_says_why(second, *ONE[name])
    if name == "one-concurrency":
        return
    third = await gate.ask(key=secret(name), model="fresh", max_tokens=33)
    assert_says_why(third, *ONE[name])
    assert int(third.headers["retry-after"]) >= (58 if name != "one-rpd" else 1), "all of it is used, and a minute gives it back"


def assert_says_why(refused: httpx.Response, kind: str, words: str) -> None:
    told = refused.json()["error"]
    assert (refused.status_code, told["type"], told["code"]) == (429, kind, "rate_limit_exceeded")
    assert words in told["message"]
    assert refused.headers["retry-after"].isdigit()
    assert 1 <= int(refused.headers["retry-after"]) <= (86_400 if "day" in words else 60)
    assert not [name for name, value in refused.headers.items() if name.startswith("x-ratelimit-remaining") and value != "0"]
    assert refused.headers["x-gateway-attempts"] == "fresh;429"


async def test_rl_15_one_token_short_is_said_never_to_fit(gate: Metered) -> None:
    answer = await gate.ask(key=secret("too-small"), model="fresh", max_tokens=33)
    assert (answer.status_code, answer.headers["x-should-retry"]) == (429, "false")
    assert f"limit {EACH - 1}, requested {EACH}" in answer.json()["error"]["message"]
    assert "retry-after" not in answer.headers
    assert (await gate.ask(key=secret("too-small"), model="fresh", max_tokens=32)).status_code == 200


async def test_rl_16_a_busy_model_is_no_limit_of_the_callers(gate: Metered) -> None:
    gate.models.acts["cooled"] = refuses(429, BUSY, retry_after="7", x_ratelimit_remaining_requests="-20")
    answer = await gate.ask(model="cooled", fail_fast=True, key=secret("headers"))
    told = answer.json()["error"]
    assert (answer.status_code, told["code"], answer.headers["retry-after"]) == (429, "engine_overloaded", "7")
    assert int(answer.headers["x-ratelimit-remaining-requests"]) >= 0


THEIRS = {f"x-ratelimit-{kind}-{of}": "77" for kind in ("limit", "remaining", "reset") for of in ("requests", "tokens")}


@pytest.mark.parametrize("path", PATHS)
@pytest.mark.parametrize("stream", [False, True], ids=["whole", "stream"])
async def test_rl_17_the_callers_own_limits_are_told_and_the_providers_are_not(stream: bool, path: str, gate: Metered) -> None:
    async def act(call: Call) -> None:
        headers = [*THEIRS.items(), ("ratelimit", "77"), ("x-ratelimit-limit-requests-day", "77")]
        if stream:
            call.head(200, [*SSE, *headers], chunked=True)
            call.piece(event({}, choices=[{"index": 0, "text": "x", "delta": {"content": "x"}, "finish_reason": "stop"}]) + DONE)
            call.end()
        else:
            call.head(200, [*JSON, *headers], length=len(WHOLE))
            call.write(WHOLE)

    gate.models.acts["m"] = act
    answer = await gate.ask(key=secret("headers"), path=PATHS[path], model="m", stream=stream, max_tokens=10)
    assert answer.status_code == 200
    found = {name: value for name, value in answer.headers.items() if "ratelimit" in name}
    assert found.keys() == THEIRS.keys()
    assert (found["x-ratelimit-limit-requests"], found["x-ratelimit-limit-tokens"]) == ("60", "6000")
    assert 50 <= int(found["x-ratelimit-remaining-requests"]) < 60
    assert 5_000 <= int(found["x-ratelimit-remaining-tokens"]) < 6_000
    assert all(found[f"x-ratelimit-reset-{of}"].endswith("s") for of in ("requests", "tokens"))
    assert "77" not in found.values()


WHOLE = b'{"id":"1","choices":[{"index":0,"message":{"role":"assistant","content":"x"},"text":"x","finish_reason":"stop"}]}'


async def test_rl_17_a_key_without_limits_is_told_none(gate: Metered) -> None:
    gate.models.acts["m"] = streams(event({"content": "x"}, "stop"), DONE)
    answer = await gate.ask(model="m", stream=True)
    assert not [name for name in answer.headers if "ratelimit" in name]
