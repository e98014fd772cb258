"""Limits that are shadows, through the running gateway: nobody is refused, and the operator hears who would have been."""

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from tests.fakes.openai import Models
from tests.field.counting import counted, moved
from tests.integration.access import Access
from tests.integration.scene import Scene, scene
from tests.running import SECRET, config
from tests.valkey import Valkey

MODELS: dict[str, Any] = {
    "m": {"deployments": [{"provider": "p", "model": "up-m"}], "limits": {"rpm": 1, "shadow": True}},
    "free": {"deployments": [{"provider": "p", "model": "up-free"}]},
}


@pytest.fixture
async def at(valkey: Valkey, tmp_path: Path) -> AsyncIterator[Scene]:
    shadow = {"rpm": 2, "shadow": True}
    plan = {"limits": {**shadow, "concurrency_per_model": 1, "per_model": {"free": {"rpm": 3, "shadow": False}}}}
    org = {"limits": {"rpd": 3, "shadow": True}, "projects": {"s": {"limits": {"tpm": 1, "shadow": True}}}}
    settings = config({"p": "{upstream}"}, MODELS, plan=plan, org=org, key={"default_project": "s"})
    async with scene(Models(), settings, valkey, tmp_path) as found:
        yield found


async def test_nobody_is_refused_and_each_refusal_that_was_none_is_counted(at: Scene) -> None:
    before = await counted(at.run)
    answers = [await at.ask(model="m") for _ in range(5)]
    assert [answer.status_code for answer in answers] == [200] * 5
    assert not any(name.startswith("x-ratelimit") for answer in answers for name in answer.headers)
    after = moved(before, await counted(at.run))
    shadows = {series: value for series, value in after.items() if series.startswith("tiergate_shadow_rejections_total")}
    assert shadows == {
        'tiergate_shadow_rejections_total{dimension="rpm",scope="key"}': 3,
        'tiergate_shadow_rejections_total{dimension="tpm",scope="project"}': 5,
        'tiergate_shadow_rejections_total{dimension="rpd",scope="org"}': 2,
        'tiergate_shadow_rejections_total{dimension="rpm",scope="model"}': 4,
    }
    assert not [series for series in after if series.startswith("tiergate_rejections_total")]


async def test_the_access_line_names_them(at: Scene) -> None:
    access = Access(at.run)
    assert (await at.ask(model="m")).status_code == 200
    assert (await access.only())["shadowed"] == ["project:tpm"]


async def test_what_is_no_shadow_within_one_refuses(at: Scene) -> None:
    statuses = [(await at.ask(model="free")).status_code for _ in range(4)]
    assert statuses == [200, 200, 200, 429]


async def test_slots_are_counted_and_not_held_against_anybody(at: Scene) -> None:
    before = await counted(at.run)
    async with at.filled("m", key=SECRET):
        assert (await at.ask(model="m")).status_code == 200
    after = moved(before, await counted(at.run))
    assert after['tiergate_shadow_rejections_total{dimension="concurrency",scope="key_model"}'] == 1


async def test_a_key_is_not_told_of_what_does_not_hold(at: Scene) -> None:
    told = (await at.run.client.get("/v1/key")).json()
    assert [(line["scope"], line["kind"], line["limit"]) for line in told["limits"]] == [
        ("key", "rpm", 3),
        ("key", "concurrency", 1),
    ]
