"""The ledger against what providers charge: tokens and the operator's own cost, day by day (UTC).

An invoice is CSV with a header: `day,provider,model,input_tokens,output_tokens,cost_usd`, one or more lines a day and provider.
Its models are the provider's names, which the ledger has not, so that a day of a provider is compared as a whole.
"""

import csv
from collections.abc import Iterable, Mapping
from datetime import UTC, date, datetime
from decimal import Decimal, InvalidOperation
from typing import Any

import msgspec
from sqlalchemy import Select, func, select

from gateway.stores.database import Reader
from gateway.stores.rollups import DAY, DAY_MS

NANO = 1_000_000_000
FIGURES = ("input_tokens", "output_tokens", "cost_nano_usd")
COLUMNS = ("day", "provider", "model", "input_tokens", "output_tokens", "cost_usd")

Day = tuple[str, str]
"""A date and a provider."""


class Figures(msgspec.Struct, frozen=True):
    """What a provider's day came to; a cost is null where the ledger does not know it of every request."""

    input_tokens: int
    output_tokens: int
    cost_nano_usd: int | None


NOTHING = Figures(0, 0, 0)


class Difference(msgspec.Struct, frozen=True, kw_only=True):
    """A provider's day by the ledger and by the invoice; `percent` is how far they are apart at most, of the invoice's figure."""

    day: str
    provider: str
    ledger: Figures
    invoice: Figures
    percent: float


def read_invoice(lines: Iterable[str]) -> dict[Day, Figures]:
    """Return an invoice's figures. Raises ValueError, with the line."""
    rows = csv.DictReader(lines)
    missing = [name for name in COLUMNS if name not in (rows.fieldnames or ())]
    if missing:
        raise ValueError(f"the header has no {', '.join(missing)}")
    found: dict[Day, Figures] = {}
    for number, row in enumerate(rows, start=2):
        try:
            day = date.fromisoformat(row["day"]).isoformat(), row["provider"]
            held = found.get(day, NOTHING)
            cost = int(Decimal(row["cost_usd"]) * NANO)
            found[day] = Figures(
                held.input_tokens + int(row["input_tokens"]), held.output_tokens + int(row["output_tokens"]), _sum(held, cost)
            )
        except (ValueError, TypeError, InvalidOperation, OverflowError) as error:
            raise ValueError(f"line {number} is not of the header's kind") from error
    return found


async def compared(reader: Reader, invoice: Mapping[Day, Figures]) -> list[Difference]:
    """Return every day of the invoice, and those within its span on which its providers were used without being in it."""
    if not invoice:
        return []
    ledger = {(_date(row["start_unix_ms"]), row["provider"]): _figures(row) for row in await reader.fetch(_used(invoice))}
    return [_difference(day, ledger.get(day, NOTHING), invoice.get(day, NOTHING)) for day in sorted({*ledger, *invoice})]


def _used(invoice: Mapping[Day, Figures]) -> Select[Any]:
    days = [date.fromisoformat(day).toordinal() - date(1970, 1, 1).toordinal() for day, _ in invoice]
    sums = DAY.table.c
    names = ("input_tokens", "output_tokens", "own_cost_nano_usd", "own_unpriced", "requests")
    return (
        select(sums.start_unix_ms, sums.provider, *(func.sum(sums[name]).label(name) for name in names))
        .where(
            sums.start_unix_ms.between(min(days) * DAY_MS, max(days) * DAY_MS),
            sums.provider.in_({provider for _, provider in invoice}),
        )
        .group_by(sums.start_unix_ms, sums.provider)
        .having(func.sum(sums.requests) > 0)
    )


def _figures(row: Mapping[str, Any]) -> Figures:
    cost = None if row["own_unpriced"] else int(row["own_cost_nano_usd"])
    return Figures(int(row["input_tokens"]), int(row["output_tokens"]), cost)


def _difference(day: Day, ledger: Figures, invoice: Figures) -> Difference:
    apart = [_percent(getattr(ledger, name), getattr(invoice, name)) for name in FIGURES]
    return Difference(day=day[0], provider=day[1], ledger=ledger, invoice=invoice, percent=max(apart))


def _percent(ledger: int | None, invoice: int) -> float:
    if ledger is None or ledger == invoice:
        return 0.0
    return abs(ledger - invoice) / invoice * 100 if invoice else 100.0


def _sum(held: Figures, cost_nano_usd: int) -> int:
    return (held.cost_nano_usd or 0) + cost_nano_usd


def _date(unix_ms: int) -> str:
    return f"{datetime.fromtimestamp(unix_ms / 1000, UTC):%Y-%m-%d}"
