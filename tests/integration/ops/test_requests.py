"""Single requests on the operations port."""

from redis.asyncio import Redis

from gateway.admission.client import traces_key
from gateway.policy.record import Attempt, Outcome, Reason, Record
from gateway.stores.traces import Traces
from gateway.telemetry.health import LedgerHealth
from tests.integration.ops.conftest import Serve
from tests.valkey import Valkey

ID = "019ac000-0000-7000-8000-000000000001"
REASON = Reason(cause="limit", scope="org", dimension="tpm", wait_ms=700)


async def test_a_refused_request_is_told_with_what_refused_it(serve: Serve, valkey: Valkey) -> None:
    refused = Attempt(model="m", provider="p", status=429, outcome="refused", sent=False, reason=REASON)
    record = Record(
        request_id=ID,
        route="/v1/chat/completions",
        started_s=1.0,
        ended_s=1.25,
        started_unix_ms=5,
        key_name="ci",
        org="acme",
        models_requested=("m", "other"),
        attempts=[refused],
        outcome=Outcome.REJECTED,
        status=429,
        error_code="rate_limit_exceeded",
    )
    async with Redis(unix_socket_path=valkey.socket) as redis:
        traces = Traces(redis, traces_key(), lambda: 0, LedgerHealth())
        traces.add(record)
        await traces.flush()
    client = await serve("")
    answer = await client.get(f"/admin/requests/{ID}")
    assert answer.status_code == 200
    told = answer.json()
    assert told["attempts"] == [
        {
            "model": "m",
            "provider": "p",
            "status": 429,
            "outcome": "refused",
            "sent": False,
            "duration_ms": 0,
            "reason": {"cause": "limit", "scope": "org", "dimension": "tpm", "wait_ms": 700},
        }
    ]
    asked = {name: told[name] for name in ("key", "org", "models_requested", "outcome", "status", "error_code", "duration_ms")}
    assert asked == {
        "key": "ci",
        "org": "acme",
        "models_requested": ["m", "other"],
        "outcome": "rejected",
        "status": 429,
        "error_code": "rate_limit_exceeded",
        "duration_ms": 250,
    }


async def test_a_request_that_is_not_kept_is_none(serve: Serve) -> None:
    client = await serve("")
    for each in (ID, "x", "%ff"):
        answer = await client.get(f"/admin/requests/{each}")
        assert (answer.status_code, answer.json()["error"]["code"]) == (404, "request_not_found")


async def test_a_store_that_is_away_is_said_to_be(serve: Serve, valkey: Valkey) -> None:
    client = await serve("")
    valkey.stop()
    try:
        answer = await client.get(f"/admin/requests/{ID}")
        assert (answer.status_code, answer.json()["error"]["code"]) == (503, "limiter_unavailable")
    finally:
        valkey.start()


async def test_with_a_token_nobody_reads_without_it(serve: Serve) -> None:
    client = await serve("s3cret")
    assert (await client.get(f"/admin/requests/{ID}")).status_code == 401
