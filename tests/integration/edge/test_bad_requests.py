"""Requests that are no good: each is told what is wrong in the one envelope, costs nothing, and leaves its connection usable.

What leaves nobody sure where the next request begins ends its connection instead.
"""

import contextlib

import pytest

from tests.fakes.wire import Answer, Wire
from tests.integration.edge.bad import ALL, COUNTED, GOOD, MARKER, Bad
from tests.integration.edge.framing import ENDING, EVERY, LONG, LONG_TRAILER, ODD
from tests.integration.scene import Scene
from tests.running import SECRET

pytestmark = pytest.mark.asyncio(loop_scope="module")


def check(bad: Bad, answer: Answer) -> None:
    """Assert that the answer is this error, whole, and gives nothing away."""
    assert answer.status == bad.status
    assert answer.headers["content-type"] == "application/json"
    if bad.method == "HEAD":
        return
    found = answer.json()
    error = found["error"]
    assert set(error) == {"message", "type", "param", "code"}
    assert (error["code"], error["param"], error["type"]) == (bad.code, bad.param, kind(bad.status))
    assert error["message"]
    assert ("detail" in found) == (bad.status == 422)
    assert not any(secret in answer.body.decode() for secret in (MARKER, SECRET, "127.0.0.1", "up-m", "Traceback"))


def kind(status: int) -> str:
    return "permission_error" if status == 403 else "invalid_request_error"


@pytest.mark.parametrize("bad", ALL, ids=lambda bad: bad.id)
async def test_it_is_told_in_one_shape_and_the_connection_goes_on(bad: Bad, gate: Scene) -> None:
    async with Wire(gate.run.url) as wire:
        await wire.send(bad.data)
        answer = await wire.answer(bad.method)
        check(bad, answer)
        assert len(answer.headers["x-request-id"]) == 36
        assert gate.models.asked == []
        await wire.send(GOOD)
        assert (await wire.answer()).status == 200


@pytest.mark.parametrize("bad", [*ENDING, LONG, LONG_TRAILER], ids=lambda bad: bad.id)
async def test_what_is_no_clean_http_ends_its_connection(bad: Bad, gate: Scene) -> None:
    async with Wire(gate.run.url) as wire:
        # What comes behind it, a whole request, must not be taken for one.
        await wire.send(bad.data + GOOD)
        answer = await wire.answer(bad.method)
        check(bad, answer)
        assert answer.headers["connection"] == "close"
        with contextlib.suppress(ConnectionResetError):  # what it had sent behind was not read
            assert await wire.ended()
    await gate.run.settled()
    assert gate.models.asked == []


@pytest.mark.parametrize("data", ODD.values(), ids=ODD)
async def test_what_is_odd_and_right_is_answered_once(data: bytes, gate: Scene) -> None:
    async with Wire(gate.run.url) as wire:
        await wire.send(data)
        assert (await wire.answer()).status == 200
        assert gate.models.asked == ["m"]
        await wire.send(GOOD)
        assert (await wire.answer()).status == 200


async def test_the_table_is_long_and_each_line_has_its_own_name() -> None:
    assert len({bad.id for bad in EVERY}) == len(EVERY) >= 220


async def test_none_of_them_costs_anything(gate: Scene) -> None:
    rows = len(await gate.run.rows())
    for bad in EVERY:
        async with Wire(gate.run.url) as wire:
            await wire.send(bad.data.replace(SECRET.encode(), COUNTED.encode()))
            assert (await wire.answer(bad.method)).status == bad.status
    good = [await gate.ask(key=COUNTED, model="m", service_tier="default") for _ in range(2)]
    assert [answer.status_code for answer in good] == [200, 429]
    assert good[0].headers["x-ratelimit-remaining-requests"] == "0"
    assert len(await gate.run.rows()) == rows + 1
    assert await gate.run.leases() == 0


@pytest.mark.parametrize("path", ["/v1/models", "/v1/models/m", "/health"])
async def test_what_is_no_inference_has_an_id_too(path: str, gate: Scene) -> None:
    answer = await gate.run.client.get(path)
    assert (answer.status_code, len(answer.headers["x-request-id"])) == (200, 36)
