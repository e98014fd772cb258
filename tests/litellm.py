"""Rows of LiteLLM's tables for tests, and a database that has them. Secrets are `sk-` and the key's alias."""

from hashlib import sha256
from pathlib import Path
from typing import Any

import msgspec

from tests.postgres import Postgres

SCHEMA = Path(__file__).parent / "import" / "schema.sql"
BY = {"created_by": "tests", "updated_by": "tests"}


def secret(alias: str) -> str:
    return f"sk-{alias}-0123456789"


def key(alias: str, **columns: Any) -> dict[str, Any]:
    """Return a key's row."""
    return {"token": sha256(secret(alias).encode()).hexdigest(), "key_alias": alias, "key_name": "sk-...6789", **columns}


ROWS: dict[str, list[dict[str, Any]]] = {
    "LiteLLM_BudgetTable": [
        {"budget_id": "b-org", "max_budget": 1000.0, "budget_duration": "30d", **BY},
        {"budget_id": "b-member", "max_budget": 10.0, "budget_duration": "1d", "rpm_limit": 30, **BY},
        {"budget_id": "b-key", "max_budget": 7.0, "budget_duration": "7d", "tpm_limit": 5000, **BY},
        {"budget_id": "b-none", **BY},
    ],
    "LiteLLM_OrganizationTable": [
        {
            "organization_id": "o-1",
            "organization_alias": "acme",
            "budget_id": "b-org",
            "models": ["gpt-4o", "claude"],
            "spend": 12.5,
            **BY,
        }
    ],
    "LiteLLM_TeamTable": [
        {
            "team_id": "t-1",
            "team_alias": "search",
            "organization_id": "o-1",
            "max_budget": 100.0,
            "budget_duration": "30d",
            "spend": 3.25,
            "models": ["good"],
        },
        {
            "team_id": "t-2",
            "team_alias": "free for all",
            "models": [],
            "rpm_limit": 600,
            "metadata": {"model_rpm_limit": {"claude": 60}},
        },
        {"team_id": "t-3", "team_alias": "blocked", "models": [], "blocked": True},
        {"team_id": "t-4", "team_alias": "guarded", "models": [], "metadata": {"guardrails": ["pii"]}},
    ],
    "LiteLLM_UserTable": [
        {"user_id": "u-1", "user_alias": "ann", "models": ["gpt-4o"], "max_budget": 20.0, "budget_duration": "1mo", "spend": 1.0}
    ],
    "LiteLLM_TeamMembership": [
        {"user_id": "u-1", "team_id": "t-1", "spend": 0.5, "budget_id": "b-member"},
        {"user_id": "u-1", "team_id": "t-2", "budget_id": "b-member"},
    ],
    "LiteLLM_AccessGroupTable": [{"access_group_id": "g-1", "access_group_name": "g", "access_model_names": ["claude"]}],
    "LiteLLM_ObjectPermissionTable": [
        {"object_permission_id": "p-1", "mcp_servers": ["wiki"]},
        {"object_permission_id": "p-2", "blocked_tools": ["shell"]},
    ],
    "LiteLLM_VerificationToken": [
        key("plain", models=[], rpm_limit=60, tpm_limit=100000, max_parallel_requests=5, spend=4.0),
        key("of-a-team", models=["all-team-models"], team_id="t-1", spend=2.0),
        key("personal", models=["gpt-4", "unpriced"], user_id="u-1"),
        key("weekly", models=["gpt-4o"], budget_id="b-key", spend=1.5),
        key("for-ever", models=["claude"], max_budget=5.0, spend=2.0),
        key("quarterly", models=["claude"], max_budget=50.0, budget_duration="90d"),
        key("grouped", models=["best"], access_group_ids=["g-1"]),
        key("of-many", models=[], team_id="t-1", user_id="u-1"),
        key("member", models=[], team_id="t-2", user_id="u-1"),
        key("of-the-blocked", models=[], team_id="t-3"),
        key("blocked", models=[], blocked=True),
        key("expiring", models=[], expires="2027-01-01T00:00:00"),
        key("aliased", models=[], aliases={"gpt-4": "claude"}),
        key(
            "by-model",
            models=[],
            model_max_budget={"claude": {"budget_limit": 1.0}},
            metadata={"model_tpm_limit": {"gpt-4o": 900}, "note": "x"},
        ),
        key("mcp", models=["nobody-knows"], object_permission_id="p-1"),
        key("guarded", models=[], team_id="t-4"),
        key("no-tools", models=[], object_permission_id="p-2"),
        key("chat-alone", models=[], allowed_routes=["/chat/completions"]),
        key("manager", models=[], key_type="management"),
        key("nothing", models=[], rpm_limit=0),
        key("lost", models=[], team_id="t-gone"),
        key(
            "windows",
            models=["gpt-4o"],
            budget_limits=[{"budget_duration": "1d", "max_budget": 5.0}, {"budget_duration": "30d", "max_budget": 50.0}],
        ),
        {**key("odd"), "token": "not-hashed", "models": []},
    ],
}


def filled(postgres: Postgres, *, schema: str | None = None) -> str:
    """Return the URL of a new database with LiteLLM's tables and the rows in them."""
    url = postgres.create()
    postgres.psql(SCHEMA.read_text() if schema is None else schema, name_of(url))
    fill(postgres, url, ROWS)
    return url


def fill(postgres: Postgres, url: str, rows: dict[str, list[dict[str, Any]]]) -> None:
    """Have a database's tables hold rows; what a row does not say is the column's default."""
    postgres.psql(";\n".join(_insert(table, row) for table, each in rows.items() for row in each), name_of(url))


def _insert(table: str, row: dict[str, Any]) -> str:
    columns = ", ".join(f'"{column}"' for column in row)
    said = msgspec.json.encode(row).decode().replace("'", "''")
    return f'INSERT INTO "{table}" ({columns}) SELECT {columns} FROM json_populate_record(NULL::"{table}", \'{said}\')'


def name_of(url: str) -> str:
    """Return the name of a database."""
    return url.rpartition("/")[2] if "?" not in url else url.partition("?")[0].rpartition("/")[2]
