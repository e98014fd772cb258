"""Cases USE-09 and USE-10 where they come from: providers that count the parts of a prompt one by one, and tell it twice."""

from collections.abc import AsyncIterator
from typing import Any

import pytest
import pytest_asyncio

from tests.fakes.anthropic import HELLO, begins, block, ends, message, streamed
from tests.fakes.http_server import Script
from tests.fakes.openai import refuses
from tests.field.metering import CACHED_NANO_USD, INPUT_NANO_USD, OUTPUT_NANO_USD, PRICE, Metered, metered, model, settings
from tests.valkey import Valkey

WRITTEN_NANO_USD = 12_500 * 1_000
"""What a token costs that is cached anew."""

pytestmark = pytest.mark.asyncio(loop_scope="module")


def of_messages() -> dict[str, Any]:
    found = settings(models={"m": model("m", price={**PRICE, "cache_write": 12_500})})
    found["providers"]["p"] |= {"dialect": "anthropic", "endpoints": ["chat"]}
    return found


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def shared(valkey_server: Valkey, tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Metered]:
    async with metered(of_messages(), valkey_server, tmp_path_factory.mktemp("messages")) as found:
        yield found


@pytest_asyncio.fixture(loop_scope="module")
async def gate(shared: Metered) -> AsyncIterator[Metered]:
    yield shared
    await shared.rest()


def says(usage: dict[str, Any], *, stream: bool) -> Script:
    if not stream:
        return refuses(200, message(usage=usage))
    return streamed(begins(**{**usage, "output_tokens": 1}) + block(0, HELLO) + ends(output_tokens=usage["output_tokens"]))


PROMPTS: dict[str, tuple[dict[str, int], int, int, int]] = {
    "written": ({"input_tokens": 3, "cache_creation_input_tokens": 12_304, "cache_read_input_tokens": 0}, 12_307, 0, 12_304),
    "read": ({"input_tokens": 3, "cache_creation_input_tokens": 0, "cache_read_input_tokens": 12_304}, 12_307, 12_304, 0),
    "both": ({"input_tokens": 100, "cache_creation_input_tokens": 200, "cache_read_input_tokens": 700}, 1_000, 700, 200),
    "neither": ({"input_tokens": 1_000}, 1_000, 0, 0),
}
"""What is told, and what that is of a prompt, of its cached part, and of that which was cached anew."""


@pytest.mark.parametrize("stream", [False, True], ids=["whole", "stream"])
@pytest.mark.parametrize("prompt", PROMPTS)
async def test_use_09_the_parts_of_a_prompt_are_added_up_once(prompt: str, stream: bool, gate: Metered) -> None:
    stated, given, cached, written = PROMPTS[prompt]
    gate.models.acts["m"] = says({**stated, "output_tokens": 550}, stream=stream)
    assert (await gate.ask(model="m", stream=stream)).status_code == 200
    line = await gate.line()
    assert (line["input_tokens"], line["cached_tokens"], line["output_tokens"]) == (given, cached, 550)
    assert line["cache_write_tokens"] == written
    parts = (given - cached - written) * INPUT_NANO_USD, cached * CACHED_NANO_USD, written * WRITTEN_NANO_USD
    assert line["cost_nano_usd"] == sum(parts) + 550 * OUTPUT_NANO_USD


VIEWS: dict[str, tuple[dict[str, Any], dict[str, Any], int, int]] = {
    "details at the end": ({"input_tokens": 5_000}, {"input_tokens": 200, "cache_read_input_tokens": 4_800}, 5_000, 4_800),
    "details at the beginning": ({"input_tokens": 200, "cache_read_input_tokens": 4_800}, {}, 5_000, 4_800),
    "the same twice": ({"input_tokens": 5_000}, {"input_tokens": 5_000}, 5_000, 0),
    "nothing at the end": ({"input_tokens": 5_000}, {"input_tokens": 0, "cache_read_input_tokens": 0}, 5_000, 0),
    "nothing at the beginning": ({"input_tokens": 0}, {"input_tokens": 5_000}, 5_000, 0),
}


@pytest.mark.parametrize("view", VIEWS)
async def test_use_10_the_beginning_and_the_end_are_views_of_one_total(view: str, gate: Metered) -> None:
    first, last, given, cached = VIEWS[view]
    gate.models.acts["m"] = streamed(begins(**first) + block(0, HELLO) + ends(output_tokens=40, **last))
    answer = await gate.ask(model="m", stream=True, stream_options={"include_usage": True})
    assert f'"usage":{{"prompt_tokens":{given},"completion_tokens":40,"total_tokens":{given + 40}' in answer.text
    line = await gate.line()
    assert (line["input_tokens"], line["cached_tokens"], line["output_tokens"]) == (given, cached, 40)
