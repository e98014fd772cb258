"""Orgs, plans and projects over the admin API: those of the database change and hold at once, those of the file are shown."""

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest
import pytest_asyncio

from tests.integration.ops.admin import Post, post
from tests.valkey import Valkey

pytestmark = pytest.mark.asyncio(loop_scope="module")


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def gate(valkey_server: Valkey, tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Post]:
    org = {"budget": {"usd": 5}, "projects": {"search": {"tier": "flex"}}}
    async with post(2, valkey_server, tmp_path_factory.mktemp("terms"), org=org) as found:
        yield found


async def made(gate: Post, name: str, **fields: Any) -> str:
    secret: str = (await gate.told("POST", "/admin/keys", {"name": name, **fields}))["key"]
    return secret


async def test_what_the_file_declares_is_shown_and_changed_there(gate: Post) -> None:
    acme = await gate.told("GET", "/admin/orgs/acme")
    projects = {"search": {"tier": "flex"}}
    assert (acme["source"], acme["definition"]) == ("file", {"plan": "all", "budget": {"usd": 5.0}, "projects": projects})
    assert (await gate.told("GET", "/admin/plans/all"))["definition"]["tiers"] == ["priority", "default", "flex"]
    assert (await gate.told("GET", "/admin/orgs/acme/projects/search"))["definition"] == {"tier": "flex"}
    before = await gate.acts()
    for path in ("orgs/acme", "plans/all", "orgs/acme/projects/search"):
        for method in ("PUT", "DELETE"):
            answer = await gate.refused(method, f"/admin/{path}", {} if method == "PUT" else None)
            assert answer[:2] == (409, "conflict")
    assert await gate.acts() == before


async def test_an_org_is_made_changed_used_and_deleted(gate: Post) -> None:
    plan = await gate.ask("PUT", "/admin/plans/small", {"limits": {"rpd": 100}, "tiers": ["default"]})
    assert (plan.status_code, plan.json()["source"], plan.json()["told"]) == (200, "database", True)
    org = await gate.told("PUT", "/admin/orgs/beta", {"plan": "small", "limits": {"rpd": 2}})
    await gate.told("PUT", "/admin/orgs/beta/projects/lab", {"tier": "default"})
    secret = await made(gate, "first", org="beta", definition={"projects": ["lab"]})
    assert await gate.fleet.statuses(secret) == [200, 200]
    assert await gate.fleet.statuses(secret) == [429, 429], "two requests a day in all, at whichever gateway"
    await gate.told("PUT", "/admin/orgs/beta", {"plan": "small"})
    assert await gate.fleet.statuses(secret) == [200, 200]
    changed = await gate.told("GET", "/admin/orgs/beta")
    assert changed["created_unix_ms"] == org["created_unix_ms"]
    assert changed["updated_unix_ms"] > org["updated_unix_ms"]
    for path in ("orgs/beta", "plans/small", "orgs/beta/projects/lab"):
        assert (await gate.refused("DELETE", f"/admin/{path}"))[:2] == (409, "conflict"), "a key needs it"
    await gate.told("POST", "/admin/keys/first/revoke")
    for path in ("orgs/beta/projects/lab", "orgs/beta", "plans/small"):
        assert (await gate.told("DELETE", f"/admin/{path}"))["told"]
        assert (await gate.refused("GET", f"/admin/{path}"))[:2] == (404, "not_found")
        assert (await gate.refused("DELETE", f"/admin/{path}"))[:2] == (404, "not_found")
    acts = [action for _, action, subject in await gate.acts() if "beta" in subject or "small" in subject]
    assert acts == ["plan.delete", "org.delete", "project.delete", "org.put", "project.put", "org.put", "plan.put"]


async def test_two_admins_do_not_overwrite_each_other(gate: Post) -> None:
    path = "/admin/orgs/gamma"
    fresh = await asyncio.gather(*(gate.ask("PUT", path, {"limits": {"rpm": n}}, if_none_match="*") for n in (1, 2, 3)))
    assert sorted(answer.status_code for answer in fresh) == [200, 412, 412]
    seen = (await gate.ask("GET", path)).headers["etag"]
    again = await asyncio.gather(*(gate.ask("PUT", path, {"limits": {"rpm": n}}, if_match=seen) for n in (4, 5)))
    assert sorted(answer.status_code for answer in again) == [200, 412]
    [kept] = [answer.json() for answer in again if answer.is_success]
    assert (await gate.told("GET", path))["definition"] == kept["definition"]
    assert (await gate.refused("DELETE", path, if_match=seen))[:2] == (412, "precondition_failed")
    now = (await gate.ask("GET", path)).headers["etag"]
    odd = {"if_match": "*"}, {"if_match": f"{now}, {seen}"}, {"if_match": now, "if_none_match": "*"}, {"if_none_match": now}
    for headers in odd:
        assert (await gate.refused("PUT", path, {}, **headers))[:2] == (400, "invalid_request")
    assert (await gate.ask("DELETE", path, if_match=now)).status_code == 200
    assert [action for _, action, _ in await gate.acts(subject="org:gamma")] == ["org.delete", "org.put", "org.put"]


async def test_lists_have_pages_of_the_files_and_the_databases(gate: Post) -> None:
    for name in ("a-first", "z-last"):
        await gate.told("PUT", f"/admin/orgs/{name}", {})
    await gate.told("PUT", "/admin/orgs/acme/projects/lab", {})
    whole = await gate.told("GET", "/admin/orgs")
    assert [(org["name"], org["source"]) for org in whole["data"]] == [
        ("a-first", "database"),
        ("acme", "file"),
        ("others", "file"),
        ("z-last", "database"),
    ]
    first = await gate.told("GET", "/admin/orgs?limit=3")
    rest = await gate.told("GET", f"/admin/orgs?limit=3&after={first['next']}")
    assert first["data"] + rest["data"] == whole["data"]
    assert rest["next"] is None
    projects = await gate.told("GET", "/admin/orgs/acme/projects")
    assert [(each["name"], each["org"], each["source"]) for each in projects["data"]] == [
        ("lab", "acme", "database"),
        ("search", "acme", "file"),
    ]
    assert (await gate.told("GET", "/admin/orgs/a-first/projects"))["data"] == []
    assert (await gate.refused("GET", "/admin/orgs/nobody/projects"))[:2] == (404, "not_found")


async def test_what_cannot_hold_is_refused_whole(gate: Post) -> None:
    before = await gate.acts()
    answer = await gate.ask("PUT", "/admin/orgs/delta", {"plan": "nowhere", "limits": {"rpm": 0}, "colour": "red"})
    assert answer.status_code == 422
    wrong = [each["loc"] for each in answer.json()["detail"]]
    assert wrong == [["body", "definition", f"orgs.delta.{name}"] for name in ("colour", "limits.rpm", "plan")]
    for path, body, refusal in (
        ("orgs/delta", [], (422, "invalid_type")),
        ("orgs/delta", None, (400, "invalid_json")),
        ("orgs/delta", {"\x00": {}}, (422, "invalid_value")),
        ("plans/p", {"models": ["\ufffe\x7f"]}, (400, "invalid_value")),
        ("orgs/a:b", {}, (422, "invalid_value")),
        ("plans/p", {"models": 3}, (422, "invalid_value")),
        ("orgs/nobody/projects/p", {}, (400, "invalid_value")),
        ("orgs/acme/projects/p", {"budget": {"usd": "much"}}, (422, "invalid_value")),
    ):
        assert (await gate.refused("PUT", f"/admin/{path}", body))[:2] == refusal
    assert await gate.acts() == before
