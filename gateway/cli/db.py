"""`tiergate db`: look after the database.

Exit codes: 0 done, 69 a database that cannot be had or is of another release, 78 a bad configuration.
"""

import asyncio
import sys
from collections.abc import Coroutine
from pathlib import Path
from typing import Any, TypeVar

import click
from sqlalchemy.exc import DBAPIError, SQLAlchemyError

from gateway.cli.check import EXIT_CONFIG, EXIT_UNAVAILABLE
from gateway.config import ConfigErrors, load
from gateway.stores.engine import Database
from gateway.stores.versions import NEWEST, SchemaVersionError, current, upgrade

Answer = TypeVar("Answer")

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
        click.echo(f"the database cannot be reached: {reason(error)}", err=True)
    sys.exit(EXIT_UNAVAILABLE)


def reason(error: Exception) -> str:
    """Return what is wrong in the driver's own words, which name no password."""
    return str(error.orig) if isinstance(error, DBAPIError) else str(error) or type(error).__name__
