"""Keys over the admin API of two gateways: made, used on both at once, changed, rotated, blocked, revoked; each time audited."""

import asyncio
import time
from collections.abc import AsyncIterator
from typing import Any

import pytest
import pytest_asyncio

from tests.fakes.openai import silence
from tests.integration.ops.admin import OPERATOR, Post, post
from tests.integration.test_minted_keys import asked
from tests.valkey import Valkey

pytestmark = pytest.mark.asyncio(loop_scope="module")

WITHIN_S = 2.0
"""How long a change may take to hold at every gateway."""


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def gate(valkey_server: Valkey, tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Post]:
    async with post(2, valkey_server, tmp_path_factory.mktemp("keys")) as found:
        yield found


async def make(gate: Post, name: str, **fields: Any) -> Any:
    made = await gate.told("POST", "/admin/keys", {"name": name, "org": "acme", **fields}, token=OPERATOR)
    assert made["told"]
    return made


async def holds(gate: Post, secret: str, statuses: list[int]) -> None:
    """Wait until all gateways answer so to a key, two seconds at the most."""
    began_s = time.monotonic()
    while await gate.fleet.statuses(secret) != statuses:
        assert time.monotonic() - began_s < WITHIN_S


async def test_a_key_that_is_made_works_everywhere_at_once_and_its_secret_is_told_once(gate: Post) -> None:
    answer = await gate.ask("POST", "/admin/keys", {"name": "once", "org": "acme", "definition": {"models": ["m"]}})
    made = answer.json()
    assert (answer.status_code, answer.headers["cache-control"], made["state"]) == (201, "no-store", "active")
    assert made["key"].startswith(f"tg_live_{made['id']}_")
    assert await gate.fleet.statuses(made["key"]) == [200, 200]
    shown = await gate.ask("GET", f"/admin/keys/{made['id']}")
    assert made["key"] not in shown.text
    assert shown.json() == {name: value for name, value in made.items() if name not in ("key", "told")} | {
        "last_used_unix_ms": shown.json()["last_used_unix_ms"]
    }
    assert shown.headers["etag"] == f'"{made["updated_unix_ms"]}"'
    assert (await gate.told("GET", "/admin/keys/once"))["id"] == made["id"]
    assert await gate.acts(subject=f"key:{made['id']}") == [("admin", "key.create", f"key:{made['id']}")]


async def test_what_is_changed_holds_everywhere_within_two_seconds(gate: Post) -> None:
    made = await make(gate, "changing", definition={"limits": {"rpm": 600}, "max_n": 3})
    assert await gate.fleet.statuses(made["key"]) == [200, 200]
    change = {"definition": {"limits": {"rpd": 1, "rpm": None}}, "name": "changed"}
    changed = await gate.told("PATCH", f"/admin/keys/{made['id']}", change, token=OPERATOR)
    assert (changed["name"], changed["definition"]) == ("changed", {"limits": {"rpd": 1}, "max_n": 3})
    await holds(gate, made["key"], [429, 429])
    await gate.told("PATCH", f"/admin/keys/{made['id']}", {"definition": {"limits": None, "models": ["other"]}})
    await holds(gate, made["key"], [404, 404])
    await gate.told("PATCH", f"/admin/keys/{made['id']}", {"expires_unix_ms": 1})
    await holds(gate, made["key"], [401, 401])
    free = await gate.told("PATCH", f"/admin/keys/{made['id']}", {"expires_unix_ms": None, "definition": {"models": None}})
    assert (free["state"], free["definition"]) == ("active", {"max_n": 3})
    await holds(gate, made["key"], [200, 200])
    acts = await gate.acts(subject=f"key:{made['id']}")
    assert acts == [
        (who, what, f"key:{made['id']}")
        for who, what in [*[("admin", "key.edit")] * 3, ("otto", "key.edit"), ("otto", "key.create")]
    ]


