"""Deployments on the operations port: who may ask, what an order does, and what is told when the store is gone."""

import httpx
import pytest

from tests.integration.ops.conftest import UPSTREAMS, Serve
from tests.valkey import Valkey

NORTH, SOUTH = (upstream.deployment for upstream in UPSTREAMS)
PATH = "/admin/upstreams"


def states(answer: httpx.Response) -> dict[str, str]:
    assert answer.status_code == 200, answer.text
    return {each["deployment"]: each["state"] for each in answer.json()}


async def test_an_order_holds_until_the_next(serve: Serve) -> None:
    client = await serve("")
    assert states(await client.get(PATH)) == {NORTH: "well", SOUTH: "well"}
    assert states(await client.post(PATH, json={"action": "disable", "deployments": [NORTH]})) == {NORTH: "disabled"}
    assert states(await client.post(PATH, json={"action": "reset", "deployments": [NORTH, SOUTH, NORTH]})) == {
        NORTH: "disabled",
        SOUTH: "well",
    }
    (north, south) = (await client.get(PATH)).json()
    assert (north["disabled"], north["slots"], north["slots_declared"]) == (True, 8, 8)
    assert (south["disabled"], south["slots"], south["breaker"]) == (False, None, "closed")
    assert states(await client.post(PATH, json={"action": "enable", "deployments": [NORTH]})) == {NORTH: "well"}


@pytest.mark.parametrize(
    ("body", "param"),
    [
        ({"action": "disable", "deployments": ["m/west/big"]}, "deployments"),
        ({"action": "disable", "deployments": []}, "deployments"),
        ({"action": "drop", "deployments": [SOUTH]}, "action"),
        ({"action": "disable", "deployments": [SOUTH], "force": True}, None),
    ],
)
async def test_a_senseless_order_changes_nothing(serve: Serve, body: dict[str, object], param: str | None) -> None:
    client = await serve("")
    answer = await client.post(PATH, json=body)
    assert answer.status_code == 400
    assert answer.json()["error"]["param"] == param
    assert set(states(await client.get(PATH)).values()) == {"well"}


async def test_a_form_of_another_page_cannot_give_orders(serve: Serve) -> None:
    client = await serve("")
    for media in ("text/plain", "application/x-www-form-urlencoded", ""):
        content = b'{"action": "disable", "deployments": ["m/north/big"]}'
        answer = await client.post(PATH, content=content, headers={"content-type": media})
        assert (answer.status_code, answer.json()["error"]["code"]) == (415, "unsupported_media_type")
    assert states(await client.get(PATH))[NORTH] == "well"


async def test_with_a_token_nobody_orders_without_it(serve: Serve) -> None:
    client = await serve("s3cret")
    order = {"action": "disable", "deployments": [NORTH]}
    assert (await client.post(PATH, json=order)).status_code == 401
    bearer = {"authorization": "Bearer s3cret"}
    assert states(await client.get(PATH, headers=bearer))[NORTH] == "well"
    assert states(await client.post(PATH, json=order, headers=bearer)) == {NORTH: "disabled"}


async def test_a_store_that_is_away_is_said_to_be(serve: Serve, valkey: Valkey) -> None:
    client = await serve("")
    valkey.stop()
    try:
        for answer in (await client.get(PATH), await client.post(PATH, json={"action": "reset", "deployments": [NORTH]})):
            assert (answer.status_code, answer.json()["error"]["code"]) == (503, "limiter_unavailable")
    finally:
        valkey.start()
