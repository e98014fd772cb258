"""`GET /v1/key`: what its bearer hears of a key, and what nobody does."""

import asyncio
import time
from collections.abc import AsyncIterator
from datetime import UTC, datetime
from typing import Any

import httpx
import msgspec
import pytest
import pytest_asyncio

from gateway.policy.periods import PERIODS, bounds_ms
from tests.fakes.openai import Models, answers
from tests.integration.scene import Scene, scene
from tests.running import config
from tests.valkey import Valkey

pytestmark = pytest.mark.asyncio(loop_scope="module")

V1, OPENAI, DEEPINFRA, NEBIUS = PREFIXES = ("/v1", "/v1/openai", "/deepinfra/v1", "/nebius/v1")
USAGE = {"prompt_tokens": 40, "completion_tokens": 60, "total_tokens": 100}
COST_MICRO_USD = 160
DEPLOYMENT = {"provider": "p", "model": "up-m"}
EXPIRES = "2999-01-01"

KEYS: dict[str, dict[str, Any]] = {
    "mine": {
        "limits": {"rpm": 60, "tpm": 60_000, "rpd": 1_000, "concurrency": 5, "per_model": {"m": {"rpm": 30}}},
        "flex": {"rpm": 7},
        "over_limit": {"rpm": 6, "concurrency": 1},
        "budget": {"usd": 5, "period": "day"},
        "models": ["m"],
        "expires": EXPIRES,
        "default_tier": "flex",
    },
    "other": {"limits": {"rpm": 60}, "budget": {"usd": 3}},
    "narrow": {"limits": {"rpm": 1, "concurrency_per_model": 2}},
    "grown": {"limits": {"rpm": 60, "dynamic": {"window": "1m", "ceiling": 3}}},
    "elsewhere": {"ips": ["10.9.8.7"]},
    "late": {"expires": "2020-01-01"},
    "roomy": {},
}


def secret(name: str) -> str:
    return f"sk-test-secret-of-{name}"


def settings() -> dict[str, Any]:
    models = {name: {"deployments": [DEPLOYMENT], "price": {"input": 1.0, "output": 2.0}} for name in ("m", "n")}
    org = {
        "limits": {"rpm": 600, "per_model": {"m": {"tpm": 90_000}}},
        "budget": {"usd": 100},
        "projects": {"search": {"budget": {"usd": 9, "period": "week"}}, "chat": {}},
    }
    found = config({"p": "{upstream}"}, models, org=org)
    found["keys"] += [{"name": name, "org": "acme", "secret": secret(name), **rights} for name, rights in KEYS.items()]
    found["keys"][-1]["org"] = "others"
    found["orgs"]["others"] = {"plan": "all"}
    return found


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def shared(valkey_server: Valkey, tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Scene]:
    async with scene(Models(), settings(), valkey_server, tmp_path_factory.mktemp("key")) as found:
        yield found


@pytest_asyncio.fixture(loop_scope="module")
async def gate(shared: Scene) -> AsyncIterator[Scene]:
    await shared.run.gateway._redis.flushall()
    shared.models.acts["m"] = answers(usage=USAGE)
    yield shared
    await shared.rest()


async def get(gate: Scene, name: str, url: str = "/v1/key") -> httpx.Response:
    return await gate.run.client.get(url, headers={"authorization": f"Bearer {secret(name)}"})


async def told(gate: Scene, name: str, url: str = "/v1/key") -> Any:
    response = await get(gate, name, url)
    assert response.status_code == 200
    return response.json()


def limit(account: Any, scope: str, kind: str, model: str | None = None) -> Any:
    [found] = [line for line in account["limits"] if (line["scope"], line["kind"], line["model"]) == (scope, kind, model)]
    return found


def spent(account: Any, scope: str = "key") -> Any:
    [found] = [line for line in account["budgets"] if line["scope"] == scope]
    return found


async def test_who_one_is_and_what_one_may(gate: Scene) -> None:
    account = await told(gate, "mine")
    assert (account["object"], account["id"], account["name"], account["org"]) == ("key", "mine", "mine", "acme")
    assert account["expires_at"] == datetime.fromisoformat(EXPIRES).replace(tzinfo=UTC).timestamp()
    assert (account["models"], account["project"]) == (["m"], None)
    rights = account["service_tiers"]
    assert rights["allowed"] == ["auto", "priority", "default", "flex"]
    assert (rights["auto"], rights["over_limit"], set(rights["absent"].values())) == ("overflow", True, {"flex"})
    assert (await told(gate, "other"))["models"] == ["m", "n"]


