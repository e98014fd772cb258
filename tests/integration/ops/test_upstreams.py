"""Deployments on the operations port: who may ask, what an order does, and what is told when the store is gone."""

import httpx
import msgspec
import pytest

from tests.integration.ops.conftest import NORTH, SOUTH, Serve
from tests.valkey import Valkey

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
    ("body", "status", "fields"),
    [
        ({"action": "disable", "deployments": ["m/west/big"]}, 400, ["deployments"]),
        ({"action": "disable", "deployments": []}, 422, ["deployments"]),
        ({"action": "drop", "deployments": [SOUTH]}, 422, ["action"]),
        ({"action": "disable", "deployments": [SOUTH], "force": True}, 422, ["force"]),
        ({"deployments": SOUTH, "force": True}, 422, ["action", "deployments", "force"]),
        ([], 422, [None]),
        ("{", 400, [None]),
        ("", 400, [None]),
    ],
)
async def test_a_senseless_order_changes_nothing(serve: Serve, body: object, status: int, fields: list[str | None]) -> None:
    client = await serve("")
    content = body if isinstance(body, str) else msgspec.json.encode(body)
    answer = await client.post(PATH, content=content, headers={"content-type": "application/json"})
    assert (answer.status_code, answer.json()["error"]["param"]) == (status, fields[0])
    if status == 422:
        assert [detail["loc"][1:] for detail in answer.json()["detail"]] == [[name] if name else [] for name in fields]
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
