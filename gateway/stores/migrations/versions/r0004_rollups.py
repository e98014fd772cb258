"""Sums by hour, day and month; in a Postgres, requests and attempts by month; and how far back requests are kept.

An attempt gets its request's start, by which its month is found. It no longer refers to its request as a foreign key: a month of
requests could not be dropped before each of its attempts was looked at.
"""

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta

import sqlalchemy as sa
from alembic import op

revision = "0004"
down_revision = "0003"

NAMES = ("org", "key_id", "key", "project", "model_served", "provider", "tier_served", "outcome")
SERVED = NAMES[4:]
FIGURES = (
    *("requests", "input_tokens", "cached_tokens", "cache_write_tokens", "output_tokens", "reasoning_tokens", "cost_nano_usd"),
    *("own_cost_nano_usd", "unpriced", "own_unpriced", "estimated"),
)
OF_REQUESTS = (
    *("count(*)", "sum(input_tokens)", "sum(cached_tokens)", "sum(cache_write_tokens)", "sum(output_tokens)"),
    *("sum(reasoning_tokens)", "coalesce(sum(cost_nano_usd), 0)", "coalesce(sum(own_cost_nano_usd), 0)"),
    *("count(*) - count(cost_nano_usd)", "count(*) - count(own_cost_nano_usd)", "sum(CASE WHEN estimated THEN 1 ELSE 0 END)"),
)
"""The figures as requests have them, in the order of `FIGURES`."""

HOUR_MS = 3_600_000
DAY_MS = 24 * HOUR_MS
SQLITE_MONTH = "CAST(strftime('%s', start_unix_ms / 1000, 'unixepoch', 'start of month') AS INTEGER) * 1000"
POSTGRES_MONTH = (
    "CAST(extract(epoch FROM date_trunc('month', to_timestamp(start_unix_ms / 1000) AT TIME ZONE 'UTC')) AS bigint) * 1000"
)


def upgrade() -> None:
    """Make the tables, and fill them from the requests that are there."""
    postgres = op.get_bind().dialect.name == "postgresql"
    _attempts()
    if postgres:
        _part("usage_event", ["request_id", "started_unix_ms"])
        _part("usage_attempt", ["request_id", "n", "started_unix_ms"])
        op.create_index("usage_event_started", "usage_event", ["started_unix_ms"])
    still_open = sa.text("rank = 0")
    op.create_index("usage_event_open", "usage_event", ["started_unix_ms"], sqlite_where=still_open, postgresql_where=still_open)
    op.create_table(
        "usage_horizon",
        sa.Column("id", sa.SmallInteger, primary_key=True, autoincrement=False),
        sa.Column("unix_ms", sa.BigInteger, nullable=False),
    )
    op.execute("INSERT INTO usage_horizon (id, unix_ms) VALUES (1, 0)")
    for table, names in (
        ("usage_hourly", NAMES),
        ("usage_daily", NAMES),
        ("usage_monthly", NAMES),
        ("usage_daily_served", SERVED),
    ):
        op.create_table(
            table,
            sa.Column("start_unix_ms", sa.BigInteger, primary_key=True, autoincrement=False),
            *(sa.Column(each, sa.Text, primary_key=True) for each in names),
            *(sa.Column(each, sa.BigInteger, nullable=False) for each in FIGURES),
            sqlite_with_rowid=False,
        )
    hour = f"started_unix_ms - started_unix_ms % {HOUR_MS}"
    named = {name: f"coalesce({name}, '')" for name in NAMES}
    _fill("usage_hourly", hour, named, OF_REQUESTS, "usage_event WHERE rank > 0")
    named, summed = {name: name for name in NAMES}, [f"sum({name})" for name in FIGURES]
    _fill("usage_daily", f"start_unix_ms - start_unix_ms % {DAY_MS}", named, summed, "usage_hourly")
    _fill("usage_monthly", POSTGRES_MONTH if postgres else SQLITE_MONTH, named, summed, "usage_daily")
    _fill("usage_daily_served", "start_unix_ms", {name: name for name in SERVED}, summed, "usage_daily")


def _fill(table: str, start: str, names: Mapping[str, str], figures: Sequence[str], source: str) -> None:
    places = ", ".join(str(n + 1) for n in range(1 + len(names)))
    op.execute(
        f"INSERT INTO {table} (start_unix_ms, {', '.join((*names, *FIGURES))})"
        f" SELECT {start}, {', '.join((*names.values(), *figures))} FROM {source} GROUP BY {places}"
    )


def _attempts() -> None:
    op.rename_table("usage_attempt", "usage_attempt_before")
    op.create_table(
        "usage_attempt",
        sa.Column("request_id", sa.Text, nullable=False),
        sa.Column("n", sa.SmallInteger, nullable=False),
        sa.Column("started_unix_ms", sa.BigInteger, nullable=False),
        sa.Column("model", sa.Text, nullable=False),
        sa.Column("provider", sa.Text, nullable=False),
        sa.Column("status", sa.SmallInteger, nullable=False),
        sa.Column("outcome", sa.Text, nullable=False),
        sa.Column("sent", sa.Boolean, nullable=False),
        sa.Column("duration_ms", sa.BigInteger, nullable=False),
        sa.PrimaryKeyConstraint("request_id", "n", name="usage_attempt_key"),
        sqlite_with_rowid=False,
    )
    rest = "model, provider, status, outcome, sent, duration_ms"
    op.execute(
        f"INSERT INTO usage_attempt (request_id, n, started_unix_ms, {rest})"
        f" SELECT request_id, n, started_unix_ms, {', '.join('a.' + name for name in rest.split(', '))}"
        " FROM usage_attempt_before a JOIN usage_event e USING (request_id)"
    )
    op.drop_table("usage_attempt_before")


def _part(table: str, key: Sequence[str]) -> None:
    """Make a Postgres table one of months. Its indexes are made by the caller."""
    op.rename_table(table, f"{table}_before")
    op.execute(f"CREATE TABLE {table} (LIKE {table}_before INCLUDING DEFAULTS) PARTITION BY RANGE (started_unix_ms)")
    days = op.get_bind().execute(sa.text(f"SELECT DISTINCT started_unix_ms / {DAY_MS} FROM {table}_before")).scalars()
    for month in sorted({datetime.fromtimestamp(day * DAY_MS / 1000, UTC).replace(day=1) for day in days}):
        following = (month + timedelta(days=31)).replace(day=1)
        bounds = f"FROM ({month.timestamp() * 1000:.0f}) TO ({following.timestamp() * 1000:.0f})"
        op.execute(f"CREATE TABLE {table}_{month:%Y_%m} PARTITION OF {table} FOR VALUES {bounds}")
    op.execute(f"INSERT INTO {table} SELECT * FROM {table}_before")
    op.drop_table(f"{table}_before")
    op.create_primary_key(f"{table}_key", table, list(key))
