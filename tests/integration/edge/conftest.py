"""One gateway for all tests of a module that asks for `gate`: one model, small bodies, and a key that may ask once."""

from collections.abc import AsyncIterator
from typing import Any

import pytest
import pytest_asyncio

from tests.fakes.openai import Models
from tests.integration.edge.bad import COUNTED, MOST_BYTES
from tests.integration.scene import Scene, scene
from tests.running import config
from tests.valkey import Valkey


def settings(**sections: Any) -> dict[str, Any]:
    models = {"m": {"deployments": [{"provider": "p", "model": "up-m"}]}}
    found = config({"p": "{upstream}"}, models, limits={"body": f"{MOST_BYTES // 1024}KiB"}, **sections)
    once = {"rpm": 10, "burst_ratio": 0.1}  # and all these tests' bad requests are no flood
    return {**found, "keys": [*found["keys"], {"name": "counted", "org": "acme", "secret": COUNTED, "limits": once}]}


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def shared_gate(valkey_server: Valkey, tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Scene]:
    async with scene(Models(), settings(), valkey_server, tmp_path_factory.mktemp("gate")) as found:
        yield found


@pytest_asyncio.fixture(loop_scope="module")
async def gate(shared_gate: Scene) -> AsyncIterator[Scene]:
    yield shared_gate
    await shared_gate.rest()
