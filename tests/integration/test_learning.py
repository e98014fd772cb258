"""What a gateway holds for requests without `max_tokens`: a share of the bucket, then what its org's answers were like."""

from collections.abc import AsyncIterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from gateway.policy.estimates import FEWEST_SAMPLES, FEWEST_TOKENS, SHARE_OF_BUCKET
from tests.fakes.http_server import Script
from tests.fakes.openai import Models, answers, event, streams
from tests.integration.admission.state import ask
from tests.integration.scene import Scene, scene
from tests.running import config
from tests.valkey import Valkey

TPM, SLACK = 40_000, 1_500
"""The slack is for what was answered meanwhile, and leaks."""

OTHER = {"name": "other", "org": "other", "secret": "sk-test-secret-of-another-org"}
LEARNED = "tg:v1:{c0}:learned:m"


@pytest.fixture
async def school(valkey: Valkey, tmp_path: Path) -> AsyncIterator[Scene]:
    models = {"m": {"deployments": [{"provider": "p", "model": "up-m"}]}}
    found = config({"p": "{upstream}"}, models, plan={"limits": {"tpm": TPM}})
    whole = {**found, "keys": [*found["keys"], OTHER], "orgs": {**found["orgs"], "other": {"plan": "all"}}}
    async with scene(Models(), whole, valkey, tmp_path) as running:
        yield running


async def taken(school: Scene, **fields: Any) -> int:
    """Return what a key has no more of while its request is under way."""
    response = await school.ask(model="m", **fields)
    await school.run.settled()
    headers: Mapping[str, str] = response.headers
    return int(headers["x-ratelimit-limit-tokens"]) - int(headers["x-ratelimit-remaining-tokens"])


async def learned(school: Scene) -> list[str]:
    """Return of what the store has learned something."""
    return sorted(str(field, "ascii") for field in await ask(school.run.gateway._connection, "HKEYS", LEARNED))


async def test_after_twenty_short_answers_less_is_held_for_the_next_of_their_org(school: Scene) -> None:
    share = TPM // SHARE_OF_BUCKET
    for _ in range(FEWEST_SAMPLES):
        assert share < await taken(school) < share + SLACK
    assert FEWEST_TOKENS < await taken(school) < FEWEST_TOKENS + SLACK
    assert share < await taken(school, key=OTHER["secret"]) < share + SLACK
    assert await learned(school) == ["o:acme", "o:other", "ratio"]


async def test_answers_that_the_client_bounds_tell_nothing_of_others(school: Scene) -> None:
    await taken(school, max_tokens=5)
    assert await learned(school) == ["ratio"]


async def test_a_stream_teaches_at_its_end(school: Scene) -> None:
    await taken(school, stream=True)
    assert await learned(school) == ["o:acme", "ratio"]


BROKEN_OFF = streams(event({"content": "He"}, usage={"prompt_tokens": 10, "completion_tokens": 1}))


@pytest.mark.parametrize(
    ("act", "stream"),
    [pytest.param(answers(usage=None), False, id="no usage"), pytest.param(BROKEN_OFF, True, id="broken off")],
)
async def test_only_the_usage_of_a_whole_answer_teaches(school: Scene, act: Script, stream: bool) -> None:
    school.models.acts["m"] = act
    await taken(school, stream=stream)
    assert await learned(school) == []
