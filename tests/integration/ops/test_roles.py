"""Who may do what: every route of the operations port, for every role and for nobody."""

from collections.abc import AsyncIterator
from typing import Any

import pytest
import pytest_asyncio
from litestar.routes import HTTPRoute

from tests.integration.ops.admin import ADMIN, NAMES, OPERATOR, VIEWER, Post, post
from tests.valkey import Valkey

pytestmark = pytest.mark.asyncio(loop_scope="module")

ALL, WORKS, RULES = (VIEWER, OPERATOR, ADMIN), (OPERATOR, ADMIN), (ADMIN,)
OPEN = (None, *ALL)

NONE = "none"
"""No key, org, plan, project or request of this name is there."""

BAD = {"no_such_field": True}

MATRIX: dict[tuple[str, str], tuple[tuple[str | None, ...], Any]] = {
    ("GET", "/livez"): (OPEN, None),
    ("GET", "/readyz"): (OPEN, None),
    ("GET", "/metrics"): (OPEN, None),
    ("GET", "/"): (OPEN, None),
    ("GET", "/dashboard/{name:str}"): (OPEN, None),
    ("GET", "/admin/live"): (ALL, None),
    ("GET", "/admin/caller"): (ALL, None),
    ("GET", "/openapi"): (OPEN, None),
    ("GET", "/openapi/openapi.json"): (OPEN, None),
    ("GET", "/openapi/{path:str}"): (OPEN, None),
    ("GET", "/admin/usage"): (ALL, None),
    ("GET", "/admin/requests"): (ALL, None),
    ("GET", "/admin/requests/{request_id:str}"): (ALL, None),
    ("GET", "/admin/upstreams"): (ALL, None),
    ("POST", "/admin/upstreams"): (RULES, BAD),
    ("GET", "/admin/budgets"): (ALL, None),
    ("GET", "/admin/audit"): (ALL, None),
    ("GET", "/admin/config"): (ALL, None),
    ("GET", "/admin/keys"): (ALL, None),
    ("POST", "/admin/keys"): (WORKS, BAD),
    ("GET", "/admin/keys/{key:str}"): (ALL, None),
    ("PATCH", "/admin/keys/{key:str}"): (WORKS, BAD),
    ("POST", "/admin/keys/{key:str}/rotate"): (WORKS, None),
    ("POST", "/admin/keys/{key:str}/revoke"): (WORKS, None),
    ("POST", "/admin/keys/{key:str}/block"): (WORKS, None),
    ("POST", "/admin/keys/{key:str}/unblock"): (WORKS, None),
    **{(method, f"/admin/{kind}"): (ALL, None) for kind in ("orgs", "plans") for method in ("GET",)},
    **{
        (method, f"/admin/{path}"): (ALL if method == "GET" else RULES, BAD if method == "PUT" else None)
        for path in ("orgs/{name:str}", "plans/{name:str}", "orgs/{org:str}/projects/{name:str}")
        for method in ("GET", "PUT", "DELETE")
    },
    ("GET", "/admin/orgs/{org:str}/projects"): (ALL, None),
}


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def gate(valkey_server: Valkey, tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Post]:
    async with post(1, valkey_server, tmp_path_factory.mktemp("roles")) as found:
        yield found


def filled(path: str) -> str:
    for part in ("request_id", "key", "name", "org", "path"):
        path = path.replace(f"{{{part}:str}}", NONE)
    return path


async def test_every_route_has_its_row(gate: Post) -> None:
    found = {
        (method, route.path_format.replace("}", ":str}"))
        for route in gate.app.routes
        if isinstance(route, HTTPRoute)
        for method in route.methods - {"OPTIONS"}
    }
    assert found == MATRIX.keys()


@pytest.mark.parametrize(("method", "path"), MATRIX)
async def test_who_may(method: str, path: str, gate: Post) -> None:
    may, body = MATRIX[method, path]
    for token in OPEN:
        answer = await gate.ask(method, filled(path), body, token=token)
        if token in may:
            assert answer.status_code not in (401, 403), answer.text
            assert answer.status_code < 500 or path == "/readyz"
            continue
        expected = (401, "invalid_api_key") if token is None else (403, "role_not_allowed")
        assert (answer.status_code, answer.json()["error"]["code"]) == expected
        assert token is None or NAMES[token] in answer.json()["error"]["message"]
    assert await gate.acts() == [], "what was refused was never done"


@pytest.mark.parametrize(("method", "path"), [row for row in MATRIX if row[1].startswith("/admin")])
async def test_no_page_of_another_name_or_origin_does_it_even_with_a_token(method: str, path: str, gate: Post) -> None:
    for headers in (
        {"host": "rebound.example"},
        {"origin": "http://evil.example"},
        {"host": "x.example", "origin": "http://x.example"},
    ):
        assert await gate.refused(method, filled(path), **headers) == (403, "host_not_allowed", None)
    if method != "GET":
        for media in ("text/plain", "application/x-www-form-urlencoded", "multipart/form-data", ""):
            assert await gate.refused(method, filled(path), content_type=media) == (415, "unsupported_media_type", None)


async def test_a_token_is_no_key_and_a_key_no_token(gate: Post) -> None:
    secret, _ = await gate.fleet.mint("plain")
    assert await gate.refused("GET", "/admin/usage", token=secret) == (401, "invalid_api_key", None)
    assert await gate.fleet.statuses(ADMIN) == [401]
    doubled = [("authorization", f"Bearer {each}") for each in (ADMIN, VIEWER)]
    assert (await gate._client.get("/admin/usage", headers=doubled)).status_code == 400
