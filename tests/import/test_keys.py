"""Virtual keys out of LiteLLM's database: with the same secrets, no more rights, what they spent, and again without harm."""

import asyncio
import time
from collections.abc import Mapping
from hashlib import sha256
from pathlib import Path
from typing import Any

import msgspec
import pytest
from click.testing import CliRunner, Result
from sqlalchemy import Table, select, update

from gateway.cli import tiergate
from gateway.importing.features import lacking
from gateway.policy.periods import PERIODS, bounds_ms
from gateway.stores.engine import Database
from gateway.stores.tenancy_schema import AUDIT, KEYS, OPENING_BALANCES, ORGS, PROJECTS, SECRETS
from tests.litellm import ROWS, fill, filled, name_of, secret
from tests.postgres import Postgres

FILE = Path(__file__).parent / "configs" / "keys.yaml"
LEFT_OUT = {"guarded", "no-tools", "chat-alone", "manager", "nothing", "lost", "odd", "of-many"}


@pytest.fixture(scope="module")
def theirs(postgres: Postgres) -> str:
    return filled(postgres)


def imported(theirs: str, ours: str, *options: str) -> Result:
    options = ("import", "litellm", str(FILE), "--database", theirs, "--into", ours, *options)
    return CliRunner().invoke(tiergate, [*options], obj={}, catch_exceptions=False)


def rows(url: str, table: Table) -> list[Mapping[str, Any]]:
    async def read() -> list[Mapping[str, Any]]:
        engine = Database(url).open_to_read(1)
        async with engine.connect() as connection:
            found: list[Mapping[str, Any]] = [dict(row) for row in (await connection.execute(select(table))).mappings()]
        await engine.dispose()
        return found

    return asyncio.run(read())


def changed(url: str, table: Table, name: str, **values: Any) -> None:
    async def change() -> None:
        engine = Database(url).open_to_write()
        async with engine.begin() as connection:
            await connection.execute(update(table).where(table.c.name == name).values(**values))
        await engine.dispose()

    asyncio.run(change())


def keys(url: str) -> dict[str, Mapping[str, Any]]:
    return {row["name"]: {**row, "definition": msgspec.json.decode(row["definition"])} for row in rows(url, KEYS)}


@pytest.fixture(scope="module")
def brought(theirs: str, tmp_path_factory: pytest.TempPathFactory) -> str:
    ours = f"sqlite:///{tmp_path_factory.mktemp('ours')}/tiergate.db"
    assert imported(theirs, ours).exit_code == 0
    return ours


def test_a_client_keeps_its_secret(brought: str) -> None:
    known = {row["digest"]: row for row in rows(brought, SECRETS)}
    for name, key in keys(brought).items():
        found = known[sha256(secret(name).encode()).digest()]
        assert (found["scheme"], found["key_id"]) == ("sha256", key["id"])
        assert secret(name) not in found["display"]


def test_a_key_with_a_bound_that_is_not_known_stays_behind(brought: str) -> None:
    everybody = {str(row["key_alias"]) for row in ROWS["LiteLLM_VerificationToken"]}
    of_projects = {"member"} if lacking("orgs.*.projects.*.limits") else set()
    assert everybody - keys(brought).keys() == LEFT_OUT | of_projects


@pytest.mark.parametrize(
    ("name", "definition"),
    [
        ("plain", {"limits": {"rpm": 60, "tpm": 100000, "concurrency": 5}, "projects": []}),
        ("of-a-team", {"models": ["gpt-4o", "claude"], "projects": ["search"], "default_project": "search"}),
        ("personal", {"models": ["gpt-4o"], "projects": []}),
        ("weekly", {"limits": {"tpm": 5000}, "budget": {"usd": 7, "period": "week"}, "models": ["gpt-4o"], "projects": []}),
        ("quarterly", {"budget": {"usd": 10, "period": "month"}, "models": ["claude"], "projects": []}),
        ("windows", {"budget": {"usd": 5, "period": "month"}, "models": ["gpt-4o"], "projects": []}),
        ("grouped", {"models": ["claude"], "projects": []}),
        ("aliased", {"models": ["claude", "unpriced"], "projects": []}),
        ("by-model", {"limits": {"per_model": {"gpt-4o": {"tpm": 900}}}, "models": ["gpt-4o", "unpriced"], "projects": []}),
        ("mcp", {"models": [], "projects": []}),
    ],
)
def test_a_key_may_what_it_might(brought: str, name: str, definition: dict[str, Any]) -> None:
    assert keys(brought)[name]["definition"] == definition


