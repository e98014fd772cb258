"""Cases AK-01, AK-08 and AK-09: keys that come, change and go while gateways run."""

import asyncio
from collections.abc import AsyncIterator

import msgspec
import pytest
import pytest_asyncio
from redis.asyncio import Redis
from sqlalchemy import select

from gateway.policy.minting import ID_BYTES, SECRET_BYTES, mint, new_id
from gateway.stores.engine import Database
from gateway.stores.minted import Draft, MintedKeys
from gateway.stores.schema import EVENTS
from gateway.stores.versions import upgrade
from tests.fakes.http_server import Call
from tests.fakes.openai import DONE, SSE, event
from tests.fakes.wire import Wire, post
from tests.integration.minting import ACTOR, Fleet, fleet
from tests.valkey import Valkey

pytestmark = pytest.mark.asyncio(loop_scope="module")

CHAT = msgspec.json.encode({"model": "m", "messages": [{"role": "user", "content": "hi"}]})
INCORRECT = "Incorrect API key provided"


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def pair(valkey_server: Valkey, tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Fleet]:
    directory = tmp_path_factory.mktemp("minted")
    database = f"sqlite:///{directory / 'tiergate.db'}"
    await upgrade(Database(database))
    async with fleet(2, valkey_server, database, directory) as found:
        yield found


@pytest_asyncio.fixture(loop_scope="module")
async def gates(pair: Fleet) -> AsyncIterator[Fleet]:
    yield pair
    await pair.settled()
    pair.models.forget()


@pytest.mark.parametrize("ending", ["revoke", "block"])
async def test_ak_01_a_key_that_is_taken_away_works_nowhere_however_much_it_is_used(ending: str, gates: Fleet) -> None:
    secret, key_id = await gates.mint(f"leaked-{ending}")
    taken = asyncio.Event()
    after: list[int] = []

    async def use(at: int) -> None:
        while len(after) < 40:
            was_taken = taken.is_set()
            answer = await gates.ask(at, secret)
            if was_taken:
                after.append(answer.status_code)
            else:
                assert answer.status_code in (200, 401), "until the command returns it may be either"

    using = [asyncio.create_task(use(at)) for at in gates.everywhere for _ in range(2)]
    await asyncio.sleep(0.2)
    await (gates.registry.keys.revoke if ending == "revoke" else gates.registry.keys.block)(ACTOR, key_id)
    taken.set()
    await asyncio.gather(*using)
    assert set(after) == {401}
    body = (await gates.ask(0, secret)).json()["error"]
    assert (body["code"], body["message"]) == ("invalid_api_key", INCORRECT)
    if ending == "block":
        await gates.registry.keys.unblock(ACTOR, key_id)
        assert await gates.statuses(secret) == [200, 200]


@pytest.mark.parametrize("cuts", [False, True], ids=["lets them end", "cuts them"])
async def test_ak_01_what_is_under_way_ends_as_the_command_says(cuts: bool, gates: Fleet) -> None:
    secret, key_id = await gates.mint(f"streams-{cuts}")
    go_on = asyncio.Event()

    async def act(call: Call) -> None:
        call.head(200, SSE, chunked=True)
        call.piece(event({"content": "x"}))
        await go_on.wait()
        call.piece(event({}, "stop") + DONE)
        call.end()

    gates.models.acts["m"] = act
    streams = [asyncio.create_task(gates.ask(at, secret, stream=True)) for at in gates.everywhere]
    async with asyncio.timeout(10.0):
        while len(gates.models.asked) < 2:
            await asyncio.sleep(0.01)
    await gates.registry.keys.revoke(ACTOR, key_id, cuts=cuts)
    if cuts:
        texts = [answer.text for answer in await asyncio.gather(*streams)]
        assert all('"code":"invalid_api_key"' in text and "[DONE]" not in text for text in texts)
    assert await gates.statuses(secret) == [401, 401]
    go_on.set()
    if not cuts:
        assert all(answer.text.endswith("data: [DONE]\n\n") for answer in await asyncio.gather(*streams))
    await gates.settled()
    assert [await run.leases() for run in gates.runs] == [0, 0]


