"""Minted keys through a running gateway: all that a key of the file may and may not, by a definition; changes hold at once."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import text

from gateway.policy.credentials import digest, plain_digest
from gateway.policy.keys import REVOKED
from gateway.stores.engine import Database
from gateway.stores.minted import Draft, Edit, Wanted
from gateway.stores.terms import Term
from gateway.stores.versions import upgrade
from tests.fakes.openai import answers, silence
from tests.integration.minting import ACTOR, Fleet, fleet
from tests.integration.scene import bearer
from tests.postgres import Postgres
from tests.running import PEPPER, SECRET
from tests.valkey import Valkey

Change = Callable[[], Awaitable[None]]


@pytest.fixture
async def gate(valkey: Valkey, tmp_path: Path) -> AsyncIterator[Fleet]:
    async with fleet(1, valkey, f"sqlite:///{tmp_path / 'tiergate.db'}", tmp_path) as found:
        yield found


async def code(gate: Fleet, secret: str, **fields: Any) -> tuple[int, str | None]:
    answer = await gate.ask(0, secret, **fields)
    return answer.status_code, None if answer.status_code == 200 else answer.json()["error"]["code"]


async def get(gate: Fleet, path: str, secret: str) -> Any:
    return (await gate.runs[0].client.get(path, headers=bearer(secret))).json()


async def test_a_definition_is_held_to_like_the_file(gate: Fleet) -> None:
    secret, _ = await gate.mint("models", definition={"models": ["other"], "tiers": ["default"], "max_n": 1})
    assert await code(gate, secret, model="other") == (200, None)
    assert await code(gate, secret) == (404, "model_not_found")
    assert await code(gate, secret, model="other", service_tier="flex") == (400, "invalid_value")
    assert [each["id"] for each in (await get(gate, "/v1/models", secret))["data"]] == ["other"]
    elsewhere, _ = await gate.mint("elsewhere", definition={"ips": ["203.0.113.0/24"]})
    assert await code(gate, elsewhere) == (403, "ip_not_allowed")
    ended, _ = await gate.mint("ended", expires_unix_ms=1)
    assert await code(gate, ended) == (401, "invalid_api_key")
    poor, _ = await gate.mint("poor", definition={"budget": {"usd": 0}})
    assert await code(gate, poor) == (402, "insufficient_quota")


async def test_its_limits_are_its_own_and_an_edit_holds_from_the_next_request_on(gate: Fleet) -> None:
    secret, key_id = await gate.mint("limited", definition={"limits": {"rpd": 1}})
    assert [await code(gate, secret) for _ in range(2)] == [(200, None), (429, "rate_limit_exceeded")]
    account = await get(gate, "/v1/key", secret)
    assert (account["id"], account["name"], account["org"]) == (key_id, "limited", "acme")
    assert [(line["kind"], line["limit"], line["used"]) for line in account["limits"]] == [("rpd", 1, 1)]
    await gate.registry.keys.edit(ACTOR, key_id, Edit(definition={"limits": {"rpd": 3}}))
    assert [(await code(gate, secret))[0] for _ in range(3)] == [200, 200, 429]
    await gate.registry.keys.edit(ACTOR, key_id, Edit(definition={"models": ["other"]}))
    assert await code(gate, secret) == (404, "model_not_found")


async def test_keys_of_one_org_of_the_database_share_what_it_has(gate: Fleet) -> None:
    await gate.registry.terms.put(ACTOR, Term(kind="plan", name="small"), {"tiers": ["default", "flex"]})
    beta = Term(kind="org", name="beta")
    await gate.registry.terms.put(ACTOR, beta, {"plan": "small", "limits": {"rpd": 3}, "budget": {"usd": 5}})
    await gate.registry.terms.put(ACTOR, Term(kind="project", name="lab", org="beta"), {"tier": "flex", "budget": {"usd": 0}})
    keys = [await gate.registry.keys.create(ACTOR, Draft(name=name, org="beta")) for name in ("one", "two")]
    secrets = [made.secret or "" for made in keys]
    assert [(await code(gate, secrets[n % 2]))[0] for n in range(5)] == [200, 200, 200, 429, 429]
    await gate.registry.terms.put(ACTOR, beta, {"plan": "small", "budget": {"usd": 5}})
    assert [await code(gate, secret) for secret in secrets] == [(200, None)] * 2, "what holds for all is heard of by all"
    account = await get(gate, "/v1/key?ai_project_id=lab", secrets[0])
    assert (account["project"], {line["scope"] for line in account["budgets"]}) == ("lab", {"project", "org"})
    asked = await gate.runs[0].client.post(
        "/v1/chat/completions?ai_project_id=lab",
        json={"model": "m", "messages": [{"role": "user", "content": "hi"}]},
        headers=bearer(secrets[0]),
    )
    assert asked.status_code == 402


async def test_what_has_no_answer_yet_ends_too_where_the_command_says_now(gate: Fleet) -> None:
    secret, key_id = await gate.mint("leaked")
    other, _ = await gate.mint("other")
    gate.models.acts |= {"m": silence, "narrow": silence}
    holding = asyncio.create_task(gate.ask(0, other, model="narrow"))
    await asked(gate, "narrow")
    doing = [asyncio.create_task(gate.ask(0, secret, model=model)) for model in ("m", "narrow")]
    await asked(gate, "m")
    await gate.runs[0].waiting(1)
    await gate.registry.keys.revoke(ACTOR, key_id, cuts=True)
    ends = await asyncio.gather(*doing)
    assert [(answer.status_code, answer.json()["error"]["message"]) for answer in ends] == [(401, REVOKED)] * 2
    assert not holding.done()
    holding.cancel()
    await gate.settled()
    assert await gate.runs[0].leases() == 0
    rows = {row["model_requested"]: row["outcome"] for row in await gate.runs[0].rows() if row["key"] == "leaked"}
    assert rows == {"m": "client_error"}, "what only waited was never opened"


async def asked(gate: Fleet, model: str) -> None:
    async with asyncio.timeout(10.0):
        while model not in gate.models.asked:
            await asyncio.sleep(0.01)


async def test_its_rows_and_its_line_name_it(gate: Fleet) -> None:
    secret, key_id = await gate.mint("written")
    gate.models.acts["m"] = answers(usage={"prompt_tokens": 3, "completion_tokens": 2})
    assert await code(gate, secret) == (200, None)
    [row] = await gate.runs[0].rows()
    assert (row["key"], row["org"], row["input_tokens"], row["output_tokens"]) == ("written", "acme", 3, 2)
    await gate.runs[0].gateway._keys.tell_uses()
    assert (await gate.registry.keys.one(key_id)).last_used_unix_ms is not None


async def test_no_log_and_no_answer_has_a_key_or_its_digest(
    valkey: Valkey, tmp_path: Path, capfdbinary: pytest.CaptureFixture[bytes]
) -> None:
    loud = {"level": "debug", "log": "json"}
    database = f"sqlite:///{tmp_path / 'tiergate.db'}"
    async with fleet(1, valkey, database, tmp_path, telemetry=loud) as gate:
        secret, key_id = await gate.mint("quiet")
        answers_told = [await gate.ask(0, secret), await gate.ask(0, secret, model="unknown")]
        (tmp_path / "tiergate.db").rename(tmp_path / "away.db")
        gate.runs[0].gateway._keys._ring.outdate(1)
        answers_told.append(await gate.ask(0, secret))
        (tmp_path / "away.db").rename(tmp_path / "tiergate.db")
        async with gate.registry.tenancy.change() as change:
            await change.execute(text("UPDATE api_key SET definition = 'no JSON'"))
        gate.runs[0].gateway._keys._rests_until_s = 0.0
        gate.runs[0].gateway._keys._ring.outdate(2)
        answers_told.append(await gate.ask(0, secret))
        await gate.registry.keys.revoke(ACTOR, key_id)
        answers_told.append(await gate.ask(0, secret))
        await gate.settled()
        await asyncio.sleep(0)
    assert [answer.status_code for answer in answers_told] == [200, 404, 200, 503, 401]
    logs = capfdbinary.readouterr()
    shown = b"\n".join((logs.out, logs.err, *(f"{answer.text} {answer.headers}".encode() for answer in answers_told)))
    assert key_id.encode() in logs.out
    assert b"keys_unavailable" in logs.out
    for part in (secret[-49:], *(digest(PEPPER, secret).hex(), plain_digest(secret).hex(), PEPPER.decode())):
        assert part.encode() not in shown


async def test_a_damaged_key_is_a_fault_of_its_own_alone(gate: Fleet) -> None:
    damaged, _ = await gate.mint("damaged")
    good, _ = await gate.mint("good")
    async with gate.registry.tenancy.change() as change:
        await change.execute(text("UPDATE api_key SET definition = 'no JSON' WHERE name = 'damaged'"))
    for _ in range(2):
        assert await code(gate, damaged) == (503, "auth_unavailable")
        assert await code(gate, good) == (200, None)
    listed = await gate.registry.keys.many(Wanted())
    assert {key.name: key.state for key in listed} == {"damaged": "damaged", "good": "active"}
    term = Term(kind="project", name="lab", org="acme")
    await gate.registry.terms.put(ACTOR, term, {})
    await gate.registry.terms.delete(ACTOR, term)
    await gate.registry.keys.edit(ACTOR, "damaged", Edit(definition={}))
    assert await code(gate, damaged) == (200, None)


async def test_without_its_file_the_known_are_served_and_the_unknown_wait(gate: Fleet, tmp_path: Path) -> None:
    file, away = tmp_path / "tiergate.db", tmp_path / "away.db"

    async def lose() -> None:
        file.rename(away)

    async def find_again() -> None:
        away.rename(file)

    await served_without_a_database(gate, lose, find_again)


async def test_without_its_postgres_the_known_are_served_and_the_unknown_wait(valkey: Valkey, tmp_path: Path) -> None:
    with Postgres() as server:
        database = server.create()
        await upgrade(Database(database))
        async with fleet(1, valkey, database, tmp_path) as gate:
            await served_without_a_database(
                gate, partial(asyncio.to_thread, server.stop), partial(asyncio.to_thread, server.start)
            )


async def served_without_a_database(gate: Fleet, lose: Change, find_again: Change) -> None:
    known, _ = await gate.mint("known")
    unmet, _ = await gate.mint("unmet")
    assert await code(gate, known) == (200, None)
    await gate.runs[0].rows()  # nothing is left to write
    await lose()
    gate.runs[0].gateway._keys._ring.outdate(1)
    try:
        assert await code(gate, known) == (200, None)
        assert await code(gate, SECRET) == (200, None), "a key of the file needs no database"
        answer = await gate.ask(0, unmet)
        assert (answer.status_code, answer.json()["error"]["code"]) == (503, "auth_unavailable")
        assert answer.headers["retry-after"] == "1"
        models = await gate.runs[0].client.get("/v1/models", headers=bearer(unmet))
        assert (models.status_code, models.json()["error"]["code"]) == (503, "auth_unavailable")
        assert await code(gate, f"{unmet[:-1]}~") == (401, "invalid_api_key")
    finally:
        await find_again()
    await gate.comes(0, unmet, 200)
