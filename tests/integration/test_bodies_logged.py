"""`telemetry.log_bodies`: what was asked and answered is in the log and nowhere else, and no secret is with it."""

from pathlib import Path
from typing import Any

import msgspec
import pytest
from msgspec.structs import replace

from gateway.config import Edition, load
from gateway.policy.catalogue import Secret
from gateway.telemetry.bodies import MOST_BYTES
from gateway.web.inference import Inference
from gateway.web.overheard import Overheard
from tests.fakes.openai import DONE, USAGE, Models, answers, event, streams
from tests.integration.scene import Scene, scene
from tests.integration.test_secrets_planted import SECRETS, Looked, files, look, settings, tables
from tests.running import SECRET, config
from tests.valkey import Valkey

MODELS = {"m": {"deployments": [{"provider": "p", "model": "up-m"}]}}
Captured = pytest.CaptureFixture[bytes]
CONTENTS = {"prompt", "system", "user", "tool", "schema", "metadata", "answer"}
"""What is planted in bodies that clients may read themselves."""


def logging_bodies(**telemetry: Any) -> dict[str, Any]:
    return {**config({"p": "{upstream}"}, MODELS), "telemetry": {"level": "info", "log_bodies": True, **telemetry}}


def lines(captured: Captured) -> list[dict[str, Any]]:
    return [msgspec.json.decode(line) for line in captured.readouterr().out.splitlines()]


def body_of(found: list[dict[str, Any]], event: str) -> dict[str, Any]:
    [line] = [line for line in found if line["event"] == event]
    return line


async def logged(place: Scene, captured: Captured) -> list[dict[str, Any]]:
    await place.run.rows()
    return lines(captured)


async def test_question_and_answer_stand_beside_the_access_line(valkey: Valkey, tmp_path: Path, capfdbinary: Captured) -> None:
    async with scene(Models(), logging_bodies(), valkey, tmp_path) as place:
        answer = await place.ask(model="m", user="somebody")
        found = await logged(place, capfdbinary)
    asked, answered, access = (body_of(found, event) for event in ("request_body", "response_body", "request"))
    assert msgspec.json.decode(asked["body"])["user"] == "somebody"
    assert (answered["body"], answered["bytes"]) == (answer.text, len(answer.content))
    assert {line["request_id"] for line in (asked, answered, access)} == {answer.headers["x-request-id"]}
    assert {line["cut_at_bytes"] for line in (asked, answered)} == {None}
    assert {line["level"] for line in (asked, answered)} == {"info"}


async def test_of_a_stream_it_is_the_bytes_that_were_sent_up_to_a_bound(
    valkey: Valkey, tmp_path: Path, capfdbinary: Captured
) -> None:
    models = Models()
    said = [event({"content": f"word {number}"}) for number in range(400)]
    models.acts["m"] = streams(*said, event({}, "stop"), event({}, choices=[], usage=USAGE), DONE)
    async with scene(models, logging_bodies(), valkey, tmp_path) as place:
        answer = await place.ask(model="m", stream=True, messages=[{"role": "user", "content": "x" * 3 * MOST_BYTES}])
        found = await logged(place, capfdbinary)
    asked, answered = body_of(found, "request_body"), body_of(found, "response_body")
    assert answered["body"] == answer.text[:MOST_BYTES]
    assert (answered["bytes"], answered["cut_at_bytes"]) == (len(answer.content), MOST_BYTES)
    assert (asked["cut_at_bytes"], len(asked["body"]), asked["bytes"] > 3 * MOST_BYTES) == (MOST_BYTES, MOST_BYTES, True)


async def test_a_refusal_is_logged_and_what_a_stranger_sends_is_not(
    valkey: Valkey, tmp_path: Path, capfdbinary: Captured
) -> None:
    async with scene(Models(), logging_bodies(), valkey, tmp_path) as place:
        refused = await place.ask(model="m", temperature="hot")
        stranger = await place.ask(model="m", key="sk-of-nobody-at-all-0123")
        found = await logged(place, capfdbinary)
    assert (refused.status_code, stranger.status_code) == (422, 401)
    assert '"temperature":"hot"' in body_of(found, "request_body")["body"]
    told = {line["request_id"]: line["body"] for line in found if line["event"] == "response_body"}
    assert told == {answer.headers["x-request-id"]: answer.text for answer in (refused, stranger)}


async def test_the_callers_key_is_left_out_of_its_body_and_those_that_came_by_a_reload_too(
    valkey: Valkey, tmp_path: Path, capfdbinary: Captured
) -> None:
    models = Models()
    secret = "a credential of the provider that came later"
    said = {"index": 0, "message": {"role": "assistant", "content": f"it is {secret}"}, "finish_reason": "stop"}
    models.acts["m"] = answers(choices=[said])
    async with scene(models, logging_bodies(), valkey, tmp_path) as place:
        now = load(tmp_path / "gateway.yaml", {}).config
        provider = replace(now.providers["p"], api_key=Secret(secret))
        await place.run.gateway.take(Edition(2, replace(now, providers={"p": provider})))
        answer = await place.ask(model="m", user=f"I am {SECRET}")
        found = await logged(place, capfdbinary)
    assert secret in answer.text
    assert "I am ***" in body_of(found, "request_body")["body"]
    assert "it is ***" in body_of(found, "response_body")["body"]


async def test_what_is_planted_in_bodies_is_in_the_log_and_nowhere_else(
    valkey: Valkey, tmp_path: Path, capfdbinary: Captured
) -> None:
    looked = Looked()
    whole = settings()
    whole["telemetry"]["log_bodies"] = True
    async with scene(Models(), whole, valkey, tmp_path) as place:
        await look(place, valkey, looked)
    looked.add("database", tables(f"sqlite:///{tmp_path / 'ledger.db'}"))
    for name, text in files(tmp_path):
        looked.add(name, text)
    out, errors = capfdbinary.readouterr()
    looked.add("log", out.decode())
    looked.add("standard error", errors.decode())
    for name, secret in SECRETS.items():
        where = {each for each in looked.places(secret) if not each.startswith("provider ")}
        assert where == ({"log"} if name in CONTENTS else set()), name


@pytest.mark.parametrize(("telemetry", "kind"), [({}, Overheard), ({"log_bodies": False}, Inference)])
async def test_where_bodies_are_not_logged_nothing_stands_in_a_requests_way(
    telemetry: dict[str, Any], kind: type, valkey: Valkey, tmp_path: Path, capfdbinary: Captured
) -> None:
    async with scene(Models(), logging_bodies(**telemetry), valkey, tmp_path) as place:
        assert (await place.ask(model="m")).status_code == 200
        found = await logged(place, capfdbinary)
        endpoints = place.run.gateway.api._endpoints  # type: ignore[attr-defined]
    assert {type(endpoint) for endpoint in endpoints.values()} == {kind}
    assert bool([line for line in found if line["event"].endswith("_body")]) == (kind is Overheard)
