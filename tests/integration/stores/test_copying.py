"""One database's content in another, all or nothing; and a file's backup while it is written."""

import asyncio
import sqlite3
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result
from sqlalchemy import func, insert, select, text, update

from gateway.cli.db import db
from gateway.policy.record import Attempt
from gateway.stores.copying import AT_ONCE, GROWING, RENEWED, UnequalError, copy
from gateway.stores.database import Reader, Writer
from gateway.stores.engine import Database
from gateway.stores.events import Event, Rank
from gateway.stores.reports import OF_REQUESTS, WHATS, WHENS, Question, Reports
from gateway.stores.schema import EVENTS, METADATA
from gateway.stores.tenancy_schema import AUDIT, KEYS, OPENING_BALANCES, ORGS, PLANS, PROJECTS, SECRETS
from gateway.stores.versions import upgrade
from tests.integration.databases import MIGRATED
from tests.integration.stores.test_db_command import config
from tests.integration.stores.test_rollups import BEGAN, closed
from tests.postgres import Postgres

FAILED = (Attempt(model="m", provider="p", status=429, outcome="busy", sent=True, duration_ms=1),)
TIMES = {"created_unix_ms": 1, "updated_unix_ms": 2}
OPEN = {"rank": Rank.OPEN.value, "outcome": None, "model_served": None}


@pytest.fixture(params=["to postgres", "to sqlite"])
def ends(request: pytest.FixtureRequest, postgres: Postgres, tmp_path: Path) -> tuple[Database, Database]:
    file, server = Database(f"sqlite:///{tmp_path}/a.db"), Database(postgres.create(MIGRATED))
    return (file, server) if request.param == "to postgres" else (server, file)


async def execute(database: Database, *statements: Any) -> None:
    engine = database.open_to_write()
    async with engine.begin() as connection:
        for statement in statements:
            await connection.execute(statement)
    await engine.dispose()


def audit(subject: str) -> Any:
    return insert(AUDIT).values(at_unix_ms=1, actor="a", action="b", subject=subject, detail="{}")


async def write(database: Database, events: Sequence[Event]) -> None:
    writer = Writer(str(database.url.render_as_string(hide_password=False)))
    await writer.write(events)
    await writer.close()


async def fill(database: Database) -> None:
    """Put something into every table."""
    if database.is_sqlite:
        await upgrade(database)
    key = {"id": "k1", "name": "ci", "org": "acme", "definition": "{}", "source": "minted", **TIMES}
    secret = {"digest": b"\x00\xff", "scheme": "sha256", "key_id": "k1", "display": "tg_…", "created_unix_ms": 1}
    await execute(
        database,
        *(insert(table).values(name="n", definition="{}", **TIMES) for table in (ORGS, PLANS)),
        insert(PROJECTS).values(org="acme", name="n", definition='{"tier": "flex"}', **TIMES),
        insert(KEYS).values(**key),
        insert(SECRETS).values(**secret),
        insert(OPENING_BALANCES).values(scope="kb:month:k1", period_start_unix_ms=3, nano_usd=2**60, tokens=4),
        audit("one"),
        audit("two"),
    )
    events = [closed(n, started_unix_ms=BEGAN + n * 40_000_000, cost_nano_usd=n, tried=FAILED) for n in range(200)]
    await write(database, [*events, closed(200, **OPEN)])


async def contents(database: Database) -> dict[str, Any]:
    engine = database.open_to_read()
    async with engine.connect() as connection:
        found = {}
        for table in METADATA.sorted_tables:
            rows = (await connection.execute(select(table).order_by(*table.primary_key))).all()
            found[table.name] = [tuple(row) for row in rows]
    await engine.dispose()
    return found


def test_every_table_is_brought_along() -> None:
    assert {*RENEWED, *GROWING} == {*METADATA.sorted_tables} - {METADATA.tables["usage_horizon"]}


async def test_both_have_the_same_and_again(ends: tuple[Database, Database]) -> None:
    source, target = ends
    await fill(source)
    copied = await copy(source, target)
    assert {each.table: each.rows for each in copied} == {
        table: len(rows) for table, rows in (await contents(source)).items() if table != "usage_horizon"
    }
    assert await contents(target) == await contents(source)
    assert await copy(source, target) == copied
    await write(source, [closed(200), closed(201)])
    await execute(source, audit("three"), update(KEYS).values(revoked_unix_ms=5), text("DELETE FROM project"))
    await copy(source, target)
    assert await contents(target) == await contents(source)
    await execute(target, audit("the next"))
    assert [row[0] for row in (await contents(target))["audit"]] == [1, 2, 3, 4]


