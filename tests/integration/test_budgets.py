"""Budgets on a gateway that runs: spent to the last request, shared, and none the fresher for a store that was emptied."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import httpx
import msgspec
import pytest
from redis.asyncio import Redis

from gateway.policy.periods import DAY_MS
from tests.fakes.http_server import HttpServer
from tests.fakes.openai import FILTERED, USAGE, Models, answers, refuses
from tests.integration.scene import Scene, scene
from tests.running import Running, config, running
from tests.valkey import Valkey

COST_NANO_USD = 50_000
"""Of an answer, at the prices below: 10 tokens in, 20 out."""

DEPLOYMENT = {"provider": "p", "model": "up-m"}
PRICE = {"input": 1.0, "output": 2.0}
MODELS = {
    "m": {"deployments": [DEPLOYMENT], "price": PRICE},
    "dear": {"deployments": [DEPLOYMENT], "price": {"input": 100.0, "output": 200.0}},
    "free": {"deployments": [DEPLOYMENT]},
    "small": {"deployments": [{"provider": "p", "model": "up-small"}], "price": PRICE, "max_output_tokens": 30},
}


PRICED = [name for name in MODELS if name != "free"]


def usd(requests: float) -> str:
    """Return what so many requests cost, as a configuration writes it."""
    return f"{requests * COST_NANO_USD / 10**9:.9f}"


def budget(requests: float, **fields: str) -> dict[str, Any]:
    return {"usd": msgspec.Raw(usd(requests).encode()), **fields}


def secret(name: str) -> str:
    return f"sk-test-secret-of-{name}"


def settings() -> dict[str, Any]:
    found = config({"p": "{upstream}"}, MODELS)
    projects = {
        "search": {"budget": budget(2.5, period="week")},
        "chat": {},
        "narrow": {"limits": {"rpm": 3, "tpm": 40_000, "concurrency": 2}},
        "words": {"budget": {"tokens": 100}},
    }
    found["orgs"]["team"] = {"plan": "all", "budget": budget(4.5), "projects": projects}
    keys: list[dict[str, Any]] = [
        {"name": "three", "org": "acme", "budget": budget(3.5)},
        {"name": "week", "org": "acme", "budget": budget(1.2, period="week")},
        {"name": "one-of-team", "org": "team"},
        {"name": "other-of-team", "org": "team", "default_project": "search"},
        {"name": "words", "org": "acme", "budget": {"tokens": 100, "period": "day"}, "models": ["*"]},
        {"name": "either", "org": "acme", "budget": {"usd": 0.02, "tokens": 10_000}},
        {"name": "narrow", "org": "lab", "default_project": "narrow", "limits": {"rpm": 60}},
        {"name": "narrow-too", "org": "lab", "default_project": "narrow"},
        {"name": "beside", "org": "lab"},
    ]
    found["orgs"]["lab"] = {"plan": "all", "projects": projects}
    return {**found, "keys": [*found["keys"], *({"models": PRICED, **each, "secret": secret(each["name"])} for each in keys)]}


@pytest.fixture
async def shop(valkey: Valkey, tmp_path: Path) -> AsyncIterator[Scene]:
    async with scene(Models(), settings(), valkey, tmp_path) as found:
        yield found


async def spend(shop: Scene, who: str, **fields: Any) -> httpx.Response:
    response = await shop.ask(key=secret(who), **{"model": "m", "max_tokens": 20, **fields})
    await shop.run.settled()
    return response


def spent_out(response: httpx.Response, words: str) -> None:
    error = response.json()["error"]
    assert (response.status_code, error["type"], error["code"]) == (402, "insufficient_quota", "insufficient_quota")
    assert response.headers["x-should-retry"] == "false"
    assert response.headers["x-gateway-attempts"].endswith(";402")
    assert words in error["message"]


async def test_a_budget_is_spent_until_a_request_could_pass_it(shop: Scene) -> None:
    assert [(await spend(shop, "three")).status_code for _ in range(3)] == [200] * 3
    spent_out(await spend(shop, "three"), "the budget of this key, 0.000175 USD a month")
    rows = await shop.run.rows()
    assert [row["cost_micro_usd"] for row in rows] == [50] * 3
    assert (await spend(shop, "week")).status_code == 200
    spent_out(await spend(shop, "week", stream=True), "a week")


@pytest.mark.parametrize("tier", ["priority", "default", "flex", "auto"])
async def test_a_budget_holds_for_every_tier_and_at_its_price(shop: Scene, tier: str) -> None:
    served = {"priority": 2, "flex": 4}.get(tier, 3)
    for _ in range(served):
        assert (await spend(shop, "three", service_tier=tier)).status_code == 200
    spent_out(await spend(shop, "three", service_tier=tier), "this key")
    assert [row["tier_served"] for row in await shop.run.rows()] == [{"auto": "default"}.get(tier, tier)] * served


async def test_the_dearest_model_that_may_come_to_serve_is_what_counts(shop: Scene) -> None:
    spent_out(await spend(shop, "three", models=["m", "dear"]), "this key")
    assert shop.models.asked == []
    assert (await spend(shop, "three", models=["m", "small"])).status_code == 200


async def test_a_request_without_a_bound_gets_the_one_that_it_was_held_for(shop: Scene) -> None:
    response = await spend(shop, "three", model="small", max_tokens=...)
    assert msgspec.json.decode(shop.server.requests[-1].body)["max_tokens"] == 30
    assert response.headers["x-gateway-adjusted-params"] == "max_tokens=30"
    spent_out(await spend(shop, "three", max_tokens=...), "this key")
    unbound = await shop.ask(model="m")
    assert "max_tokens" not in msgspec.json.decode(shop.server.requests[-1].body)
    assert "x-gateway-adjusted-params" not in unbound.headers


async def test_tokens_are_spent_until_a_request_could_pass_them(shop: Scene) -> None:
    """Each answer has 30 tokens, in and out, whatever it costs; each request may come to some more."""
    assert [(await spend(shop, "words")).status_code for _ in range(2)] == [200] * 2
    spent_out(await spend(shop, "words", max_tokens=60), "may take more than is left of the budget of this key, 100 tokens a day")
    assert (await spend(shop, "words", max_tokens=5, model="dear")).status_code == 200
    refused = await spend(shop, "words", max_tokens=5)
    resets = datetime.now(UTC).date() + timedelta(days=1)
    spent_out(refused, f"which begins anew on {resets} at 00:00 UTC")
    shop.models.acts["m"] = answers(usage={"prompt_tokens": 1, "completion_tokens": 1, "total_tokens": 2})
    rows = await shop.run.rows()
    assert sum(row["input_tokens"] + row["output_tokens"] for row in rows) == 90
    left = (await shop.run.client.get("/v1/key", headers={"authorization": f"Bearer {secret('words')}"})).json()["budgets"]
    assert [(line["limit_tokens"], line["spent_tokens"], line["remaining_tokens"]) for line in left] == [(100, 90, 10)]


async def test_a_budget_of_tokens_bounds_what_is_sent_and_needs_no_price(shop: Scene) -> None:
    spent_out(await spend(shop, "words", model="small", max_tokens=..., n=4), "100 tokens a day")
    response = await spend(shop, "words", model="small", max_tokens=...)
    assert msgspec.json.decode(shop.server.requests[-1].body)["max_tokens"] == 30
    assert response.headers["x-gateway-adjusted-params"] == "max_tokens=30"
    assert (await spend(shop, "words", model="free", max_tokens=20)).status_code == 200
    assert (await shop.run.rows())[0]["cost_micro_usd"] is None


async def test_of_money_and_tokens_the_first_to_be_spent_refuses(shop: Scene) -> None:
    spent_out(await spend(shop, "either", model="dear", max_tokens=200), "this key, 0.02 USD a month")
    shop.models.acts["m"] = answers(usage={"prompt_tokens": 9_980, "completion_tokens": 1, "total_tokens": 9_981})
    assert (await spend(shop, "either")).status_code == 200, "what a prompt has more than was estimated goes beyond"
    spent_out(await spend(shop, "either"), "this key, 10000 tokens a month")


async def test_a_projects_tokens_are_shared_by_its_keys(shop: Scene) -> None:
    path = "/v1/chat/completions?ai_project_id=words"
    codes = [(await spend(shop, who, path=path)).status_code for who in ("beside", "narrow", "beside", "narrow")]
    assert codes == [200, 200, 200, 402]
    spent_out(await spend(shop, "beside", path=path), "the budget of this project, 100 tokens a month")
    assert (await spend(shop, "beside")).status_code == 200


async def test_limits_of_a_project_are_shared_by_its_keys_and_named(shop: Scene) -> None:
    answered = [await spend(shop, who) for who in ("narrow", "narrow-too", "narrow", "narrow-too")]
    assert [each.status_code for each in answered] == [200, 200, 200, 429]
    refused = answered[-1]
    assert refused.json()["error"]["code"] == "rate_limit_exceeded"
    assert "requests per minute (RPM) of this project: limit 3" in refused.json()["error"]["message"]
    assert 1 <= int(refused.headers["retry-after"]) <= 21
    shown = [(each.headers["x-ratelimit-limit-requests"], each.headers["x-ratelimit-limit-tokens"]) for each in answered]
    assert shown == [("3", "40000")] * 4, "the tightest, which is the project's"
    assert (await spend(shop, "narrow", path="/v1/chat/completions?ai_project_id=chat")).headers[
        "x-ratelimit-limit-requests"
    ] == "60"
    assert (await spend(shop, "beside")).status_code == 200


async def test_a_projects_slots_are_counted_over_its_keys(shop: Scene) -> None:
    async with shop.filled("m", "m", key=secret("narrow")):
        refused = await shop.ask(key=secret("narrow-too"), model="m", service_tier="flex")
        assert refused.status_code == 429
        assert "2 concurrent requests of this project are running already" in refused.json()["error"]["message"]
    assert (await spend(shop, "narrow-too", service_tier="flex")).status_code == 200


async def test_what_a_provider_refused_is_not_spent(shop: Scene) -> None:
    shop.models.acts["m"] = refuses(400, FILTERED)
    assert [(await spend(shop, "three")).status_code for _ in range(4)] == [400] * 4
    shop.models.forget()
    assert [(await spend(shop, "three")).status_code for _ in range(4)] == [200] * 3 + [402]


@pytest.mark.parametrize(
    "more",
    [
        {"best_of": 100},
        {"suffix": "x" * 40_000},
        {"response_format": {"type": "json_schema", "json_schema": {"name": "n", "schema": {"description": "x" * 40_000}}}},
        {"data": {"image": ["data:image/png;base64,AAAA"] * 20}},
    ],
)
async def test_all_that_a_request_makes_its_provider_do_is_held(shop: Scene, more: dict[str, Any]) -> None:
    response = await spend(shop, "three", path="/v1/completions", prompt="Hi", **more)
    spent_out(response, "this key")
    assert (await spend(shop, "three", path="/v1/completions", prompt="Hi")).status_code == 200


async def test_an_answer_that_is_longer_than_it_may_be_is_spent_in_full(shop: Scene) -> None:
    shop.models.acts["m"] = answers(usage={**USAGE, "completion_tokens": 90, "total_tokens": 100})
    assert (await spend(shop, "three")).status_code == 200
    spent_out(await spend(shop, "three", max_tokens=1), "this key")


async def test_what_runs_is_held_for(shop: Scene) -> None:
    async with shop.filled("small", "small", key=secret("three")):
        spent_out(await shop.ask(key=secret("three"), model="small"), "this key")
    assert [(await spend(shop, "three")).status_code for _ in range(2)] == [200, 402]


async def test_a_project_and_an_org_have_budgets_of_their_own(shop: Scene) -> None:
    assert [(await spend(shop, "other-of-team")).status_code for _ in range(2)] == [200] * 2
    spent_out(await spend(shop, "other-of-team"), "the budget of this project, 0.000125 USD a week")
    in_search = await shop.ask(
        key=secret("one-of-team"), path="/v1/chat/completions?ai_project_id=search", model="m", max_tokens=20
    )
    spent_out(in_search, "this project")
    in_chat = await shop.ask(
        key=secret("other-of-team"), path="/v1/chat/completions?ai_project_id=chat", model="m", max_tokens=20
    )
    assert in_chat.status_code == 200
    await shop.run.settled()
    assert (await spend(shop, "one-of-team")).status_code == 200
    spent_out(await spend(shop, "one-of-team"), "the budget of this organization, 0.000225 USD a month")


async def test_a_store_that_was_emptied_gives_nobody_a_fresh_budget(shop: Scene, valkey: Valkey) -> None:
    for who in ("three", "three", "one-of-team", "one-of-team", "other-of-team"):
        assert (await spend(shop, who)).status_code == 200
    await shop.run.rows()
    await emptied(valkey)
    answered = await asyncio.gather(*(shop.ask(key=secret("three"), model="m", max_tokens=20) for _ in range(12)))
    assert sorted(each.status_code for each in answered) == [200] + [402] * 11
    await shop.run.settled()
    assert [(await spend(shop, who)).status_code for who in ("other-of-team", "other-of-team", "one-of-team")] == [200, 402, 402]


async def test_without_ledger_and_store_nobody_guesses(shop: Scene, valkey: Valkey) -> None:
    assert (await spend(shop, "three")).status_code == 200
    await shop.run.rows()
    await emptied(valkey)
    for path in Path(shop.run.database.removeprefix("sqlite:///")).parent.glob("ledger.db*"):
        path.rename(path.with_name(f"away-{path.name}"))
    response = await shop.ask(key=secret("three"), model="m", max_tokens=20)
    assert (response.status_code, response.json()["error"]["code"]) == (503, "limiter_unavailable")
    assert int(response.headers["retry-after"]) >= 1
    assert (await shop.ask(model="m")).status_code == 200, "without a budget nothing has to be known"


async def test_two_gateways_share_a_budget(valkey: Valkey, tmp_path: Path) -> None:
    async with HttpServer(Models()) as server, AsyncExitStack() as stack:
        shared = settings()
        shared["providers"]["p"]["base_url"] = f"{server.base_url}/v1"
        gateways = [await stack.enter_async_context(running(shared, valkey, tmp_path, worker=name)) for name in ("w1", "w2")]
        asked = {"model": "m", "messages": [{"role": "user", "content": "hi"}], "max_tokens": 20}
        headers = {"authorization": f"Bearer {secret('three')}"}
        codes = []
        for turn in range(6):
            gateway = gateways[turn % 2]
            codes.append((await gateway.client.post("/v1/chat/completions", json=asked, headers=headers)).status_code)
            await gateway.settled()
        assert codes == [200] * 3 + [402] * 3


async def test_an_alert_is_told_once_by_all_gateways(valkey: Valkey, tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """At four fifths of a budget unless it says otherwise: of money by the third of 3.5 requests, of tokens by the second."""
    async with HttpServer(Models()) as server, AsyncExitStack() as stack:
        shared = {**settings(), "telemetry": {"level": "warning"}}
        shared["keys"][-1]["budget"] = {"tokens": 120, "period": "week", "alert": 0.5}
        shared["providers"]["p"]["base_url"] = f"{server.base_url}/v1"
        gateways = [await stack.enter_async_context(running(shared, valkey, tmp_path, worker=name)) for name in ("w1", "w2")]
        heard: list[int] = []
        for turn in range(12):
            who = "three" if turn % 2 else "beside"
            headers = {"authorization": f"Bearer {secret(who)}"}
            asked = {"model": "m", "messages": [{"role": "user", "content": "hi"}], "max_tokens": 20}
            gateway = gateways[turn % 3 % 2]
            await gateway.client.post("/v1/chat/completions", json=asked, headers=headers)
            await gateway.settled()
            await asyncio.sleep(0.05)
            heard.append(sum([await alerts_of(each) for each in gateways]))
        assert heard == [0, 0, 1, 1, 1, 2, 2, 2, 2, 2, 2, 2]
    lines = [msgspec.json.decode(line) for line in capfd.readouterr().out.splitlines()]
    told = [{name: line[name] for name in line if name != "ts"} for line in lines if line["event"] == "budget_alert"]
    assert told == [
        {
            "level": "warning",
            "event": "budget_alert",
            "scope": "key",
            "name": "beside",
            "period": "week",
            "share": 0.5,
            "limit_tokens": 120,
            "spent_tokens": 60,
        },
        {
            "level": "warning",
            "event": "budget_alert",
            "scope": "key",
            "name": "three",
            "period": "month",
            "share": 0.8,
            "limit_nano_usd": 175_000,
            "spent_nano_usd": 150_000,
        },
    ]


async def test_how_far_the_files_orgs_are_in_their_budgets_is_a_gauge(shop: Scene) -> None:
    """A budget that the next period began of is unspent, whoever has heard of it."""
    name = 'tiergate_org_budget_used_ratio{org="team",period="month",unit="usd"}'
    assert await value(shop.run, name) == 0
    assert [(await spend(shop, "one-of-team")).status_code for _ in range(3)] == [200] * 3
    assert await value(shop.run, name) == pytest.approx(3 / 4.5)
    alerts = shop.run.gateway._budgeted._alerts
    [(budget, (spent, at_ms))] = alerts.heard.items()
    alerts.heard[budget] = spent, at_ms - 32 * DAY_MS
    assert await value(shop.run, name) == 0


async def value(gateway: Running, series: str) -> float:
    page = (await gateway.gateway._exposition.render()).decode()
    [line] = [line for line in page.splitlines() if line.startswith(f"{series} ")]
    return float(line.split()[-1])


async def alerts_of(gateway: Running) -> int:
    page = (await gateway.gateway._exposition.render()).decode()
    return sum(int(float(line.split()[-1])) for line in page.splitlines() if line.startswith("tiergate_budget_alerts_total{"))


async def emptied(valkey: Valkey) -> None:
    client = Redis(unix_socket_path=valkey.socket)
    await client.flushall()
    await client.aclose()
