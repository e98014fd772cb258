"""A thousand junk models, keys and users make no series: what a client writes is no label."""

import asyncio
from collections.abc import AsyncIterator, Iterable
from typing import Any

import msgspec
import pytest
import pytest_asyncio

from gateway.generation import labels_of
from tests.fakes.http_server import HttpServer
from tests.fakes.openai import Models
from tests.fakes.wire import Wire, post
from tests.field.counting import counted, moved, total
from tests.running import SECRET, Running, config, running
from tests.valkey import Valkey

pytestmark = [pytest.mark.asyncio(loop_scope="module"), pytest.mark.timeout(300)]

JUNK = 1_000
AT_ONCE = 8
MARKER = "xqzjunk"


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def run(valkey_server: Valkey, tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Running]:
    async with HttpServer(Models()) as server:
        models = {"m": {"deployments": [{"provider": "p", "model": "up-m"}]}}
        async with running(config({"p": server.base_url}, models), valkey_server, tmp_path_factory.mktemp("series")) as found:
            yield found


def asked(secret: str, **fields: Any) -> bytes:
    """Return the bytes of a request for a chat completion by this key."""
    body = {"model": "m", "messages": [{"role": "user", "content": "hi"}], **fields}
    return post(msgspec.json.encode(body), ("authorization", f"Bearer {secret}"), ("content-type", "application/json"))


async def ask(url: str, numbers: Iterable[int]) -> None:
    """Ask for each with a model, a key and a user that nobody has heard of, each in a request of its own."""
    async with Wire(url) as wire:
        for number in numbers:
            word = f"{MARKER}-{number}"
            unknown = asked(SECRET, model=word), asked(SECRET, user=word, metadata={"who": word}), asked(f"sk-{word}")
            for request, status in zip(unknown, (404, 200, 401), strict=True):
                await wire.send(request)
                assert (await wire.answer()).status == status


async def test_a_thousand_junk_models_keys_and_users_make_no_series(run: Running) -> None:
    await ask(run.url, [0])
    before = await counted(run)
    numbers = iter(range(1, JUNK + 1))
    await asyncio.gather(*(ask(run.url, numbers) for _ in range(AT_ONCE)))
    after = await counted(run)
    assert after.keys() == before.keys()
    assert total(moved(before, after), "tiergate_requests_total") == 3 * JUNK
    assert not [series for series in after if MARKER in series]


async def test_orgs_beyond_the_bound_share_a_label(run: Running) -> None:
    catalogue = run.gateway._current()
    assert labels_of(catalogue, 200).orgs == {"acme"}
    assert labels_of(catalogue, 0).orgs == frozenset()
