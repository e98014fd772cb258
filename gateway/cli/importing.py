"""`tiergate import`: another gateway's configuration, and its keys, as this one's.

Exit codes: 0 imported, 1 with `--strict` something is not exact, 2 usage, 69 a database that cannot be reached or lacks its
tables, 78 a file that cannot be read. Secrets never show in what is said of the fields; the file that is written has those that
theirs has.
"""

import asyncio
import datetime
import getpass
import os
import sys
import textwrap
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click
import msgspec
from asyncpg import PostgresError
from sqlalchemy.exc import SQLAlchemyError

from gateway.cli.check import EXIT_CONFIG, EXIT_UNAVAILABLE
from gateway.importing.findings import Finding, Findings
from gateway.importing.known import known_models
from gateway.importing.scopes import KEYS, TABLES
from gateway.importing.source import SourceError, read
from gateway.importing.tenants import bring
from gateway.importing.translation import Translation, translate
from gateway.stores.brought import Counts
from gateway.stores.brought import bring as write_keys
from gateway.stores.engine import Database
from gateway.stores.litellm import NotThereError, tables
from gateway.stores.versions import SchemaVersionError, admit, upgrade

OWN_DATABASE = "sqlite:///var/tiergate.db"
"""The file format's own `database.url`."""

NOTE_WIDTH = 70
OWNER_ALONE = 0o600


@click.group(name="import")
def importing() -> None:
    """Take over another gateway's configuration and keys."""


@importing.command()
@click.argument("file", type=click.Path(path_type=Path))
@click.option("--out", type=click.Path(path_type=Path), help="Where the configuration goes. By default to standard output.")
@click.option("--database", metavar="URL", help="The proxy's Postgres: its virtual keys are imported too.")
@click.option("--into", metavar="URL", help=f"Where keys go: the database of this gateway. By default {OWN_DATABASE}.")
@click.option("--strict", is_flag=True, help="End with 1 when anything is not carried exactly.")
@click.option("--json", "as_json", is_flag=True, help="Print what became of each field as one JSON object.")
def litellm(file: Path, *, strict: bool, as_json: bool, **places: Any) -> None:
    """Translate FILE, a configuration of LiteLLM's proxy, and say of each field what became of it."""
    out, into = places["out"], places["into"]
    now = datetime.datetime.now(datetime.UTC)
    try:
        translation = translate(read(file), known_models(), _month_ends(now.date()))
    except SourceError as error:
        click.echo(str(error), err=True)
        sys.exit(EXIT_CONFIG)
    counts = None
    if places["database"] is not None:
        counts = _keys(translation, places["database"], into or OWN_DATABASE, round(now.timestamp() * 1000))
    text = translation.text(into)
    if out is not None:
        write(out, text)
    _report(translation, None if out is not None else text, counts, as_json=as_json)
    if strict and any(finding.kind != "exact" for finding in translation.findings.all()):
        sys.exit(1)


def _keys(translation: Translation, theirs: str, ours: str, now_unix_ms: int) -> Counts:
    """Bring the keys of one database into another."""
    try:
        return asyncio.run(_bring(translation, theirs, ours, now_unix_ms))
    except ValueError as error:
        raise click.UsageError(str(error)) from None
    except (SQLAlchemyError, OSError, PostgresError, NotThereError, SchemaVersionError) as error:
        # What a driver says may have a value of a row in it; our own errors have none.
        said = str(error) if isinstance(error, NotThereError | SchemaVersionError) else type(error).__name__
        click.echo(f"the keys could not be imported: {said}", err=True)
        sys.exit(EXIT_UNAVAILABLE)


async def _bring(translation: Translation, theirs: str, ours: str, now_unix_ms: int) -> Counts:
    found = bring(await tables(theirs, TABLES, KEYS), translation.names, translation.findings, now_unix_ms)
    database = Database(ours)
    if database.is_sqlite:
        await upgrade(database)
    else:
        await admit(database)
    return await write_keys(database, found, now_unix_ms, f"cli:{getpass.getuser()}")


def write(path: Path, text: str) -> None:
    """Write a file that nobody but its owner may read: it may hold secrets."""
    with open(path, "w", opener=lambda name, flags: os.open(name, flags, OWNER_ALONE)) as file:
        os.fchmod(file.fileno(), OWNER_ALONE)
        file.write(text)


def _month_ends(today: datetime.date) -> str:
    return (today.replace(day=1) + datetime.timedelta(days=32)).replace(day=1).isoformat()


def _report(translation: Translation, text: str | None, keys: Counts | None, *, as_json: bool) -> None:
    findings = translation.findings
    if as_json:
        said: dict[str, Any] = {"findings": findings.all(), **findings.counts(), "rows": keys}
        click.echo(msgspec.json.format(msgspec.json.encode(said if text is None else {"config": text, **said})))
        return
    if text is not None:
        click.echo(text, nl=False)
    for line in as_text(findings):
        click.echo(line, err=True)
    if keys is not None:
        counted = ", ".join(f"{count} {what}" for what, count in msgspec.structs.asdict(keys).items())
        click.echo(f"rows of orgs, projects, keys and balances: {counted}", err=True)


def as_text(findings: Findings) -> Iterator[str]:
    """Yield a table of what is not exact, what is left out first, and the counts of all."""
    for kind in ("ignored", "approximate"):
        found = [finding for finding in findings.all() if finding.kind == kind]
        if found:
            yield f"{kind}:"
            yield from (line for finding in found for line in _lines(finding))
            yield ""
    yield ", ".join(f"{count} {kind}" for kind, count in findings.counts().items())


def _lines(finding: Finding) -> Iterator[str]:
    yield f"  {finding.where}" + (f" -> {finding.into}" if finding.into else "")
    yield from textwrap.wrap(finding.note, NOTE_WIDTH, initial_indent="      ", subsequent_indent="      ")
