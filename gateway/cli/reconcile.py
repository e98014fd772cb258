"""`tiergate usage reconcile`: the ledger against the budgets in the store, and against what providers charge.

Exit codes: 0 they agree, 1 they do not, 2 an invoice that cannot be read, 69 a store or a ledger that cannot be had, 78 a bad
configuration.
"""

import asyncio
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NoReturn

import click
import msgspec
from redis.exceptions import RedisError
from sqlalchemy.exc import SQLAlchemyError

from gateway.admission.connection import AdmissionUnavailable
from gateway.cli.check import EXIT_CONFIG, EXIT_UNAVAILABLE
from gateway.cli.table import aligned
from gateway.config import Config, ConfigErrors, load
from gateway.embedded.child import Unavailable
from gateway.embedded.valkey import url_of_running
from gateway.processes.accounts import Account, Accounts, reconciled
from gateway.stores.database import MissingLedgerError, Reader
from gateway.stores.invoices import FIGURES, Day, Difference, Figures, compared, read_invoice
from gateway.stores.reports import spoken
from gateway.stores.spending import LedgerUnavailableError
from gateway.stores.versions import SchemaVersionError

AWAY = (
    *(AdmissionUnavailable, RedisError, Unavailable, LedgerUnavailableError),
    *(MissingLedgerError, SchemaVersionError, SQLAlchemyError, OSError),
)
EXIT_DIFFERENT, EXIT_USAGE = 1, 2


@click.command()
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
@click.option("--tolerance", type=click.FloatRange(0), default=0.5, show_default=True, help="Percent that an invoice may be off.")
@click.option("--provider-csv", "invoice", type=click.File(), help="day,provider,model,input_tokens,output_tokens,cost_usd")
@click.option("--config", "path", type=click.Path(path_type=Path), required=True, help="The configuration file.")
@click.pass_obj
def reconcile(environ: dict[str, str], /, path: Path, invoice: Any, tolerance: float, *, as_json: bool) -> None:
    """Hold the ledger against the budgets in the store, and against a provider's invoice."""
    try:
        config = load(path, environ).config
        charged = {} if invoice is None else read_invoice(invoice)
        accounts, differences = asyncio.run(both(config, charged))
    except ConfigErrors as errors:
        end(EXIT_CONFIG, *errors.lines)
    except ValueError as error:
        end(EXIT_USAGE, f"--provider-csv: {error}")
    except AWAY as error:
        end(EXIT_UNAVAILABLE, spoken(error))
    off = [each for each in differences if each.percent > tolerance]
    click.echo(json_of(accounts, differences, off) if as_json else text_of(accounts, differences, off))
    if accounts.waiting:
        click.echo(f"{accounts.waiting} events wait in the stream: no gateway stores them", err=True)
    if off or not all(line.agrees for line in accounts.lines):
        sys.exit(EXIT_DIFFERENT)


def end(code: int, *lines: str) -> NoReturn:
    """End the command."""
    for line in lines:
        click.echo(line, err=True)
    sys.exit(code)


async def both(config: Config, invoice: dict[Day, Figures]) -> tuple[Accounts, list[Difference]]:
    """Return the budgets by both books, and the invoice's days by ledger and invoice."""
    redis = config.redis
    url = url_of_running(Path(config.state_dir)) if redis.embedded else redis.url.reveal()
    accounts = await reconciled(config, url)
    reader = Reader(config.database.url.reveal())
    try:
        return accounts, await compared(reader, invoice)
    finally:
        await reader.close()


def json_of(accounts: Accounts, differences: Sequence[Difference], off: Sequence[Difference]) -> str:
    """Return both comparisons for programs."""
    budgets = [msgspec.to_builtins(line) | {"difference": line.difference, "agrees": line.agrees} for line in accounts.lines]
    days = [msgspec.to_builtins(each) | {"agrees": each not in off} for each in differences]
    return msgspec.json.encode({"budgets": budgets, "waiting": accounts.waiting, "invoice": days}).decode()


def text_of(accounts: Accounts, differences: Sequence[Difference], off: Sequence[Difference]) -> str:
    """Return both comparisons for people."""
    budgets = [("budget", "unit", "ledger", "store", "difference", "live", ""), *map(_budget, accounts.lines)]
    if not differences:
        return aligned(budgets)
    heads = [f"{name} {book}" for name in FIGURES for book in ("ledger", "invoice")]
    days = [("day", "provider", *heads, "off", ""), *(_day(each, off=each in off) for each in differences)]
    return f"{aligned(budgets)}\n\n{aligned(days)}"


def _budget(line: Account) -> tuple[str, ...]:
    figures = (line.ledger, line.store, line.difference, line.live)
    return (line.budget, line.unit, *map(str, figures), "" if line.agrees else "differs")


def _day(each: Difference, *, off: bool) -> tuple[str, ...]:
    figures = [getattr(book, name) for name in FIGURES for book in (each.ledger, each.invoice)]
    shown = ["-" if figure is None else str(figure) for figure in figures]
    return (each.day, each.provider, *shown, f"{each.percent:.2f} %", "differs" if off else "")
