"""Cases CFG-01 and CFG-04: what is mounted is read as it is meant, and the file alone says how large a body may be."""

import asyncio
from collections.abc import AsyncIterator

import msgspec
import pytest
import pytest_asyncio

from gateway.config import Config
from tests.fakes.openai import Models
from tests.fakes.wire import Answer, Wire, chunked, post
from tests.integration.edge.bad import AUTH, CHUNKED, TYPE
from tests.integration.scene import Scene, scene
from tests.running import config
from tests.valkey import Valkey

pytestmark = pytest.mark.asyncio(loop_scope="module")

MODEL = {"deployments": [{"provider": "p", "model": "up-m"}]}
MEBIBYTE = 1 << 20
BODY_BYTES = 16 * MEBIBYTE
PROVIDERS_KEY = "sk-up-of-a-mounted-file"


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def shared(valkey_server: Valkey, tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Scene]:
    directory = tmp_path_factory.mktemp("cfg")
    (directory / "key").write_text(f"{PROVIDERS_KEY}\n")
    found = config({"p": "{upstream}"}, {"m": MODEL}, limits={"body": f"{BODY_BYTES}B"})
    found["providers"]["p"]["api_key"] = f"${{file:{directory / 'key'}}}"
    async with scene(Models(), found, valkey_server, directory) as gate:
        yield gate


@pytest_asyncio.fixture(loop_scope="module")
async def gate(shared: Scene) -> AsyncIterator[Scene]:
    yield shared
    await shared.rest()
    shared.server.requests.clear()


async def test_cfg_01_the_line_end_of_a_mounted_file_is_no_part_of_the_secret(gate: Scene) -> None:
    assert (await gate.ask(model="m")).status_code == 200
    assert gate.server.requests[-1].header("authorization") == f"Bearer {PROVIDERS_KEY}"


def with_image(length: int) -> bytes:
    """Return a request about an image of this length, as it is written in one."""
    image = {"type": "image_url", "image_url": {"url": "data:image/png;base64," + "A" * length}}
    return msgspec.json.encode({"model": "m", "messages": [{"role": "user", "content": [image]}]})


def is_too_large(answer: Answer) -> None:
    """Assert that an answer says so as OpenAI does."""
    assert (answer.status, answer.headers["content-type"]) == (413, "application/json")
    error = answer.json()["error"]
    assert (set(error), error["code"]) == ({"message", "type", "param", "code"}, "request_too_large")


async def test_cfg_04_an_image_may_be_as_large_as_the_file_says(gate: Scene) -> None:
    assert Config().limits.body_bytes == 10 * MEBIBYTE
    body = with_image(12_000_000)
    pieces = [body[start : start + MEBIBYTE] for start in range(0, len(body), MEBIBYTE)]
    for data in (post(body, AUTH, TYPE), post(chunked(*pieces), AUTH, TYPE, CHUNKED, framed=False)):
        async with Wire(gate.run.url) as wire:
            await wire.send(data)
            assert (await wire.answer()).status == 200
        assert gate.server.requests[-1].body.count(b"A") >= 12_000_000
        gate.server.requests.clear()


async def test_cfg_04_one_that_says_how_much_too_large_it_is_is_not_read(gate: Scene) -> None:
    head = post(b"", AUTH, TYPE, ("content-length", "200000000"), framed=False)
    for length in (str(BODY_BYTES + 1), "200000000"):
        async with Wire(gate.run.url) as wire:
            await wire.send(head.replace(b"200000000", length.encode()))
            is_too_large(await wire.answer())
    assert gate.models.asked == []


async def test_cfg_04_one_that_does_not_say_is_read_no_further_than_may_be(gate: Scene) -> None:
    piece = chunked(b"A" * MEBIBYTE).removesuffix(chunked())
    async with Wire(gate.run.url) as wire:
        sent_bytes = 0

        async def send() -> None:
            nonlocal sent_bytes
            while sent_bytes < 200_000_000:
                await wire.send(piece)
                sent_bytes += len(piece)

        await wire.send(post(b"", AUTH, TYPE, CHUNKED, framed=False))
        sending = asyncio.create_task(send())
        is_too_large(await wire.answer())
        sending.cancel()
        await asyncio.gather(sending, return_exceptions=True)
    assert sent_bytes < 4 * BODY_BYTES, "but for what the buffers of two sockets take"
    assert gate.models.asked == []
