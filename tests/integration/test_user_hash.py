"""The ledger tells a client's own users apart where a key has that noted, and knows none of them by name."""

import asyncio
from pathlib import Path
from typing import Any

from gateway.policy.credentials import user_hash
from gateway.stores.database import Reader
from gateway.stores.reports import Question, Reports
from tests.fakes.openai import Models
from tests.integration.scene import Scene, scene
from tests.running import PEPPER, config
from tests.valkey import Valkey

PLAIN = "sk-test-secret-of-a-plain-key"
MODELS = {"m": {"deployments": [{"provider": "p", "model": "up-m"}]}}


def settings() -> dict[str, Any]:
    found = config({"p": "{upstream}"}, MODELS, plan={"user_hash": True})
    return {**found, "keys": [*found["keys"], {"name": "plain", "org": "acme", "secret": PLAIN, "user_hash": False}]}


async def hashes(place: Scene) -> list[str | None]:
    """Return what the rows have, oldest first."""
    return [row["user_hash"] for row in reversed(await place.run.rows())]


async def test_each_user_of_an_org_has_a_hash_of_its_own(valkey: Valkey, tmp_path: Path) -> None:
    async with scene(Models(), settings(), valkey, tmp_path) as place:
        for user in ("ann", "bob", "ann", "", ...):
            assert (await place.ask(model="m", user=user)).status_code == 200
        ann, bob = (user_hash(PEPPER, "acme", user) for user in ("ann", "bob"))
        assert await hashes(place) == [ann, bob, ann, None, None]
        assert len({ann, bob, user_hash(PEPPER, "others", "ann"), user_hash(b"another", "acme", "ann")}) == 4


async def test_a_request_has_it_from_the_beginning_and_where_it_never_ends(valkey: Valkey, tmp_path: Path) -> None:
    models, leases = Models(), {"ttl": "1s", "heartbeat": "100ms"}
    async with scene(models, {**settings(), "leases": leases}, valkey, tmp_path) as place:

        async def comes(outcome: str | None) -> str | None:
            """Return the hash of the one row once it has this outcome."""
            reader = Reader(place.run.database)
            try:
                async with asyncio.timeout(20):
                    while not (rows := await Reports(reader).rows(Question(live=True))) or rows[0]["outcome"] != outcome:
                        await asyncio.sleep(0.05)
            finally:
                await reader.close()
            return str(rows[0]["user_hash"])

        asking = asyncio.create_task(place.ask(model="m", user="holder"))
        holder = user_hash(PEPPER, "acme", "holder")
        assert await comes(None) == holder
        await place.run.gateway._leases.stop()
        assert await comes("abandoned") == holder
        models.release()
        assert (await asking).status_code == 200
        assert await comes("ok") == holder


async def test_a_key_that_has_it_off_notes_nothing(valkey: Valkey, tmp_path: Path) -> None:
    async with scene(Models(), settings(), valkey, tmp_path) as place:
        assert (await place.ask(model="m", user="ann", key=PLAIN)).status_code == 200
        assert await hashes(place) == [None]


async def test_a_message_names_its_user_in_its_metadata(valkey: Valkey, tmp_path: Path) -> None:
    async with scene(Models(), settings(), valkey, tmp_path) as place:
        answer = await place.ask(path="/v1/messages", model="m", metadata={"user_id": "ann"})
        assert answer.status_code == 200, answer.text
        assert await hashes(place) == [user_hash(PEPPER, "acme", "ann")]