async def test_more_than_one_part_of_a_table(ends: tuple[Database, Database]) -> None:
    source, target = ends
    if source.is_sqlite:
        await upgrade(source)
    await write(source, [closed(n) for n in range(AT_ONCE + 1)])
    await copy(source, target)
    assert len((await contents(target))["usage_event"]) == AT_ONCE + 1


@pytest.mark.parametrize("own", ["request", "later end", "audit"])
async def test_what_has_something_of_its_own_is_left_as_it_is(ends: tuple[Database, Database], own: str) -> None:
    source, target = ends
    await fill(source)
    await copy(source, target)
    if own == "audit":
        await execute(target, audit("its own"))
    else:
        await write(target, [closed(999)] if own == "request" else [closed(200)])
    before = await contents(target)
    with pytest.raises(UnequalError, match="of its own"):
        await copy(source, target)
    assert await contents(target) == before


async def test_what_has_ended_in_either_is_not_missed(ends: tuple[Database, Database]) -> None:
    source, target = ends
    await fill(source)
    await copy(source, target)
    writer = Writer(source.url.render_as_string(hide_password=False))
    while await writer.forget(BEGAN + 35 * 86_400_000):
        pass
    await writer.close()
    await copy(source, target)
    urls = [each.url.render_as_string(hide_password=False) for each in ends]
    readers = [Reader(url) for url in urls]
    for by in (*WHENS, *({*WHATS} - OF_REQUESTS)):
        one, other = [await Reports(reader).rows(Question(by=(by,))) for reader in readers]
        assert one == other
    for reader in readers:
        await reader.close()


async def run(path: Path, *arguments: str) -> Result:
    return await asyncio.to_thread(CliRunner().invoke, db, [*arguments, "--config", str(path)], obj={})


async def test_the_command_prints_what_both_have(ends: tuple[Database, Database], tmp_path: Path) -> None:
    source, target = ends
    await fill(source)
    path = config(tmp_path, source.url.render_as_string(hide_password=False))
    address = target.url.render_as_string(hide_password=False)
    done = await run(path, "copy", "--to", address)
    assert (done.exit_code, done.stderr) == (0, "")
    lines = [line.split() for line in done.stdout.splitlines()]
    assert ["usage_event", "201"] in lines
    assert lines[-1] == ["both", "databases", "have", "the", "same"]
    await write(target, [closed(999)])
    refused = await run(path, "copy", "--to", address)
    assert (refused.exit_code, refused.stderr.count("\n")) == (1, 1)


async def test_what_cannot_be_copied_ends_in_one_line(tmp_path: Path) -> None:
    path = config(tmp_path, f"sqlite:///{tmp_path}/none.db")
    for to, code in (("mysql://u:hush-hush@h/d", 2), (f"sqlite:///{tmp_path}/b.db", 69)):
        ended = await run(path, "copy", "--to", to)
        assert (ended.exit_code, ended.stderr.count("\n")) == (code, 1)
        assert "hush-hush" not in ended.output


async def test_a_backup_is_whole_while_the_file_is_written(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/a.db"
    await upgrade(Database(url))
    await write(Database(url), [closed(n) for n in range(50)])
    writer = Writer(url)  # and leaves it open: what it wrote may be in the log alone
    await writer.write([closed(50)])
    to = tmp_path / "backup.db"
    done = await run(config(tmp_path, url), "backup", "--to", str(to))
    assert (done.exit_code, done.stdout) == (0, f"{to}: {to.stat().st_size} bytes\n")
    await writer.write([closed(51)])
    await writer.close()
    assert to.stat().st_mode & 0o077 == 0
    copied = sqlite3.connect(to)
    assert copied.execute("PRAGMA integrity_check").fetchone() == ("ok",)
    assert copied.execute("SELECT count(*) FROM usage_event").fetchone() == (51,)
    copied.close()
    reader = Reader(f"sqlite:///{to}")
    [row] = await reader.fetch(select(func.count().label("n")).select_from(EVENTS))
    assert row["n"] == 51
    await reader.close()
    again = await run(config(tmp_path, url), "backup", "--to", str(to))
    assert (again.exit_code, "is there already" in again.stderr) == (69, True)
    assert drafts(tmp_path) == []


def drafts(directory: Path) -> list[Path]:
    return [*directory.glob(".backup*")]


async def test_a_postgres_has_its_own_tools(tmp_path: Path) -> None:
    ended = await run(config(tmp_path, "postgresql://h/d"), "backup", "--to", str(tmp_path / "b"))
    assert (ended.exit_code, "pg_dump" in ended.stderr) == (2, True)
