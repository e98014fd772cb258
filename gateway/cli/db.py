"""`tiergate db`: look after the database.

Exit codes: 0 done, 1 a target that has something of its own, 2 usage, 69 a database that cannot be had or is of another release,
78 a bad configuration.
"""

import asyncio
import sqlite3
import sys
from collections.abc import Coroutine
from pathlib import Path
from typing import Any, NoReturn, TypeVar

import click
from sqlalchemy.exc import SQLAlchemyError

from gateway.cli.check import EXIT_CONFIG, EXIT_UNAVAILABLE
from gateway.cli.table import aligned
from gateway.config import ConfigErrors, load
from gateway.stores.backup import back_up
from gateway.stores.copying import UnequalError, copy
from gateway.stores.engine import Database
from gateway.stores.reports import spoken
from gateway.stores.versions import NEWEST, SchemaVersionError, current, upgrade

Answer = TypeVar("Answer")

EXIT_UNEQUAL, EXIT_USAGE = 1, 2

configured = click.option("--config", "path", type=click.Path(path_type=Path), required=True, help="The configuration file.")


@click.group()
def db() -> None:
    """Look after the database."""


@db.command("upgrade")
@configured
@click.pass_obj
def upgrade_tables(environ: dict[str, str], path: Path) -> None:
    """Bring the database to the tables of this release. Several at once do it once."""
    database = database_of(path, environ)
    click.echo(f"schema {ended(upgrade(database))}")


@db.command("current")
@configured
@click.pass_obj
def current_version(environ: dict[str, str], path: Path) -> None:
    """Print which tables the database has, and which ones this release needs."""
    found = ended(current(database_of(path, environ)))
    click.echo(f"schema {found or 'none'}, this release needs {NEWEST}")


@db.command()
@configured
@click.option("--to", type=click.Path(path_type=Path), required=True, help="Where the copy goes; nothing may be there.")
@click.pass_obj
def backup(environ: dict[str, str], path: Path, to: Path) -> None:
    """Copy a SQLite file as it is at this moment, while gateways write to it."""
    file = database_of(path, environ).file
    if file is None:
        end(EXIT_USAGE, "a Postgres is backed up with its own tools: pg_dump --format=custom, and pg_restore to bring it back")
    try:
        size_bytes = back_up(file, to)
    except (OSError, sqlite3.Error) as error:
        end(EXIT_UNAVAILABLE, f"no backup of '{file}' was made: {error}")
    click.echo(f"{to}: {size_bytes} bytes")


@db.command("copy")
@configured
@click.option("--to", "url", required=True, help="The other database: sqlite:///path or postgresql://user:password@host/name.")
@click.pass_obj
def copy_all(environ: dict[str, str], path: Path, url: str) -> None:
    """Bring everything into another database, which is empty or a copy from before, and see that both have the same."""
    source = database_of(path, environ)
    try:
        target = Database(url)
    except ValueError as error:
        end(EXIT_USAGE, str(error))
    if source.file is not None and not source.file.exists():
        end(EXIT_UNAVAILABLE, f"there is no file '{source.file}'")
    try:
        copied = ended(copy(source, target))
    except UnequalError as error:
        end(EXIT_UNEQUAL, str(error))
    click.echo(aligned([("table", "rows"), *((each.table, str(each.rows)) for each in copied)]))
    click.echo("both databases have the same")


def end(code: int, line: str) -> NoReturn:
    """End the command."""
    click.echo(line, err=True)
    sys.exit(code)


def database_of(path: Path, environ: dict[str, str]) -> Database:
    """Return the database of a configuration, or end the command with every error in the file."""
    try:
        return Database(load(path, environ).config.database.url.reveal())
    except ConfigErrors as errors:
        for line in errors.lines:
            click.echo(line, err=True)
        sys.exit(EXIT_CONFIG)


def ended(work: Coroutine[Any, Any, Answer]) -> Answer:
    """Return what the work returns, or end the command in one line where the database cannot be had."""
    try:
        return asyncio.run(work)
    except SchemaVersionError as error:
        click.echo(str(error), err=True)
    except (SQLAlchemyError, OSError) as error:
        click.echo(f"the database cannot be reached: {spoken(error)}", err=True)
    sys.exit(EXIT_UNAVAILABLE)