def test_what_ends_there_ends_here(brought: str) -> None:
    found = keys(brought)
    assert found["expiring"]["expires_unix_ms"] == 1_798_761_600_000
    assert {name for name, key in found.items() if key["blocked_unix_ms"] is not None} == {"blocked", "of-the-blocked"}
    _, month_ends = bounds_ms(round(time.time() * 1000), PERIODS["month"])
    assert found["for-ever"]["expires_unix_ms"] in (month_ends, bounds_ms(month_ends - 1, PERIODS["month"])[1])


def test_teams_and_organizations_share_what_they_shared(brought: str) -> None:
    orgs = {row["name"]: msgspec.json.decode(row["definition"]) for row in rows(brought, ORGS)}
    assert orgs["acme"] == {"budget": {"usd": 1000, "period": "month"}}
    assert orgs["ann"] == {"budget": {"usd": 20, "period": "month"}}
    [project] = [row for row in rows(brought, PROJECTS) if row["org"] == "acme"]
    assert (project["org"], project["name"], project["definition"]) == (
        "acme",
        "search",
        '{"budget":{"usd":100,"period":"month"}}',
    )
    assert keys(brought)["of-a-team"]["org"] == "acme"


def test_what_was_spent_is_spent(brought: str) -> None:
    found = keys(brought)
    spent = {row["scope"]: row["nano_usd"] for row in rows(brought, OPENING_BALANCES)}
    assert spent == {
        "ob:month:acme": 12_500_000_000,
        "pb:month:acme:search": 3_250_000_000,
        "ob:month:ann": 1_000_000_000,
        f"kb:week:{found['weekly']['id']}": 1_500_000_000,
        f"kb:month:{found['for-ever']['id']}": 2_000_000_000,
    }


async def test_again_nothing_changes(theirs: str, url: str) -> None:
    first = await asyncio.to_thread(imported, theirs, url, "--json")
    added = msgspec.json.decode(first.stdout)["rows"]["added"]
    again = await asyncio.to_thread(imported, theirs, url, "--json")
    assert msgspec.json.decode(again.stdout)["rows"] == {"added": 0, "changed": 0, "same": added, "kept": 0}
    [act] = await asyncio.to_thread(rows, url, AUDIT)
    assert (act["action"], act["subject"]) == ("import.litellm", "litellm")


def test_a_spend_only_grows_and_a_change_made_here_stays(postgres: Postgres, tmp_path: Path) -> None:
    theirs, ours = filled(postgres), f"sqlite:///{tmp_path}/tiergate.db"
    imported(theirs, ours)
    update_there = "UPDATE \"LiteLLM_TeamTable\" SET spend = {}, max_budget = 90 WHERE team_id = 't-1'"
    changed(ours, KEYS, "plain", definition="{}", updated_unix_ms=2**50, blocked_unix_ms=5, revoked_unix_ms=7)
    for spend, expected in ((50.0, 50_000_000_000), (1.0, 50_000_000_000)):
        postgres.psql(update_there.format(spend), name_of(theirs))
        said = imported(theirs, ours)
        assert {row["scope"]: row["nano_usd"] for row in rows(ours, OPENING_BALANCES)}["pb:month:acme:search"] == expected
        assert "1 kept" in said.stderr
    [project] = [row for row in rows(ours, PROJECTS) if row["org"] == "acme"]
    assert project["definition"] == '{"budget":{"usd":90,"period":"month"}}'
    plain = keys(ours)["plain"]
    assert (plain["definition"], plain["blocked_unix_ms"], plain["revoked_unix_ms"]) == ({}, 5, 7)


