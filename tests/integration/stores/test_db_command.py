"""`tiergate db` on either database, and a gateway that does not start on tables of another release."""

import asyncio
import os
import sys
from asyncio.subprocess import PIPE
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from gateway.cli.db import db
from gateway.stores.engine import Database
from gateway.stores.versions import NEWEST, current
from tests.integration.stores.test_usage_command import CONFIG

OF_ITS_OWN = "redis: {url: 'unix:///nowhere'}\nkeys_pepper: 0123456789abcdef\nstate_dir: %s\n"
PORTS = "api: {host: 127.0.0.1, port: 0}\nops: {host: 127.0.0.1, port: 0}\n"


def config(directory: Path, url: str, more: str = "") -> Path:
    path = directory / "gateway.yaml"
    path.write_text(CONFIG.replace('"sqlite:///%s/tiergate.db"', f'"{url}", single_host: true') + more)
    return path


async def run(path: Path, *arguments: str) -> Result:
    return await asyncio.to_thread(CliRunner().invoke, db, [*arguments, "--config", str(path)], obj={})


async def test_upgrade_and_current(empty_url: str, tmp_path: Path) -> None:
    path = config(tmp_path, empty_url)
    before = await run(path, "current")
    assert (before.exit_code, before.stdout) == (0, f"schema none, this release needs {NEWEST}\n")
    for _ in range(2):
        done = await run(path, "upgrade")
        assert (done.exit_code, done.stdout) == (0, f"schema {NEWEST}\n")
    after = await run(path, "current")
    assert (after.exit_code, after.stdout) == (0, f"schema {NEWEST}, this release needs {NEWEST}\n")
    assert await current(Database(empty_url)) == NEWEST


@pytest.mark.parametrize("command", ["current", "upgrade"])
async def test_a_server_that_is_not_there_ends_the_command_in_one_line(tmp_path: Path, command: str) -> None:
    ended = await run(config(tmp_path, "postgresql://u:hush-hush@127.0.0.1:1/d"), command)
    assert (ended.exit_code, ended.stderr.count("\n")) == (69, 1)
    assert ended.stderr.startswith("the database cannot be reached: ")
    assert "hush-hush" not in ended.output


async def test_a_database_of_a_newer_release_is_left_alone(url: str, tmp_path: Path) -> None:
    engine = Database(url).open_to_write()
    async with engine.begin() as connection:
        await connection.exec_driver_sql("UPDATE alembic_version SET version_num = '9999'")
    await engine.dispose()
    ended = await run(config(tmp_path, url), "upgrade")
    assert (ended.exit_code, ended.stderr.count("\n")) == (69, 1)
    assert "schema 9999" in ended.stderr
    assert await serve(config(tmp_path, url, PORTS + OF_ITS_OWN % tmp_path)) == (69, ended.stderr)


@pytest.mark.parametrize("kind", ["postgres"])
async def test_no_gateway_starts_on_a_postgres_without_its_tables(empty_url: str, tmp_path: Path) -> None:
    code, said = await serve(config(tmp_path, empty_url, PORTS + OF_ITS_OWN % tmp_path))
    assert (code, said.count("\n")) == (69, 1)
    assert "`tiergate db upgrade --config FILE`" in said


async def serve(path: Path) -> tuple[int | None, str]:
    """Return how a gateway ended that could not start, and what it said."""
    command = [sys.executable, "-m", "gateway", "serve", "--config", str(path)]
    gateway = await asyncio.create_subprocess_exec(*command, env=dict(os.environ), stdout=PIPE, stderr=PIPE)
    async with asyncio.timeout(30):
        _, said = await gateway.communicate()
    lines = said.decode().splitlines(keepends=True)
    return gateway.returncode, "".join(line for line in lines if not line.startswith("warning: "))
