"""What the admin API does is the same on SQLite and on Postgres."""

import asyncio
from pathlib import Path

from gateway.stores.engine import POOL
from tests.integration.databases import MIGRATED
from tests.integration.ops.admin import Post, post
from tests.integration.ops.conftest import Serve
from tests.postgres import Postgres
from tests.valkey import Valkey


async def names_by_pages(gate: Post) -> list[str]:
    found, after = [], ""
    for _ in range(9):
        page = await gate.told("GET", f"/admin/keys?limit=2{after and '&after=' + after}")
        found += [key["name"] for key in page["data"]]
        if page["next"] is None:
            break
        after = page["next"]
    return found


async def test_all_of_it_on_either(url: str, valkey: Valkey, tmp_path: Path) -> None:
    async with post(2, valkey, tmp_path, url=url) as gate:
        await gate.told("PUT", "/admin/plans/small", {"tiers": ["default"]})
        await gate.told("PUT", "/admin/orgs/Beta", {"plan": "small", "budget": {"usd": 1}})
        made = [
            await gate.told(
                "POST", "/admin/keys", {"name": f"key-{n}", "org": "Beta", "definition": {"budget": {"tokens": 999_999}}}
            )
            for n in range(5)
        ]
        by_id = [each["name"] for each in (await gate.told("GET", "/admin/keys?org=Beta"))["data"]]
        assert sorted(by_id) == [each["name"] for each in made]
        assert await names_by_pages(gate) == ["holder", "test", *by_id]
        path, seen = f"/admin/keys/{made[0]['id']}", f'"{made[0]["updated_unix_ms"]}"'
        raced = await asyncio.gather(*(gate.ask("PATCH", path, {"definition": {"max_n": n}}, if_match=seen) for n in (1, 2, 3)))
        assert sorted(answer.status_code for answer in raced) == [200, 412, 412]
        assert await gate.fleet.statuses(made[1]["key"]) == [200, 200]
        assert (await gate.refused("POST", "/admin/keys", {"name": "key-1", "org": "Beta"}))[0] == 409
        assert (await gate.refused("DELETE", "/admin/orgs/Beta"))[0] == 409
        budgets = (await gate.told("GET", "/admin/budgets?org=Beta"))["data"]
        assert {each["id"] for each in budgets} == {"ob:month:Beta", *(f"kb:month:{each['id']}:tokens" for each in made)}
        for each in made:
            await gate.told("POST", f"/admin/keys/{each['id']}/revoke")
        assert await gate.fleet.statuses(made[1]["key"]) == [401, 401]
        assert (await gate.told("DELETE", "/admin/orgs/Beta"))["told"]
        acts = [action for _, action, _ in await gate.acts()]
        assert acts == ["org.delete", *["key.revoke"] * 5, "key.edit", *["key.create"] * 5, "org.put", "plan.put"]


async def test_whoever_asks_whatever_is_read_by_one_bounded_pool(serve: Serve, postgres: Postgres) -> None:
    database = postgres.create(MIGRATED)
    client = await serve("", database)
    paths = ("usage", "audit", "keys", "orgs", "budgets")
    answers = await asyncio.gather(*(client.get(f"/admin/{path}", timeout=30) for path in paths * 8))
    assert {answer.status_code for answer in answers} <= {200, 503}, "who waits too long for a connection is told so"
    assert 200 in {answer.status_code for answer in answers}
    name = database.partition("@/")[2].partition("?")[0]
    count = postgres.psql(f"SELECT count(*) FROM pg_stat_activity WHERE datname = '{name}' AND application_name = 'tiergate'")
    assert 1 < int(count) <= POOL


async def test_what_no_database_can_be_asked_for_is_refused_by_name_and_no_outage(serve: Serve, url: str) -> None:
    client = await serve("", url)
    paths = (
        "keys/%00",
        "orgs/a%00",
        "requests/%00",
        "keys?org=%00",
        "audit?subject=key:%00",
        "usage?user_hash=%00",
        "budgets?after=%00",
    )
    answers = [await client.get(f"/admin/{path}") for path in paths]
    answers.append(await client.put("/admin/plans/%00", json={}))
    errors = [answer.json()["error"] for answer in answers]
    assert {(answer.status_code, error["code"]) for answer, error in zip(answers, errors, strict=True)} == {
        (400, "invalid_value")
    }
    assert [error["param"] for error in errors] == ["key", "name", "request_id", "org", "subject", "user_hash", "after", "name"]