def test_a_name_that_is_taken_gets_the_id_behind_it(postgres: Postgres, theirs: str, tmp_path: Path) -> None:
    ours = f"sqlite:///{tmp_path}/tiergate.db"
    imported(theirs, ours)
    first = keys(ours)["plain"]["id"]
    other = postgres.create()
    postgres.psql((Path(__file__).parent / "schema.sql").read_text(), name_of(other))
    row = {"token": sha256(b"another").hexdigest(), "key_alias": "plain", "models": []}
    fill(postgres, other, {"LiteLLM_VerificationToken": [row]})
    imported(other, ours)
    found = {name: key["id"] for name, key in keys(ours).items() if name.startswith("plain")}
    assert found.pop("plain") == first
    assert [f"plain-{key_id}" for key_id in found.values()] == [*found]


def test_a_secret_that_is_on_its_way_out_works_until_then(postgres: Postgres, tmp_path: Path) -> None:
    theirs, ours = filled(postgres), f"sqlite:///{tmp_path}/tiergate.db"
    former, active = sha256(b"sk-former").hexdigest(), sha256(secret("plain").encode()).hexdigest()
    postgres.psql(
        'CREATE TABLE "LiteLLM_DeprecatedVerificationToken" (id text, token text, active_token_id text, revoke_at timestamp(3));'
        f"INSERT INTO \"LiteLLM_DeprecatedVerificationToken\" VALUES ('1', '{former}', '{active}', '2030-01-01T00:00:00')",
        name_of(theirs),
    )
    imported(theirs, ours)
    found = {row["digest"].hex(): row["not_after_unix_ms"] for row in rows(ours, SECRETS)}
    assert (found[former], found[active]) == (1_893_456_000_000, None)


def test_no_secret_shows(theirs: str, tmp_path: Path) -> None:
    said = imported(theirs, f"sqlite:///{tmp_path}/tiergate.db")
    for row in ROWS["LiteLLM_VerificationToken"]:
        assert str(row["token"]) not in said.output
        assert secret(str(row["key_alias"])) not in said.output


def test_a_database_without_the_tables_is_said_so(postgres: Postgres, tmp_path: Path) -> None:
    said = imported(postgres.create(), f"sqlite:///{tmp_path}/tiergate.db")
    assert (said.exit_code, said.stderr) == (
        69,
        "the keys could not be imported: there is no table LiteLLM_VerificationToken in the schema public\n",
    )


@pytest.mark.parametrize("url", ["sqlite:///x.db", "no url", "mysql://h/d"])
def test_another_kind_of_database_is_a_mistake(url: str, tmp_path: Path) -> None:
    assert imported(url, f"sqlite:///{tmp_path}/tiergate.db").exit_code == 2


def test_a_database_that_is_not_there_is_said_so(tmp_path: Path) -> None:
    said = imported(f"postgresql://u:a-password@/none?host={tmp_path}", f"sqlite:///{tmp_path}/tiergate.db")
    assert said.exit_code == 69
    assert "a-password" not in said.output


def test_its_drivers_own_options_are_left_out(theirs: str, tmp_path: Path) -> None:
    said = imported(f"{theirs}&connection_limit=5&schema=public&pool_timeout=10", f"sqlite:///{tmp_path}/tiergate.db")
    assert said.exit_code == 0


def test_a_postgres_of_ours_that_waits_for_its_tables_is_said_so(theirs: str, postgres: Postgres) -> None:
    said = imported(theirs, postgres.create())
    assert said.exit_code == 69
    assert "tiergate db upgrade" in said.stderr