async def test_who_is_blocked_or_revoked_is_refused_everywhere_within_two_seconds(gate: Post) -> None:
    made = await make(gate, "leaving")
    path = f"/admin/keys/{made['id']}"
    assert await gate.fleet.statuses(made["key"]) == [200, 200]
    for _ in range(2):
        assert (await gate.told("POST", f"{path}/block"))["state"] == "blocked"
    await holds(gate, made["key"], [401, 401])
    assert (await gate.told("POST", f"{path}/unblock"))["state"] == "active"
    await holds(gate, made["key"], [200, 200])
    rotated = await gate.told("POST", f"{path}/rotate", {"overlap_ms": 0}, token=OPERATOR)
    await holds(gate, made["key"], [401, 401])
    await holds(gate, rotated["key"], [200, 200])
    again = await gate.told("POST", f"{path}/rotate")
    await holds(gate, rotated["key"], [200, 200])
    assert [each["not_after_unix_ms"] is None for each in again["secrets"]] == [False, False, True]
    assert (await gate.told("POST", f"{path}/revoke", token=OPERATOR))["state"] == "revoked"
    for secret in (rotated["key"], again["key"]):
        await holds(gate, secret, [401, 401])
    for what, body in (("PATCH", {"name": "x"}), ("POST", None)):
        assert (await gate.refused(what, path if what == "PATCH" else f"{path}/rotate", body))[:2] == (409, "conflict")
    done = ["key.revoke", "key.rotate", "key.rotate", "key.unblock", "key.block", "key.create"]
    assert [action for _, action, _ in await gate.acts(subject=f"key:{made['id']}")] == done, "once is enough, and noted once"


async def test_revoking_now_ends_what_is_under_way(gate: Post) -> None:
    made = await make(gate, "cut")
    gate.fleet.models.acts["m"] = silence
    doing = asyncio.create_task(gate.fleet.ask(0, made["key"]))
    await asked(gate.fleet, "m")
    await gate.told("POST", f"/admin/keys/{made['id']}/revoke", {"now": True})
    assert (await doing).status_code == 401
    gate.fleet.models.forget()
    await gate.fleet.settled()


async def test_of_two_changes_of_what_was_seen_one_is_made(gate: Post) -> None:
    made = await make(gate, "raced", definition={"limits": {"rpm": 5}})
    path, seen = f"/admin/keys/{made['id']}", f'"{made["updated_unix_ms"]}"'
    changes = [{"definition": {"limits": {"rpm": 10 + n}}} for n in range(4)]
    answers = await asyncio.gather(*(gate.ask("PATCH", path, change, if_match=seen) for change in changes))
    assert sorted(answer.status_code for answer in answers) == [200, 412, 412, 412]
    assert {answer.json()["error"]["code"] for answer in answers if answer.is_error} == {"precondition_failed"}
    [winner] = [change for change, answer in zip(changes, answers, strict=True) if answer.is_success]
    now = await gate.ask("GET", path)
    assert now.json()["definition"] == winner["definition"]
    assert (await gate.ask("PATCH", path, {"name": "calm"}, if_match=now.headers["etag"])).status_code == 200
    assert await gate.refused("PATCH", path, {"name": "x"}, if_match="W/abc") == (400, "invalid_request", None)
    assert len(await gate.acts(subject=f"key:{made['id']}", action="key.edit")) == 2


async def test_changes_of_different_fields_without_a_precondition_are_all_made(gate: Post) -> None:
    made = await make(gate, "shared")
    path = f"/admin/keys/{made['id']}"
    changes = [{"definition": {"limits": {kind: 50}}} for kind in ("rpm", "tpm", "rpd")]
    answers = await asyncio.gather(*(gate.ask("PATCH", path, change) for change in changes))
    assert [answer.status_code for answer in answers] == [200] * 3
    assert (await gate.told("GET", path))["definition"] == {"limits": {"rpm": 50, "tpm": 50, "rpd": 50}}


