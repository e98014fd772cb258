"""What callers are held to while the store is away, by the operator's choice."""

from pathlib import Path
from typing import Any

import pytest

from tests.fakes.openai import Models
from tests.integration.scene import scene
from tests.running import config
from tests.valkey import Valkey

PRICED = {"m": {"deployments": [{"provider": "p", "model": "up-m"}], "price": {"input": 1.0, "output": 2.0}}}
SECRETS = {name: f"sk-test-secret-of-{name}" for name in ("counted", "broke", "single")}
KEYS: list[dict[str, Any]] = [
    {"name": "counted", "limits": {"rpm": 2, "rpd": 2}},
    {"name": "broke", "budget": {"usd": 0}},
    {"name": "single", "limits": {"concurrency": 1}},
]

LIMITED, UNKNOWN = (429, "rate_limit_exceeded"), (503, "limiter_unavailable")


@pytest.mark.parametrize(
    ("on_failure", "limited", "broke"),
    [
        ({}, LIMITED, UNKNOWN),
        ({"rates": "open"}, (200, None), UNKNOWN),
        ({"budgets": "open"}, LIMITED, (200, None)),
        ({"rates": "open", "budgets": "open"}, (200, None), (200, None)),
        ({"rates": "closed", "budgets": "open"}, UNKNOWN, UNKNOWN),
    ],
    ids=str,
)
async def test_each_class_goes_by_its_own_word(
    on_failure: dict[str, str], limited: tuple[int, str], broke: tuple[int, str], valkey: Valkey, tmp_path: Path
) -> None:
    settings = config({"p": "{upstream}"}, PRICED, redis={"on_failure": on_failure})
    settings["keys"] += [{"org": "acme", "secret": SECRETS[key["name"]], **key} for key in KEYS]
    async with scene(Models(), settings, valkey, tmp_path) as found:

        async def told(who: str) -> tuple[int, str | None]:
            answer = await found.ask(key=SECRETS[who], model="m", service_tier="default", max_tokens=20)
            return answer.status_code, None if answer.is_success else answer.json()["error"]["code"]

        assert await told("broke") == (402, "insufficient_quota")
        valkey.stop()
        assert [await told("counted") for _ in range(4)][-1] == limited
        assert await told("broke") == broke
        assert await told("single") == (UNKNOWN if on_failure.get("rates") == "closed" else (200, None))
        valkey.start()
