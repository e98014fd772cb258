"""`quirks.finish_chunk_usage`: usage that comes with the finish reaches clients then, in the shape that their contract has."""

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import msgspec
import pytest
import pytest_asyncio

from tests.fakes.http_server import Call
from tests.fakes.openai import DONE, SSE, USAGE, Models, event, streams
from tests.integration.scene import ASKED, Scene, scene
from tests.running import config
from tests.valkey import Valkey

pytestmark = pytest.mark.asyncio(loop_scope="module")

V1, DEEPINFRA = "/v1", "/deepinfra/v1"
ASKS = {"stream_options": {"include_usage": True}}
WITHOUT = {"stream_options": {"include_usage": False}}
PIECES = (event({"role": "assistant", "content": ""}), event({"content": "Hello"}), event({}, "stop", usage=USAGE))


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def shared(valkey_server: Valkey, tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Scene]:
    models = {name: {"deployments": [{"provider": name, "model": f"up-{name}"}]} for name in ("quirk", "plain")}
    settings = config(dict.fromkeys(models, "{upstream}"), models)
    settings["providers"]["quirk"] |= {"quirks": {"finish_chunk_usage": True}}
    async with scene(Models(), settings, valkey_server, tmp_path_factory.mktemp("finish")) as found:
        yield found


@pytest_asyncio.fixture(loop_scope="module")
async def at(shared: Scene) -> AsyncIterator[Scene]:
    yield shared
    await shared.rest()


def told(text: str) -> list[tuple[bool, bool]]:
    """Return of each chunk whether it has the finish, and whether it has the usage."""
    chunks = [msgspec.json.decode(each[6:]) for each in text.split("\n\n") if each and each != "data: [DONE]"]
    return [(bool(chunk["choices"] and chunk["choices"][0]["finish_reason"]), chunk.get("usage") == USAGE) for chunk in chunks]


@pytest.mark.parametrize("model", ["quirk", "plain"])
@pytest.mark.parametrize(
    ("prefix", "asked", "expected"),
    [
        (V1, {}, [(False, False), (False, False), (True, False)]),
        (V1, ASKS, [(False, False), (False, False), (True, False), (False, True)]),
        (V1, WITHOUT, [(False, False), (False, False), (True, False)]),
        (DEEPINFRA, {}, [(False, False), (False, False), (True, True)]),
        (DEEPINFRA, {"stream_options": {}}, [(False, False), (False, False), (True, True)]),
        (DEEPINFRA, ASKS, [(False, False), (False, False), (True, True)]),
        (DEEPINFRA, WITHOUT, [(False, False), (False, False), (True, False)]),
    ],
)
async def test_it_is_told_as_the_contract_has_it(at: Scene, model: str, prefix: str, asked: Any, expected: object) -> None:
    at.models.acts[model] = streams(*PIECES, DONE)
    answer = await at.ask(path=f"{prefix}/chat/completions", model=model, stream=True, **asked)
    assert told(answer.text) == expected
    (row, *_) = await at.run.rows()
    assert (row["input_tokens"], row["output_tokens"], row["estimated"]) == (10, 20, False)


@pytest.mark.parametrize(("prefix", "asked"), [(V1, ASKS), (DEEPINFRA, {})])
async def test_nobody_waits_for_the_end_mark(at: Scene, prefix: str, asked: Any) -> None:
    async def act(call: Call) -> None:
        call.head(200, SSE, chunked=True)
        for piece in PIECES:
            call.piece(piece)
        await at.models.released()
        call.piece(DONE)
        call.end()

    at.models.acts["quirk"] = act
    body = {**ASKED["chat"], "model": "quirk", "stream": True, **asked}
    async with asyncio.timeout(10), at.run.client.stream("POST", f"{prefix}/chat/completions", json=body) as answer:
        text = ""
        async for piece in answer.aiter_text():
            text += piece
            if '"prompt_tokens":10' in text and '"finish_reason":"stop"' in text:
                at.models.release()
    assert text.endswith("data: [DONE]\n\n")