async def test_ak_08_both_secrets_are_good_for_the_overlap_and_then_the_new_one_alone(gates: Fleet) -> None:
    old, key_id = await gates.mint("rotated", definition={"limits": {"rpd": 1_000}})
    assert await gates.statuses(old) == [200, 200]
    rotated = await gates.registry.keys.rotate(ACTOR, key_id, overlap_ms=1_500)
    new = rotated.secret or ""
    assert await gates.statuses(new) == [200, 200]
    assert await gates.statuses(old) == [200, 200], "the grace that was asked for"
    for at in gates.everywhere:
        await gates.comes(at, old, 401)
    assert await gates.statuses(new) == [200, 200]
    shown = (await gates.runs[0].client.get("/v1/key", headers={"authorization": f"Bearer {new}"})).json()
    assert (shown["id"], shown["name"]) == (key_id, "rotated")
    assert [row["key"] for row in await gates.runs[0].rows()].count("rotated") >= 8
    rows = await gates.registry.tenancy.fetch(select(EVENTS.c.org, EVENTS.c.key_id).where(EVENTS.c.key == "rotated"))
    assert {(row["org"], row["key_id"]) for row in rows} == {("acme", key_id)}
    [limit] = [each for each in shown["limits"] if each["kind"] == "rpd"]
    assert limit["used"] == len(rows), "one account"


async def test_ak_09_a_key_that_was_tried_before_it_was_made_works_at_once(gates: Fleet) -> None:
    chance = {ID_BYTES: b"a" * ID_BYTES, SECRET_BYTES: b"b" * SECRET_BYTES}
    secret = mint("live", new_id(chance[ID_BYTES]), chance[SECRET_BYTES])
    assert await gates.statuses(secret) == [401, 401]
    tenancy = gates.registry.tenancy
    random = tenancy.means
    tenancy.means = msgspec.structs.replace(random, chance=chance.__getitem__)
    try:
        made = await MintedKeys(tenancy).create(ACTOR, Draft(name="early", org="acme"))
    finally:
        tenancy.means = random
    assert made.secret == secret
    for at in gates.everywhere:
        await gates.comes(at, secret, 200, within_s=5.0)


async def test_ak_09_a_flood_of_guesses_costs_little_and_bounded_memory(gates: Fleet) -> None:
    run = gates.runs[0]
    good, _ = await gates.mint("steady")
    assert (await gates.ask(0, good)).status_code == 200
    await gates.settled()
    keys, redis = run.gateway._keys, run.gateway._redis
    before = await verdicts(redis)
    asked, known = keys.look_ups, len(keys._ring)

    async def guess(*guesses: str) -> None:
        async with Wire(run.url) as wire:
            for each in guesses:
                await wire.send(post(CHAT, ("content-type", "application/json"), ("authorization", f"Bearer {each}")))
                answer = await wire.answer()
                assert (answer.status, answer.json()["error"]["message"]) == (401, INCORRECT)

    await guess(*(f"{good[:-1]}{digit}" for digit in "0123456789" if digit != good[-1]), *(f"tg_live_{n}" for n in range(200)))
    assert (keys.look_ups, len(keys._ring)) == (asked, known), "its own checksum gives a bad key away"
    await guess(*["sk-one-guess-0123456789"] * 100)
    assert keys.look_ups == asked + 1, "what was asked a moment ago is known"
    await guess(*(f"sk-guessed-{n:016}" for n in range(200)))
    assert keys.look_ups <= asked + 201
    assert len(keys._ring) <= known + 201
    assert await verdicts(redis) == before, "the store was asked for none of them"
    assert (await gates.ask(0, good)).status_code == 200


async def verdicts(redis: Redis) -> int:
    """Return how often the store was asked for a verdict: only such scripts read several keys at once."""
    found: int = (await redis.info("commandstats"))["cmdstat_mget"]["calls"]
    return found


async def test_ak_08_no_rotation_wakes_what_was_revoked(gates: Fleet) -> None:
    old, key_id = await gates.mint("gone")
    rotated = await gates.registry.keys.rotate(ACTOR, key_id, overlap_ms=60_000)
    await gates.registry.keys.revoke(ACTOR, key_id)
    for secret in (old, rotated.secret or ""):
        assert await gates.statuses(secret) == [401, 401]