async def test_a_list_has_pages_and_no_secret(gate: Post) -> None:
    made = [await make(gate, f"listed-{n}", plan="all") for n in range(5)]
    whole = await gate.told("GET", "/admin/keys?limit=1000")
    assert [key["name"] for key in whole["data"]][:2] == ["holder", "test"], "those of the file come first"
    assert {key["source"] for key in whole["data"]} == {"file", "minted"}
    pages: list[Any] = []
    after: str | None = ""
    while after is not None:
        page = await gate.told("GET", f"/admin/keys?limit=3{after and '&after=' + after}")
        pages.append(page["data"])
        after = page["next"]
    assert [key for page in pages for key in page] == whole["data"]
    assert [len(page) for page in pages[:-1]] == [3] * (len(pages) - 1)
    with_plan = await gate.told("GET", "/admin/keys?plan=all&state=active")
    assert {key["id"] for key in with_plan["data"]} == {each["id"] for each in made}
    assert [key["name"] for key in (await gate.told("GET", "/admin/keys?org=others"))["data"]] == ["holder"]
    assert (await gate.told("GET", "/admin/keys?org=nobody")) == {"data": [], "next": None}
    text = (await gate.ask("GET", "/admin/keys?limit=1000")).text
    assert not any(each["key"] in text for each in made)


async def test_keys_of_the_file_are_shown_and_changed_there(gate: Post) -> None:
    shown = await gate.ask("GET", "/admin/keys/test")
    assert (shown.json()["source"], shown.json()["definition"], shown.json()["created_unix_ms"]) == ("file", {}, None)
    assert "etag" not in shown.headers
    for method, path, body in (
        ("PATCH", "", {"name": "x"}),
        *(("POST", f"/{what}", None) for what in ("rotate", "revoke", "block")),
    ):
        assert (await gate.refused(method, f"/admin/keys/test{path}", body))[:2] == (409, "conflict")
    assert await gate.fleet.statuses("sk-test-secret-of-the-only-key") == [200, 200]


async def test_a_refused_change_is_told_whole_and_leaves_nothing(gate: Post) -> None:
    before = await gate.acts()
    answer = await gate.ask(
        "POST", "/admin/keys", {"name": "bad", "org": "acme", "definition": {"limits": {"rpm": 0}, "tiers": ["gold"], "x": 1}}
    )
    assert answer.status_code == 422
    assert [tuple(each["loc"]) for each in answer.json()["detail"]] == [
        ("body", "definition", "limits.rpm"),
        ("body", "definition", "tiers[0]"),
        ("body", "definition", "x"),
    ]
    answer = await gate.ask("POST", "/admin/keys", {"org": 7, "expires_unix_ms": -1, "secret": "own", "definition": []})
    assert answer.status_code == 422
    assert [tuple(each["loc"]) for each in answer.json()["detail"]] == [
        ("body", name) for name in ("name", "org", "expires_unix_ms", "secret", "definition")
    ]
    assert (await gate.ask("POST", "/admin/keys", {"name": "a b"})).json()["detail"][0]["loc"] == ["body", "name"]
    for body, refusal in (
        ({"name": "x", "org": "nobody"}, (422, "invalid_value")),
        ({"name": "x", "env": "LIVE"}, (400, "invalid_value")),
        ({"name": "x", "definition": {"secret": "mine-0123456789abc"}}, (400, "invalid_value")),
    ):
        assert (await gate.refused("POST", "/admin/keys", body))[:2] == refusal
    await make(gate, "taken")
    assert await gate.refused("POST", "/admin/keys", {"name": "taken", "org": "acme"}) == (409, "conflict", "name")
    for method, path in (("GET", ""), ("PATCH", ""), ("POST", "/revoke"), ("POST", "/rotate")):
        assert (await gate.refused(method, f"/admin/keys/nobody{path}", {}))[:2] == (404, "not_found")
    assert [act for act in await gate.acts() if act not in before] == [("otto", "key.create", (await gate.acts())[0][2])]
