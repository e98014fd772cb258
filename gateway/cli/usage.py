"""`tiergate usage`: what the ledger says, read from its file while the gateway runs.

Exit codes: 0 told, 2 a question that makes no sense, 69 no ledger to read, 78 a bad configuration.
"""

import asyncio
import csv
import io
import os
import sys
import time
from collections.abc import Callable, Coroutine, Sequence
from pathlib import Path
from typing import Any, TypeVar

import click
import msgspec
from sqlalchemy.exc import SQLAlchemyError

from gateway.cli.check import EXIT_UNAVAILABLE
from gateway.cli.keys import config_of
from gateway.cli.reconcile import reconcile
from gateway.cli.table import aligned
from gateway.config import Config
from gateway.policy.credentials import user_hash
from gateway.processes.pepper import pepper_of
from gateway.stores.database import MissingLedgerError, Reader
from gateway.stores.reports import DIMENSIONS, LedgerAwayError, Question, Reports, Row, exported, parse_by, parse_since, spoken
from gateway.stores.versions import SchemaVersionError

IN_TABLES = (
    *("started_at", "request_id", "org", "key", "model_served", "provider", "tier_served", "outcome", "attempts"),
    *("input_tokens", "output_tokens", "cost_micro_usd", "own_cost_micro_usd", "duration_ms"),
)
"""The members of a request that fit a terminal; the others are in `--json` and `--csv`."""


Answer = TypeVar("Answer")
Command = TypeVar("Command", bound=Callable[..., Any])


def options(command: Command) -> Command:
    """Give a command the options that both reports have."""
    for option in (
        click.option("--csv", "form", flag_value="csv", help="Print comma-separated values with a header."),
        click.option("--json", "form", flag_value="json", help="Print one JSON array."),
        click.option("--live", is_flag=True, help="Count requests too that have not ended."),
        click.option("--user-hash", help="Only requests of the user that has this hash in the ledger."),
        click.option("--user", type=(str, str), metavar="ORG NAME", help="Only requests of this user, as clients name it."),
        click.option("--limit", type=click.IntRange(1), help="At most so many rows."),
        click.option(
            "--since", type=Since(), default=0, help="Only what began since: 7d, 24h, 2026-11-01, 2026-11-01T12:00:00Z."
        ),
        click.option("--config", "path", type=click.Path(path_type=Path), required=True, help="The configuration file."),
    ):
        command = option(command)
    return command


class Since(click.ParamType[int]):
    """An instant, as a date, a time or how long ago, in Unix milliseconds."""

    name = "time"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:
        """Return the instant."""
        try:
            return value if isinstance(value, int) else parse_since(value, time.time_ns() // 1_000_000)
        except ValueError as error:
            self.fail(str(error), param, ctx)


class By(click.ParamType[tuple[str, ...]]):
    """What to add up by."""

    name = "what"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> tuple[str, ...]:
        """Return the dimensions."""
        try:
            return parse_by(value)
        except ValueError as error:
            self.fail(str(error), param, ctx)


@click.group()
def usage() -> None:
    """Read the usage ledger."""


@usage.command()
@click.option("--by", type=By(), default="day", help=f"request, or any of {', '.join(DIMENSIONS)}.", show_default=True)
@options
@click.pass_obj
def report(environ: dict[str, str], /, path: Path, form: str | None, **wanted: Any) -> None:
    """Print what was used: request by request, or added up."""
    tell(config_of(path, environ), wanted, form)


@usage.command("list")
@click.option("--request-id", help="This request alone.")
@options
@click.pass_obj
def list_requests(environ: dict[str, str], /, path: Path, form: str | None, **wanted: Any) -> None:
    """Print requests, the newest first."""
    tell(config_of(path, environ), wanted, form)


@usage.command()
@click.option("--live", is_flag=True, help="Requests too that have not ended.")
@click.option("--since", type=Since(), default=0, help="Only what began since: 7d, 24h, 2026-11-01, 2026-11-01T12:00:00Z.")
@click.option("--config", "path", type=click.Path(path_type=Path), required=True, help="The configuration file.")
@click.pass_obj
def export(environ: dict[str, str], /, path: Path, since: int, *, live: bool) -> None:
    """Print every request as a line of JSON, the oldest first: the columns of the ledger as they are, money in nano-USD."""
    unavailable_ends(write_lines(config_of(path, environ).database.url.reveal(), since, live=live))


async def write_lines(url: str, since_unix_ms: int, *, live: bool) -> None:
    """Write what is to be exported, little of it at a time in memory."""
    reader = Reader(url)
    out = sys.stdout.buffer
    encode = msgspec.json.Encoder().encode
    try:
        async for row in reader.stream(exported(since_unix_ms, live=live)):
            out.write(encode(row) + b"\n")
        out.flush()
    except BrokenPipeError:  # whoever reads has enough; what is left must not be tried again at the end
        os.dup2(os.open(os.devnull, os.O_WRONLY), out.fileno())
    finally:
        await reader.close()


usage.add_command(reconcile)


def tell(config: Config, wanted: dict[str, Any], form: str | None) -> None:
    """Print the answer to what is wanted."""
    since_unix_ms, user = wanted.pop("since"), wanted.pop("user")
    if user is not None and wanted["user_hash"] is not None:
        raise click.UsageError("a user is asked for by --user or by --user-hash")
    if user is not None:
        wanted["user_hash"] = user_hash(pepper_of(config, Path(config.state_dir)), *user)
    rows = unavailable_ends(answer(config.database.url.reveal(), Question(since_unix_ms=since_unix_ms, **wanted)))
    render = {"json": as_json, "csv": as_csv, None: as_table}[form]
    click.echo(render(rows), nl=False)


def unavailable_ends(work: Coroutine[Any, Any, Answer]) -> Answer:
    """Return what the work returns, or end the command where there is no ledger to read."""
    try:
        return asyncio.run(work)
    except MissingLedgerError as error:
        click.echo(str(error), err=True)
    except (LedgerAwayError, SchemaVersionError, SQLAlchemyError, OSError) as error:
        click.echo(f"the ledger cannot be read: {spoken(error)}", err=True)
    sys.exit(EXIT_UNAVAILABLE)


async def answer(url: str, question: Question) -> list[Row]:
    """Return the rows that answer a question."""
    reader = Reader(url)
    try:
        return await Reports(reader).rows(question)
    finally:
        await reader.close()


def as_json(rows: Sequence[Row]) -> str:
    """Return rows as one JSON array."""
    return msgspec.json.encode(rows).decode() + "\n"


def as_csv(rows: Sequence[Row]) -> str:
    """Return rows as CSV; nothing where there is no row to name the columns."""
    text = io.StringIO()
    if rows:
        writer = csv.DictWriter(text, rows[0].keys(), lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)
    return text.getvalue()


def as_table(rows: Sequence[Row]) -> str:
    """Return rows as a table for people."""
    if not rows:
        return "no usage\n"
    names = [name for name in IN_TABLES if name in rows[0]] if "request_id" in rows[0] else list(rows[0])
    lines = [names, *([cell(row[name]) for name in names] for row in rows)]
    return aligned(lines) + "\n"


def cell(value: object) -> str:
    """Return one value as a table shows it."""
    return "-" if value is None else str(value)