async def test_every_limit_with_its_level(gate: Scene) -> None:
    await gate.ask(key=secret("mine"), model="m", service_tier="default", max_tokens=60)
    await gate.run.settled()
    account = await told(gate, "mine")
    minute = limit(account, "key", "rpm")
    assert (minute["limit"], minute["burst"], minute["held"], minute["scale"]) == (60, 60, 0, None)
    assert (minute["used"], minute["remaining"]) in ((1, 59), (0, 60))
    assert limit(account, "key", "rpd") | {"reset_ms": 0} == {
        "scope": "key",
        "model": None,
        "kind": "rpd",
        "limit": 1_000,
        "burst": 1_000,
        "scale": None,
        "used": 1,
        "held": 0,
        "remaining": 999,
        "reset_ms": 0,
    }
    assert 0 < limit(account, "key", "rpd")["reset_ms"] <= PERIODS["day"]
    assert limit(account, "key", "tpm")["used"] in range(1, 101)
    assert limit(account, "key", "rpm", "m")["limit"] == 30
    assert limit(account, "flex", "rpm")["remaining"] == 7
    assert limit(account, "over-limit", "concurrency")["limit"] == 1


async def test_what_runs_is_held(gate: Scene) -> None:
    async with gate.filled("m", "m", key=secret("mine")):
        account = await told(gate, "mine")
        assert limit(account, "key", "concurrency") | {"reset_ms": 0} == {
            "scope": "key",
            "model": None,
            "kind": "concurrency",
            "limit": 5,
            "burst": 5,
            "scale": None,
            "used": 0,
            "held": 2,
            "remaining": 3,
            "reset_ms": 0,
        }
        assert spent(account)["held_micro_usd"] > 0
        assert limit(await told(gate, "other"), "key", "rpm")["held"] == 0
    assert limit(await told(gate, "mine"), "key", "concurrency")["remaining"] == 5


async def test_every_model_has_the_limits_that_hold_for_each(gate: Scene) -> None:
    account = await told(gate, "narrow")
    assert [limit(account, "key", "concurrency", model)["limit"] for model in ("m", "n")] == [2, 2]


async def test_a_limit_that_grows_tells_how_far_it_has(gate: Scene) -> None:
    assert limit(await told(gate, "grown"), "key", "rpm")["scale"] == 1.0


