"""What the admin API shows: budgets, the audit, the configuration, recent requests; and never a secret."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio

from gateway.policy.credentials import digest
from tests.fakes.openai import answers, silence
from tests.integration.ops.admin import ADMIN, OPERATOR, VIEWER, Post, post
from tests.integration.test_minted_keys import asked
from tests.running import PEPPER, SECRET
from tests.valkey import Valkey

pytestmark = pytest.mark.asyncio(loop_scope="module")

PLENTY = {"prompt_tokens": 1000, "completion_tokens": 500}
FIGURES = ("scope", "org", "project", "key_id", "spent_micro_usd", "spent_tokens", "share")


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def gate(valkey_server: Valkey, tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Post]:
    org = {"budget": {"usd": 5, "alert": 0.5}, "projects": {"search": {"budget": {"usd": 1, "period": "day"}}}}
    key = {"budget": {"tokens": 3000}}
    async with post(1, valkey_server, tmp_path_factory.mktemp("views"), org=org, key=key) as found:
        yield found


def spent(page: Any) -> dict[str, tuple[Any, ...]]:
    return {each["id"]: tuple(each[name] for name in FIGURES) for each in page["data"]}


async def test_every_budget_is_told_whoever_declared_it(gate: Post) -> None:
    gate.fleet.models.acts["m"] = answers(usage=PLENTY)
    await gate.told("PUT", "/admin/orgs/beta", {"budget": {"usd": 0.01, "period": "week"}})
    made = await gate.told("POST", "/admin/keys", {"name": "rich", "org": "beta", "definition": {"budget": {"usd": 2}}})
    await gate.told("POST", "/admin/keys", {"name": "free", "org": "beta"})
    bounded = [await gate.fleet.ask(0, secret, max_tokens=500) for secret in (SECRET, made["key"])]
    assert [answer.status_code for answer in bounded] == [200, 200]
    await gate.fleet.settled()
    page = await gate.told("GET", "/admin/budgets")
    cost = 2000
    assert spent(page) == {
        "ob:month:acme": ("org", "acme", None, None, cost, None, 0.0004),
        "pb:day:acme:search": ("project", "acme", "search", None, 0, None, 0.0),
        "ob:week:beta": ("org", "beta", None, None, cost, None, 0.2),
        "kb:month:test:tokens": ("key", "acme", None, "test", None, 1500, 0.5),
        f"kb:month:{made['id']}": ("key", "beta", None, made["id"], cost, None, 0.001),
    }
    by_id = {each["id"]: each for each in page["data"]}
    week = by_id["ob:week:beta"]
    assert (week["limit_micro_usd"], week["held_micro_usd"], week["remaining_micro_usd"]) == (10_000, 0, 8_000)
    assert week["resets_at"] % (7 * 86_400) == 4 * 86_400, "a week ends on a Monday"
    assert by_id["ob:month:acme"]["alert"] == 0.5
    assert spent(await gate.told("GET", "/admin/budgets?org=beta")).keys() == {"ob:week:beta", f"kb:month:{made['id']}"}
    pages: list[Any] = []
    after: str | None = ""
    while after is not None:
        part = await gate.told("GET", f"/admin/budgets?limit=1{after and '&after=' + after}")
        pages += part["data"]
        after = part["next"]
    assert pages == page["data"]


async def test_what_is_under_way_is_held(gate: Post) -> None:
    gate.fleet.models.acts["m"] = silence
    doing = asyncio.create_task(gate.fleet.ask(0, SECRET, max_tokens=100))
    await asked(gate.fleet, "m")
    [key] = [each for each in (await gate.told("GET", "/admin/budgets"))["data"] if each["key_id"] == "test"]
    assert key["held_tokens"] >= 100
    assert key["remaining_tokens"] == key["limit_tokens"] - key["spent_tokens"] - key["held_tokens"]
    doing.cancel()
    await gate.fleet.settled()
    gate.fleet.models.forget()


async def test_a_store_that_forgot_leaves_the_ledger_to_tell(gate: Post) -> None:
    before = spent(await gate.told("GET", "/admin/budgets"))
    await gate.fleet.runs[0].rows()
    redis = gate.fleet.runs[0].gateway._redis
    for name in (names := await redis.keys("tg:v1:{c0}:*b:*")):
        await redis.delete(name)
    assert names
    assert spent(await gate.told("GET", "/admin/budgets")) == before
    assert not await redis.keys("tg:v1:{c0}:*b:*"), "looking changes nothing"


async def test_the_audit_has_pages_and_filters(gate: Post) -> None:
    for name in ("one", "two", "three"):
        await gate.told("PUT", f"/admin/plans/{name}", {})
    await gate.told("POST", "/admin/keys", {"name": "audited"}, token=OPERATOR)
    whole = (await gate.told("GET", "/admin/audit?limit=1000"))["data"]
    assert [row["id"] for row in whole] == sorted((row["id"] for row in whole), reverse=True)
    rows: list[Any] = []
    before: int | str | None = ""
    while before is not None:
        page = await gate.told("GET", f"/admin/audit?limit=2{before and f'&before={before}'}")
        rows += page["data"]
        before = page["next"]
    assert rows == whole
    assert [subject for _, _, subject in await gate.acts(action="plan.put")] == ["plan:three", "plan:two", "plan:one"]
    assert [action for _, action, _ in await gate.acts(actor="otto")] == ["key.create"]
    assert await gate.acts(subject="plan:two") == [("admin", "plan.put", "plan:two")]


async def test_the_running_configuration_is_shown_with_where_it_came_from(gate: Post) -> None:
    told = await gate.told("GET", "/admin/config", token=VIEWER)
    assert (told["generation"], told["hash"], told["since_unix_ms"], told["read_unix_ms"]) == (1, "abc", 1, 2)
    assert (Path(told["path"]).name, told["findings"], told["errors"]) == ("gateway.yaml", ["a line"], [])
    assert told["document"]["orgs"]["acme"]["budget"]["usd"] == 5.0
    assert told["document"]["ops"]["tokens"] == [
        {"name": "vera", "role": "viewer", "secret": "***", "digest": None},
        {"name": "otto", "role": "operator", "secret": None, "digest": "***"},
    ]


async def test_recent_requests_are_told_with_their_trails(gate: Post) -> None:
    answered = [await gate.fleet.ask(0, SECRET, model=model, max_tokens=5) for model in ("m", "unknown", "other")]
    ids = [answer.headers["x-request-id"] for answer in answered]
    await gate.fleet.settled()
    await gate.fleet.runs[0].gateway._traces.flush()
    page = await gate.told("GET", "/admin/requests?limit=3")
    assert [(each["request_id"], each["status"]) for each in page["data"]] == [(ids[2], 200), (ids[1], 404), (ids[0], 200)]
    assert [attempt["provider"] for attempt in page["data"][0]["attempts"]] == ["p"]
    behind = await gate.told("GET", f"/admin/requests?limit=1&before={ids[1]}")
    assert [each["request_id"] for each in behind["data"]] == [ids[0]]
    assert (await gate.told("GET", f"/admin/requests?before={'0' * 36}")) == {"data": [], "next": None}


@pytest.mark.asyncio(loop_scope="function")
async def test_no_answer_but_the_one_that_makes_it_has_a_secret(
    valkey: Valkey, tmp_path: Path, capfdbinary: pytest.CaptureFixture[bytes]
) -> None:
    async with post(1, valkey, tmp_path, telemetry={"level": "debug", "log": "json"}) as gate:
        key = (await gate.ask("POST", "/admin/keys", {"name": "secretive"}, token=OPERATOR)).json()
        rotated = (await gate.told("POST", f"/admin/keys/{key['id']}/rotate"))["key"]
        assert await gate.fleet.statuses(rotated) == [200]
        paths = [
            *(
                "/metrics",
                "/readyz",
                "/openapi/openapi.json",
                "/admin/config",
                "/admin/audit?limit=1000",
                "/admin/keys?limit=1000",
            ),
            *("/admin/orgs", "/admin/plans", "/admin/budgets", "/admin/upstreams", "/admin/usage", "/admin/requests"),
            *(f"/admin/keys/{name}" for name in (key["id"], "test", "holder")),
        ]
        answered = [await gate.ask("GET", path) for path in paths]
        assert {answer.status_code for answer in answered} <= {200, 503}
        answered += [
            await gate.ask("PATCH", f"/admin/keys/{key['id']}", {"definition": {"max_n": 2}}),
            await gate.ask("POST", "/admin/keys", {"name": "secretive"}),
            await gate.ask("GET", "/admin/usage", token=f"{ADMIN}x"),
            await gate.ask("POST", f"/admin/keys/{key['id']}/revoke"),
        ]
        details = [row["detail"] for row in (await gate.told("GET", f"/admin/audit?subject=key:{key['id']}"))["data"]]
        await gate.fleet.settled()
        await asyncio.sleep(0)
    logs = capfdbinary.readouterr()
    shown = b"\n".join((logs.out, logs.err, *(f"{answer.text} {answer.headers}".encode() for answer in answered)))
    assert key["id"].encode() in logs.out
    secrets = [*(each[-49:] for each in (key["key"], rotated)), SECRET, PEPPER.decode(), ADMIN, OPERATOR, VIEWER, "sk-up-p"]
    digests = [digest(PEPPER, each).hex() for each in (key["key"], rotated, SECRET, ADMIN, OPERATOR, VIEWER)]
    for secret in (*secrets, *digests):
        assert secret.encode() not in shown
    assert sorted(details[-1]) == ["definition", "env", "expires_unix_ms", "name", "org", "plan"]
