"""Case SDK-01: clients ask for vectors as base64 and read nothing else, whatever the provider knows of it."""

import asyncio
from asyncio.subprocess import PIPE
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import msgspec
import pytest
import pytest_asyncio

from tests.fakes.embeddings import base64_of, embeds, inputs_of, vector_of
from tests.fakes.http_server import Call
from tests.fakes.openai import Models, encode
from tests.integration.scene import Scene, scene
from tests.running import SECRET, config
from tests.valkey import Valkey

pytestmark = pytest.mark.asyncio(loop_scope="module")

PYTHON = Path(__file__).parents[2] / ".venv-openai" / "bin" / "python"

PROVIDERS = {"float": False, "none": False, "base64": False, "asked": True}
"""What a model's provider knows, see `embeds`; whether the configuration says that it knows the field."""

INPUTS: dict[str, Any] = {
    "one text": "hi",
    "texts": ["hi", "there", "you"],
    "token ids": [1, 2, 3],
    "lists of token ids": [[1, 2], [3]],
}
FORMATS: dict[str, dict[str, str]] = {
    "default": {},
    "float": {"encoding_format": "float"},
    "base64": {"encoding_format": "base64"},
}


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def gate(valkey_server: Valkey, tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Scene]:
    price = {"input": 1.0, "output": 0}
    models = {name: {"deployments": [{"provider": name, "model": f"up-{name}"}], "price": price} for name in PROVIDERS}
    settings = config(dict.fromkeys(PROVIDERS, "{upstream}"), models)
    for name, knows in PROVIDERS.items():
        settings["providers"][name] |= {"endpoints": ["embeddings"], "quirks": {"embeddings_base64": knows}}
    async with scene(Models(), settings, valkey_server, tmp_path_factory.mktemp("embeddings")) as found:
        yield found


@pytest_asyncio.fixture(loop_scope="module")
async def way(gate: Scene) -> AsyncIterator[Scene]:
    gate.models.acts.update({name: embeds(name) for name in PROVIDERS})
    yield gate
    await gate.rest()


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def seen(gate: Scene) -> dict[str, list[dict[str, Any]]]:
    """Return what the SDK made of every input, format and provider."""
    assert PYTHON.exists(), "make test makes .venv-openai first"
    gate.models.acts.update({name: embeds(name) for name in PROVIDERS})
    asked = {
        f"{name} {given} {wanted}": {"model": name, "input": INPUTS[given], **FORMATS[wanted]}
        for name in PROVIDERS
        for given in INPUTS
        for wanted in FORMATS
    }
    application = await asyncio.create_subprocess_exec(
        PYTHON,
        Path(__file__).with_name("embedding.py"),
        encode({"base_url": f"{gate.run.url}/v1", "secret": SECRET, "asked": asked}),
        stdout=PIPE,
        stderr=PIPE,
    )
    out, err = await application.communicate()
    assert application.returncode == 0, err.decode()
    await gate.rest()
    found: dict[str, list[dict[str, Any]]] = msgspec.json.decode(out)
    return found


every = pytest.mark.parametrize("given", INPUTS)
at_each = pytest.mark.parametrize("name", PROVIDERS)
as_each = pytest.mark.parametrize("wanted", FORMATS)


@every
@as_each
@at_each
async def test_sdk_01_the_sdk_reads_the_vectors(
    name: str, wanted: str, given: str, seen: dict[str, list[dict[str, Any]]]
) -> None:
    right = [vector_of(each) for each in inputs_of(INPUTS[given])]
    for reading in seen[f"{name} {given} {wanted}"]:
        assert reading["vectors"] == ([base64_of(row) for row in right] if wanted == "base64" else right)
        assert reading["indices"] == [*range(len(right))]
        assert (reading["model"], reading["prompt_tokens"], reading["total_tokens"]) == (name, 9, 9)


async def ask(way: Scene, name: str, given: str, wanted: str) -> Any:
    asked = {"model": name, "input": INPUTS[given], **FORMATS[wanted]}
    response = await way.ask(path="/v1/embeddings", **asked)
    await way.run.settled()
    assert response.status_code == 200
    return response.json()


@every
@as_each
@at_each
async def test_sdk_01_the_wire_has_what_was_asked_for(name: str, wanted: str, given: str, way: Scene) -> None:
    answer = await ask(way, name, given, wanted)
    right = [vector_of(each) for each in inputs_of(INPUTS[given])]
    assert [each["embedding"] for each in answer["data"]] == ([base64_of(row) for row in right] if wanted == "base64" else right)
    assert [each["index"] for each in answer["data"]] == [*range(len(right))]
    assert answer["model"] == name
    sent = msgspec.json.decode(way.server.requests[-1].body)
    assert sent["input"] == INPUTS[given]
    assert sent.get("encoding_format") == (FORMATS[wanted].get("encoding_format") if PROVIDERS[name] else None)


@at_each
async def test_sdk_01_the_usage_row_has_input_alone(name: str, way: Scene) -> None:
    await ask(way, name, "texts", "base64")
    row = (await way.run.rows())[0]
    assert (row["input_tokens"], row["output_tokens"], row["cost_micro_usd"], row["estimated"]) == (9, 0, 9, False)
    assert (row["outcome"], row["model_served"], row["route"]) == ("ok", name, "/v1/embeddings")


async def test_sdk_01_the_order_of_the_vectors_is_the_providers(way: Scene) -> None:
    async def backwards(call: Call) -> None:
        body = msgspec.json.decode(call.request.body)
        data = [{"index": place, "embedding": vector_of(body["input"][place])} for place in (2, 0, 1)]
        call.reply(200, encode({"object": "list", "data": data, "model": "up", "usage": {"prompt_tokens": 9}}))

    way.models.acts["float"] = backwards
    answer = await ask(way, "float", "texts", "base64")
    assert [each["index"] for each in answer["data"]] == [2, 0, 1]
    assert [each["embedding"] for each in answer["data"]] == [base64_of(vector_of(INPUTS["texts"][at])) for at in (2, 0, 1)]


async def test_sdk_01_fewer_dimensions_are_asked_of_the_provider(way: Scene) -> None:
    response = await way.ask(path="/v1/embeddings", model="none", dimensions=2, encoding_format="base64")
    assert response.json()["data"][0]["embedding"] == base64_of(vector_of("hi", 2))
