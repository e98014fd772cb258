"""Keys that were brought along, through a running gateway: clients change their base URL and nothing else."""

import asyncio
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from gateway.cli import tiergate
from tests.integration.minting import Fleet, fleet
from tests.integration.scene import bearer
from tests.litellm import SCHEMA, fill, key, name_of, secret
from tests.postgres import Postgres
from tests.valkey import Valkey

CONFIG = """
model_list:
  - {model_name: m, litellm_params: {model: openai/up-m, input_cost_per_token: 1e-6, output_cost_per_token: 2e-6}}
  - {model_name: other, litellm_params: {model: openai/up-other, input_cost_per_token: 1e-6, output_cost_per_token: 2e-6}}
"""
MONTHLY = {"max_budget": 10.0, "budget_duration": "30d"}
ROWS: dict[str, list[dict[str, Any]]] = {
    "LiteLLM_TeamTable": [
        {"team_id": "poor", "models": [], "spend": 10.0, **MONTHLY},
        {"team_id": "rich", "models": ["other"], "spend": 1.0, **MONTHLY},
    ],
    "LiteLLM_VerificationToken": [
        key("plain", models=[]),
        key("limited", models=[], rpm_limit=1),
        key("blocked", models=[], blocked=True),
        key("expired", models=[], expires="2020-01-01T00:00:00"),
        key("guarded", models=[], metadata={"guardrails": ["pii"]}),
        key("of-the-poor", models=[], team_id="poor"),
        key("of-the-rich", models=[], team_id="rich"),
        key("saving", models=[], spend=1.0, **MONTHLY),
        key("spent", models=[], spend=12.0, **MONTHLY),
    ],
}


async def code(gate: Fleet, alias: str, **fields: Any) -> tuple[int, str | None]:
    answer = await gate.ask(0, secret(alias), **fields)
    return answer.status_code, None if answer.status_code == 200 else answer.json()["error"]["code"]


def imported(theirs: str, ours: str, directory: Path) -> None:
    path = directory / "config.yaml"
    path.write_text(CONFIG)
    options = ["import", "litellm", str(path), "--database", theirs, "--into", ours, "--json"]
    result = CliRunner().invoke(tiergate, options, obj={}, catch_exceptions=False)
    assert result.exit_code == 0, result.stderr


@pytest.fixture
def theirs(postgres: Postgres) -> str:
    url = postgres.create()
    postgres.psql(SCHEMA.read_text(), name_of(url))
    fill(postgres, url, ROWS)
    return url


async def test_a_client_goes_on_with_its_key(theirs: str, url: str, valkey: Valkey, tmp_path: Path) -> None:
    await asyncio.to_thread(imported, theirs, url, tmp_path)
    async with fleet(1, valkey, url, tmp_path) as gate:
        assert await code(gate, "plain") == (200, None)
        assert [await code(gate, "limited") for _ in range(2)] == [(200, None), (429, "rate_limit_exceeded")]
        for alias in ("blocked", "expired", "guarded"):
            assert await code(gate, alias) == (401, "invalid_api_key")
        assert [await code(gate, alias) for alias in ("of-the-poor", "spent")] == [(402, "insufficient_quota")] * 2
        assert await code(gate, "of-the-rich", model="other") == (200, None)
        assert await code(gate, "of-the-rich") == (404, "model_not_found")
        assert await code(gate, "saving") == (200, None)
        account = (await gate.runs[0].client.get("/v1/key", headers=bearer(secret("saving")))).json()
        [budget] = account["budgets"]
        assert 1_000_000 <= budget["spent_micro_usd"] + budget["held_micro_usd"] < 1_100_000
        stored = sha256(secret("plain").encode()).hexdigest()
        assert (await gate.ask(0, stored)).status_code == 401, "what is stored of a secret is no secret"
