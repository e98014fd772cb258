"""What the official OpenAI SDK makes of streams whose providers are odd: it reads them whole, or raises.

Some of these bytes it cannot read by itself: it would lose the stream, or take half an answer for whole and say nothing.
"""

import asyncio
from asyncio.subprocess import PIPE
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec
import pytest
import pytest_asyncio

from tests.fakes.http_server import Call, Script
from tests.fakes.openai import DONE, JSON, encode
from tests.field.streaming import Shape, apart, error, event, model, stage, used
from tests.running import SECRET
from tests.valkey import Valkey

pytestmark = pytest.mark.asyncio(loop_scope="module")

PYTHON = Path(__file__).parents[2] / ".venv-openai" / "bin" / "python"
CONTROLS = b"retry: 1000\n\ndata:\n\n: PROCESSING\n\nid: 7\n\nevent: ping\ndata:\n\ndata: : PROCESSING\n\n"


def said(shape: Shape) -> bytes:
    return shape.begins() + shape.says("one") + shape.says("two")


def whole(shape: Shape) -> bytes:
    return said(shape) + shape.ends() + shape.usage(3, 2) + DONE


def html(shape: Shape) -> Script:
    async def act(call: Call) -> None:
        call.reply(200, b"<html>blocked</html>", [("content-type", "text/html")])

    return act


def json(shape: Shape) -> Script:
    async def act(call: Call) -> None:
        call.reply(200, encode(error("insufficient_quota")), JSON)

    return act


WHOLE: Mapping[str, Any] = {
    "plain": lambda shape: apart(whole(shape)),
    "crlf": lambda shape: apart(whole(shape).replace(b"\n", b"\r\n")),
    "cr": lambda shape: apart(whole(shape).replace(b"\n", b"\r")),
    "mark": lambda shape: apart(b"\xef\xbb\xbf" + whole(shape)),
    "controls": lambda shape: apart(CONTROLS, said(shape), CONTROLS, shape.ends(), CONTROLS, DONE),
    "no_chunks": lambda shape: apart(said(shape), event(b"[]"), event(b"{}"), event(b"no json"), shape.ends(), DONE),
    "two_lines": lambda shape: apart(whole(shape).replace(b',"created"', b'\ndata: ,"created"')),
    "no_end_mark": lambda shape: apart(said(shape), shape.ends()),
    "no_finish": lambda shape: apart(said(shape), DONE),
    "reset_behind_the_finish": lambda shape: apart(said(shape), shape.ends(), then=Call.reset),
    "empty_usage": lambda shape: apart(said(shape), shape.ends(), shape.chunk([], usage=None), DONE),
    "usage": lambda shape: apart(said(shape), shape.ends(usage=used(3, 2)), DONE),
    "late": lambda shape: apart(whole(shape), shape.says("late"), event(encode(error(500)))),
}
BROKEN: Mapping[str, Any] = {
    "eof": lambda shape: apart(said(shape)),
    "reset": lambda shape: apart(said(shape), then=Call.reset),
    "error": lambda shape: apart(said(shape), event(encode(error(502))), DONE),
    "error_beside_a_choice": lambda shape: apart(said(shape), shape.ends("error", **error(502)), DONE),
    "error_as_text": lambda shape: apart(said(shape), event(b'{"error":"worker limit"}'), DONE),
    "error_in_plain_words": lambda shape: apart(said(shape), event(b"Error: worker limit"), DONE),
    "half_a_chunk": lambda shape: apart(said(shape), event(b'{"choices":[{'), DONE),
}
REFUSED: Mapping[str, Any] = {
    "html": html,
    "json": json,
    "nothing": lambda shape: apart(b": \n\n"),
    "end_mark_alone": lambda shape: apart(shape.begins(), DONE),
    "error_first": lambda shape: apart(shape.begins(), event(encode(error(502)))),
}
EVERY = {**WHOLE, **BROKEN, **REFUSED}

Seen = dict[str, list[dict[str, Any]]]


async def by_name(call: Call) -> None:
    shape = Shape("/v1" + call.request.path.partition("/v1")[2])
    await EVERY[msgspec.json.decode(call.request.body)["user"]](shape)(call)


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def seen(valkey_server: Valkey, tmp_path_factory: pytest.TempPathFactory) -> Seen:
    assert PYTHON.exists(), "make test makes .venv-openai first"
    async with stage(valkey_server, tmp_path_factory.mktemp("sdk"), {"m": model("m")}) as gate:
        gate.models.acts["m"] = by_name
        told = encode({"base_url": f"{gate.run.url}/v1", "secret": SECRET, "names": list(EVERY)})
        application = await asyncio.create_subprocess_exec(
            PYTHON, Path(__file__).with_name("sdk.py"), told, stdout=PIPE, stderr=PIPE
        )
        out, err = await application.communicate()
        assert application.returncode == 0, err.decode()
        found: Seen = msgspec.json.decode(out)
        return found


shaped = pytest.mark.parametrize("endpoint", ["chat", "completions"])


@shaped
@pytest.mark.parametrize("name", WHOLE)
async def test_the_sdk_reads_a_whole_answer(name: str, endpoint: str, seen: Seen) -> None:
    for reading in seen[f"{name} {endpoint}"]:
        assert (reading["text"], reading["finishes"], reading["raised"]) == ("onetwo", ["stop"], None)
        assert [usage["completion_tokens"] for usage in reading["usages"]] == ([2] if name == "usage" else [])


@shaped
@pytest.mark.parametrize("name", BROKEN)
async def test_the_sdk_raises_after_half_an_answer(name: str, endpoint: str, seen: Seen) -> None:
    for reading in seen[f"{name} {endpoint}"]:
        assert (reading["text"], reading["finishes"]) == ("onetwo", [])
        raised = reading["raised"]
        assert (raised["class"], raised["code"], raised["type"]) == ("APIError", "stream_interrupted", "upstream_error")
        assert raised["message"] == "The model's provider broke off before the answer was complete"


@shaped
@pytest.mark.parametrize("name", REFUSED)
async def test_the_sdk_raises_by_status_where_there_is_no_answer(name: str, endpoint: str, seen: Seen) -> None:
    for reading in seen[f"{name} {endpoint}"]:
        assert (reading["text"], reading["raised"]["class"]) == ("", "InternalServerError")
        assert not any(words in reading["raised"]["message"] for words in ("blocked", "worker limit"))
