"""Proxies that are trusted, and those that are not: whose address a key is held to, and who is of this machine."""

from collections.abc import AsyncIterator, Mapping
from pathlib import Path

import httpx
import pytest

from tests.integration.minting import Fleet, fleet
from tests.integration.ops.admin import post
from tests.integration.ops.conftest import Serve, live, reports, serve, view
from tests.integration.scene import bearer
from tests.valkey import Valkey

__all__ = ["live", "reports", "serve", "view"]

OFFICE = {"definition": {"ips": ["203.0.113.0/24"]}}
HOME = {"definition": {"ips": ["127.0.0.1"]}}
FROM_OFFICE = {"x-forwarded-for": "203.0.113.9"}


@pytest.fixture(params=[["127.0.0.0/8"], ["10.0.0.0/8"], []], ids=["trusted", "others", "none"])
async def gate(request: pytest.FixtureRequest, valkey: Valkey, tmp_path: Path) -> AsyncIterator[tuple[bool, Fleet]]:
    api = {"trusted_proxies": request.param}
    async with fleet(1, valkey, f"sqlite:///{tmp_path / 'tiergate.db'}", tmp_path, api=api) as found:
        yield request.param == ["127.0.0.0/8"], found


async def status(found: Fleet, path: str, secret: str, headers: Mapping[str, str]) -> int:
    client = found.runs[0].client
    sent = {**bearer(secret), **headers}
    if path == "/v1/models":
        return (await client.get(path, headers=sent)).status_code
    body = {"model": "m", "messages": [{"role": "user", "content": "hi"}]}
    return (await client.post(path, json=body, headers=sent)).status_code


@pytest.mark.parametrize("path", ["/v1/chat/completions", "/v1/models"])
async def test_a_key_is_held_to_the_address_that_a_trusted_proxy_tells(gate: tuple[bool, Fleet], path: str) -> None:
    trusted, found = gate
    office, _ = await found.mint("office", **OFFICE)
    home, _ = await found.mint("home", **HOME)
    spoofed = {"x-forwarded-for": "203.0.113.9, 198.51.100.1"}
    beyond = {"x-forwarded-for": "203.0.113.9, 127.0.0.2"}
    garbled = {"x-forwarded-for": "203.0.113.9, unknown"}
    assert [await status(found, path, office, headers) for headers in ({}, FROM_OFFICE, spoofed, beyond, garbled)] == (
        [403, 200, 403, 200, 403] if trusted else [403] * 5
    )
    assert [await status(found, path, home, headers) for headers in ({}, FROM_OFFICE, spoofed, garbled)] == (
        [200, 403, 403, 403] if trusted else [200] * 4
    )


@pytest.mark.parametrize("proxies", [[], ["127.0.0.1"]])
async def test_what_came_through_a_proxy_is_not_of_this_machine(serve: Serve, proxies: list[str]) -> None:
    client: httpx.AsyncClient = await serve("", trusted_proxies=proxies)
    assert (await client.get("/admin/usage")).status_code == 200
    for name in ("x-forwarded-for", "forwarded", "via", "x-real-ip", "x-forwarded-host"):
        for value in ("127.0.0.1", "203.0.113.9"):
            answer = await client.get("/admin/usage", headers={name: value})
            assert (answer.status_code, answer.json()["error"]["code"]) == (403, "ip_not_allowed")


async def test_with_a_token_it_may_come_through_one(valkey: Valkey, tmp_path: Path) -> None:
    ops = {"trusted_proxies": ["127.0.0.1"], "hosts": ["Ops.example.com"]}
    async with post(1, valkey, tmp_path, ops=ops) as gate:
        page = {"host": "ops.example.com", "origin": "https://ops.example.com", **FROM_OFFICE}
        for headers in (FROM_OFFICE, page, {**page, "host": "OPS.example.com"}):
            assert (await gate.ask("GET", "/admin/keys", **headers)).status_code == 200
