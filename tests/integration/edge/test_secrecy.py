"""What is said in confidence stays so: prompts, answers, keys and providers' addresses are in no error, header or log line."""

import re
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from tests.fakes.http_server import Call
from tests.fakes.openai import BUSY, DONE, Models, answers, error, event, refuses, streams
from tests.fakes.wire import Wire
from tests.integration.edge.bad import COUNTED, MARKER
from tests.integration.edge.conftest import settings
from tests.integration.edge.framing import EVERY
from tests.integration.scene import Scene, scene
from tests.running import SECRET
from tests.valkey import Valkey

ANSWER = "xq-marker-of-an-answer"
OUR_KEY = "sk-proj-0123456789abcdefABCDEF"
HOST = "provider.internal.test"
NAME = "up-m"
"""The model's name at the provider, which is nobody's business."""

OUTCOMES = {"ok", "rejected", "client_error", "upstream_error", "interrupted", "cancelled"}
"""How these requests end; a body that turns out to be no clean HTTP is one whose client has left."""

GOSSIP = f"key {OUR_KEY} refused by https://{HOST}:8443/v1 for {NAME}: {MARKER}"
"""The worst that a provider can say."""


STATUSES = (400, 401, 402, 403, 404, 413, 422, 429, 500, 503)
"""What a provider may refuse with, each by an account of its own: none waits until another may be asked again."""

BRIEF = "100ms"
"""How long a request waits for a provider that is busy or fails: what counts here is what it hears in the end."""


def talkative() -> dict[str, Any]:
    """Return a configuration that logs all there is, of models that may be refused once each."""
    found = settings()
    found["telemetry"] = {"level": "debug", "log": "json"}
    found["tiers"] = {tier: {"queue": BRIEF} for tier in ("priority", "default", "flex")}
    found["providers"]["p"]["api_key"] = OUR_KEY
    for status in STATUSES:
        found["providers"][f"p-{status}"] = found["providers"]["p"]
        found["models"][f"m-{status}"] = {"deployments": [{"provider": f"p-{status}", "model": NAME}]}
    return found


async def hear_the_refusals(gate: Scene) -> AsyncIterator[str]:
    """Have each model refused; yield what the client hears."""
    for status in STATUSES:
        gate.models.acts["m"] = refuses(status, error(GOSSIP), x_secret=GOSSIP, set_cookie=GOSSIP)
        asked = len(gate.models.asked)
        refused = await gate.ask(model=f"m-{status}", user=MARKER)
        assert len(gate.models.asked) > asked
        # A client's own words may come back to it in the provider's refusal of them; they may not be logged.
        yield f"{refused.headers} {refused.text}".replace(MARKER, "")


async def test_nothing_that_was_said_in_confidence_is_told_or_logged(
    valkey: Valkey, tmp_path: Path, capfdbinary: pytest.CaptureFixture[bytes]
) -> None:
    told: list[str] = []
    async with scene(Models(), talkative(), valkey, tmp_path) as gate:
        for bad in EVERY:
            async with Wire(gate.run.url) as wire:
                await wire.send(bad.data)
                answer = await wire.answer(bad.method)
                told.append(f"{answer.headers} {answer.body.decode('latin-1')}")
        told += [heard async for heard in hear_the_refusals(gate)]
        gate.models.acts["m"] = answers(choices=[{"index": 0, "message": {"role": "assistant", "content": ANSWER}}])
        assert ANSWER in (await gate.ask(model="m", user=MARKER)).text
        gate.models.acts["m"] = streams(event({"content": ANSWER}), b"data: " + error(GOSSIP) + b"\n\n")
        broken = await gate.ask(model="m", stream=True, user=MARKER)
        assert broken.text.count(ANSWER) == 1
        told.append(broken.text.replace(ANSWER, ""))
        gate.models.acts["m"] = streams(event({"content": ANSWER}), then=Call.reset)
        told.append((await gate.ask(model="m", stream=True)).text.replace(ANSWER, ""))
        gate.models.acts["m"] = streams(event({"content": ANSWER}), event({}, "stop"), DONE)
        assert (await gate.ask(model="m", stream=True)).text.endswith("[DONE]\n\n")
        gate.models.acts["m"] = refuses(429, BUSY)
        await gate.ask(model="m", user=MARKER)
        await gate.run.settled()
    lines = capfdbinary.readouterr().out.decode().splitlines()
    requests = [line for line in map(msgspec.json.decode, lines) if line["event"] == "request"]
    assert {line["outcome"] for line in requests} == OUTCOMES
    secrets = (MARKER, ANSWER, SECRET, COUNTED, OUR_KEY, HOST, str(gate.server.port), "Traceback")
    assert not [(secret, line) for secret in secrets for line in lines if secret in line]
    assert not [(secret, text) for secret in (*secrets, NAME) for text in told if re.search(rf"\b{re.escape(secret)}\b", text)]
