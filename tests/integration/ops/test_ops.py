"""The operations port over real sockets: health, metrics of all workers, and who may read the ledger."""

import httpx
import pytest

from tests.integration.ops.conftest import Serve, View


async def test_livez_answers_whatever_the_workers_do(serve: Serve, view: View) -> None:
    client = await serve("")
    view.draining = True
    assert (await client.get("/livez")).status_code == 200


async def test_readyz_says_how_each_worker_is(serve: Serve, live: View) -> None:
    client = await serve("")
    first, second = live.workers
    second.degraded = True
    answer = await client.get("/readyz")
    assert (answer.status_code, answer.json()) == (
        200,
        {
            "status": "ready",
            "workers": [
                {"worker": 0, "state": "ready", "redis": "ok", "generation": 3},
                {"worker": 1, "state": "degraded", "redis": "unavailable", "generation": 3},
            ],
            "config": {"generation": 3, "hash": "abc"},
        },
    )
    await first.stop()
    second.ready = second.degraded = False
    answer = await client.get("/readyz")
    assert (answer.status_code, answer.json()["status"]) == (503, "not_ready")
    assert [worker["state"] for worker in answer.json()["workers"]] == ["unreachable", "not_ready"]


async def test_a_gateway_on_its_way_out_is_not_ready(serve: Serve, live: View) -> None:
    client = await serve("")
    live.draining = True
    answer = await client.get("/readyz")
    assert (answer.status_code, answer.json()["status"]) == (503, "draining")


async def test_metrics_of_all_workers_never_fall(serve: Serve, live: View) -> None:
    client = await serve("")
    first, second = live.workers
    first.requests, second.requests = 60, 40
    answer = await client.get("/metrics")
    assert answer.headers["content-type"] == "text/plain; version=0.0.4; charset=utf-8"
    assert 'tiergate_requests_total{worker="0"} 60.0\n' in answer.text
    assert 'tiergate_requests_total{worker="1"} 40.0\n' in answer.text
    await first.stop()
    gone = (await client.get("/metrics")).text
    assert 'tiergate_requests_total{worker="0"} 60.0\n' in gone
    assert 'tiergate_worker_up{worker="0"} 0\n' in gone
    first.started, first.requests = 2, 1
    await first.start()
    assert 'tiergate_requests_total{worker="0"} 61.0\n' in (await client.get("/metrics")).text


async def test_the_ledger_without_a_token_on_this_machine(serve: Serve) -> None:
    client = await serve("")
    answer = await client.get("/admin/usage", params={"by": "request", "limit": 2})
    assert answer.status_code == 200
    assert [row["request_id"] for row in answer.json()] == ["req-000002", "req-000001"]
    (total,) = (await client.get("/admin/usage", params={"by": "org"})).json()
    assert (total["requests"], total["cost_micro_usd"]) == (3, 4)
    one = await client.get("/admin/usage", params={"request_id": "req-000001"})
    assert len(one.json()) == 1
    (user,) = (await client.get("/admin/usage", params={"by": "user", "since": "2020-01-01"})).json()
    assert (user["user"], user["requests"]) == (None, 3)
    assert (await client.get("/admin/usage", params={"user_hash": "of-nobody"})).json() == []


async def test_a_database_that_cannot_be_read_is_said(serve: Serve) -> None:
    client = await serve("", "postgresql://u:hush-hush@127.0.0.1:1/d")
    answers = [await client.get("/admin/usage", params={"by": "org"})]
    answers += [await client.get(f"/admin/{path}") for path in ("keys", "keys/x", "orgs", "plans/x", "audit", "budgets")]
    answers.append(await client.post("/admin/keys", json={"name": "x"}))
    codes = ["ledger_unavailable", *["auth_unavailable"] * 7]
    assert [(answer.status_code, answer.json()["error"]["code"]) for answer in answers] == [(503, code) for code in codes]
    assert not any("hush-hush" in answer.text for answer in answers)
    assert (await client.get("/admin/config")).status_code == 200


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({"host": "localhost:8081"}, 200),
        ({"host": "[::1]:8081"}, 200),
        ({"host": "evil.example"}, 403),
        ({"host": "localhost.evil.example"}, 403),
        ({"host": "127.0.0.1:1", "origin": "http://127.0.0.1:1"}, 200),
        ({"host": "127.0.0.1:1", "origin": "http://evil.example"}, 403),
        ({"host": "127.0.0.1:1", "origin": "null"}, 403),
        ({"host": "evil.example", "origin": "http://evil.example"}, 403),
    ],
)
async def test_a_page_elsewhere_cannot_read_it_by_rebinding(serve: Serve, headers: dict[str, str], status: int) -> None:
    client = await serve("")
    answer = await client.get("/admin/usage", headers=headers)
    assert answer.status_code == status
    if status == 403:
        assert answer.json()["error"]["code"] == "host_not_allowed"


async def test_with_a_token_everybody_needs_it(serve: Serve) -> None:
    client = await serve("s3cret-é", hosts=["ops.internal.example"])
    for authorization in ("", "Bearer", "Bearer wrong", "Basic s3cret-é"):
        answer = await client.get("/admin/usage", headers={b"authorization": authorization.encode()})
        assert (answer.status_code, answer.json()["error"]["code"]) == (401, "invalid_api_key")
        assert answer.headers["www-authenticate"] == "Bearer"
    assert (await client.get("/admin/usage")).status_code == 401
    sent = {b"authorization": "bearer s3cret-é".encode(), b"host": b"ops.internal.example"}
    assert (await client.get("/admin/usage", headers=sent)).status_code == 200
    for host in (b"evil.example", b"evil.ops.internal.example", b"ops.internal.example.evil"):
        answer = await client.get("/admin/usage", headers={**sent, b"host": host})
        assert (answer.status_code, answer.json()["error"]["code"]) == (403, "host_not_allowed")


@pytest.mark.parametrize(
    ("params", "param"),
    [({"by": "colour"}, "by"), ({"since": "soon"}, "since"), ({"limit": "0"}, "limit"), ({"limit": "many"}, "limit")],
)
async def test_a_senseless_question_is_told_which_part(serve: Serve, params: dict[str, str], param: str) -> None:
    client = await serve("")
    answer = await client.get("/admin/usage", params=params)
    assert answer.status_code == 400
    assert answer.json()["error"]["param"] == param


async def test_what_is_not_there_is_said_in_the_envelope(serve: Serve) -> None:
    client = await serve("")
    for answer, code in (
        (await client.get("/nothing"), "unknown_url"),
        (await client.post("/livez"), "method_not_allowed"),
    ):
        assert answer.json()["error"]["code"] == code


async def test_the_interface_describes_itself(serve: Serve) -> None:
    client = await serve("")
    described: httpx.Response = await client.get("/openapi/openapi.json")
    admin = {"/admin/usage", "/admin/upstreams", "/admin/requests/{request_id}"}
    assert {"/livez", "/readyz", "/metrics", *admin} <= set(described.json()["paths"])
