"""A thousand junk models, keys and users make no series: what a client writes is no label."""

import asyncio
from collections.abc import AsyncIterator

import pytest
import pytest_asyncio

from gateway.generation import labels_of
from tests.fakes.http_server import HttpServer
from tests.fakes.openai import Models
from tests.field.counting import counted, moved, total
from tests.running import HEADERS, Running, config, running
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


async def ask(run: Running, number: int) -> None:
    """Ask with a model, a key and a user that nobody has heard of, each in a request of its own."""
    word = f"{MARKER}-{number}"
    await run.chat(model=word)
    await run.chat(user=word, metadata={"who": word})
    body = {"model": "m", "messages": [{"role": "user", "content": "hi"}]}
    await run.client.post("/v1/chat/completions", json=body, headers={**HEADERS, "authorization": f"Bearer sk-{word}"})


async def test_a_thousand_junk_models_keys_and_users_make_no_series(run: Running) -> None:
    await ask(run, 0)
    before = await counted(run)
    for start in range(1, JUNK + 1, AT_ONCE):
        await asyncio.gather(*(ask(run, number) for number in range(start, start + AT_ONCE)))
    after = await counted(run)
    assert after.keys() == before.keys()
    assert total(moved(before, after), "tiergate_requests_total") == 3 * JUNK
    assert not [series for series in after if MARKER in series]


async def test_orgs_beyond_the_bound_share_a_label(run: Running) -> None:
    catalogue = run.gateway._current()
    assert labels_of(catalogue, 200).orgs == {"acme"}
    assert labels_of(catalogue, 0).orgs == frozenset()