async def test_what_was_spent_and_when_that_is_over(gate: Scene) -> None:
    before = int(time.time() * 1000)
    budget = spent(await told(gate, "mine"))
    already = budget["spent_micro_usd"]
    await gate.ask(key=secret("mine"), model="m", max_tokens=60, service_tier="default")
    await gate.run.settled()
    budget = spent(await told(gate, "mine"))
    assert (budget["period"], budget["limit_micro_usd"], budget["held_micro_usd"]) == ("day", 5_000_000, 0)
    assert budget["spent_micro_usd"] == already + COST_MICRO_USD
    assert budget["remaining_micro_usd"] == 5_000_000 - budget["spent_micro_usd"]
    assert budget["resets_at"] in {bounds_ms(at_ms, PERIODS["day"])[1] // 1000 for at_ms in (before, int(time.time() * 1000))}


async def test_a_store_that_knows_nothing_is_told_by_the_ledger(gate: Scene) -> None:
    await gate.ask(key=secret("other"), model="m", max_tokens=60, service_tier="default")
    await gate.run.rows()
    known = spent(await told(gate, "other"))
    await gate.run.gateway._redis.flushall()
    again = await asyncio.gather(*(told(gate, "other") for _ in range(5)))
    assert [spent(account) for account in again] == [known] * 5
    assert known["spent_micro_usd"] >= COST_MICRO_USD


async def test_what_others_have_used_is_not_told(gate: Scene) -> None:
    before = await told(gate, "other")
    for name in ("mine", "narrow"):
        await gate.ask(key=secret(name), model="m", max_tokens=60, service_tier="default")
    await gate.run.settled()
    account = await told(gate, "other", "/v1/key?ai_project_id=search")
    assert account["limits"] == before["limits"]
    shared = [limit(account, "org", "rpm"), limit(account, "org", "tpm", "m")]
    assert [(line["limit"], line["used"], line["held"], line["remaining"]) for line in shared] == [
        (600, None, None, None),
        (90_000, None, None, None),
    ]
    for scope, usd in (("org", 100), ("project", 9)):
        line = spent(account, scope)
        assert (line["limit_micro_usd"], line["spent_micro_usd"], line["remaining_micro_usd"]) == (usd * 10**6, None, None)
    text = msgspec.json.encode(account).decode()
    assert not any(name in text for name in ("mine", "narrow", "sk-test", "sk-up", "roomy"))


async def test_a_key_without_limits_has_none(gate: Scene) -> None:
    account = await told(gate, "roomy")
    assert (account["limits"], account["budgets"], account["expires_at"]) == ([], [], None)


async def test_it_costs_nothing(gate: Scene) -> None:
    for _ in range(50):
        assert limit(await told(gate, "narrow"), "key", "rpm")["remaining"] == 1
    assert (await gate.ask(key=secret("narrow"), model="m", service_tier="default")).status_code == 200
    await gate.run.settled()
    assert limit(await told(gate, "narrow"), "key", "rpm")["remaining"] == 0
    assert gate.models.asked == ["m"]


@pytest.mark.parametrize(
    ("prefix", "auto", "chat", "embeddings"),
    [
        (V1, "overflow", "auto", "default"),
        (OPENAI, "priority", "default", "default"),
        (DEEPINFRA, "priority", "default", "default"),
        (NEBIUS, "overflow", "auto", "auto"),
    ],
)
async def test_below_each_prefix_by_its_contract(prefix: str, auto: str, chat: str, embeddings: str, gate: Scene) -> None:
    rights = (await told(gate, "other", f"{prefix}/key"))["service_tiers"]
    assert (rights["auto"], rights["absent"]["chat"], rights["absent"]["embeddings"]) == (auto, chat, embeddings)


@pytest.mark.parametrize("prefix", PREFIXES)
@pytest.mark.parametrize(
    ("name", "query", "status", "code"),
    [
        ("nobody", "", 401, "invalid_api_key"),
        ("late", "", 401, "invalid_api_key"),
        ("elsewhere", "", 403, "ip_not_allowed"),
        ("other", "?ai_project_id=none", 403, "project_not_allowed"),
    ],
)
async def test_who_may_not_enter_hears_nothing(name: str, query: str, status: int, code: str, prefix: str, gate: Scene) -> None:
    response = await get(gate, name, f"{prefix}/key{query}")
    error = response.json()["error"]
    assert (response.status_code, error["code"], len(response.headers["x-request-id"])) == (status, code, 36)
    assert "limits" not in response.text
    assert ("detail" in response.json()) == (prefix != V1)


async def test_while_the_store_does_not_answer_nobody_is_told_a_figure(gate: Scene) -> None:
    """What one worker knows by itself is not what the key has used."""
    await gate.run.gateway._redis.client_pause(400)
    response = await get(gate, "mine")
    assert (response.status_code, response.json()["error"]["code"]) == (503, "limiter_unavailable")
    assert int(response.headers["retry-after"]) >= 1
    async with asyncio.timeout(5.0):
        while (await get(gate, "mine")).status_code != 200:
            await asyncio.sleep(0.05)


async def test_without_a_key_there_is_nothing_to_see(gate: Scene) -> None:
    async with httpx.AsyncClient(base_url=gate.run.url, trust_env=False, verify=False) as nobody:
        response = await nobody.get("/v1/key")
    assert (response.status_code, response.json()["error"]["code"]) == (401, "invalid_api_key")


async def test_it_is_described(gate: Scene) -> None:
    described = (await gate.run.client.get("/openapi.json")).json()
    assert {f"{prefix}/key" for prefix in PREFIXES} <= set(described["paths"])
    schemas, account = described["components"]["schemas"], await told(gate, "mine")
    for name, found in (("Account", account), ("LimitLine", account["limits"][0]), ("BudgetLine", account["budgets"][0])):
        assert set(schemas[name]["properties"]) == set(found)


async def test_other_methods_are_refused(gate: Scene) -> None:
    response = await gate.run.client.post("/v1/key", json={})
    assert (response.status_code, response.json()["error"]["code"]) == (405, "method_not_allowed")
