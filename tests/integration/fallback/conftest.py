"""One gateway for all cases of a module that asks for `walk`; each case finds it at rest."""

from collections.abc import AsyncIterator

import pytest
import pytest_asyncio

from tests.fakes.openai import Models
from tests.integration.fallback.chain import chain
from tests.integration.scene import Scene, scene
from tests.valkey import Valkey


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def shared_walk(valkey_server: Valkey, tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Scene]:
    async with scene(Models(), chain(), valkey_server, tmp_path_factory.mktemp("walk")) as found:
        yield found


@pytest_asyncio.fixture(loop_scope="module")
async def walk(shared_walk: Scene) -> AsyncIterator[Scene]:
    yield shared_walk
    await shared_walk.rest()
