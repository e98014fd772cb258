"""The ledger's tables, as this release has them; how a database comes to have them is told in `gateway.stores.migrations`.

`usage_event` has one narrow row a request, `usage_attempt` one row for each candidate that it tried, unless the first answered.
Times are Unix milliseconds, money is nano-USD, durations are milliseconds; a null is a figure that nobody knows. No text of a
prompt or an answer has a column. In a Postgres both tables are parted by month, and the start belongs to their keys.
"""

from sqlalchemy import BigInteger, Boolean, Column, Index, MetaData, SmallInteger, Table, Text, text

METADATA = MetaData()

EVENTS = Table(
    "usage_event",
    METADATA,
    Column("request_id", Text, primary_key=True),
    Column("started_unix_ms", BigInteger, nullable=False),
    Column("key", Text, nullable=False),
    Column("key_id", Text, nullable=False),
    Column("org", Text, nullable=False),
    Column("project", Text),
    Column("model_requested", Text),
    Column("tier_requested", Text),
    Column("route", Text, nullable=False),
    Column("stream", Boolean, nullable=False),
    Column("client_request_id", Text),
    Column("rank", SmallInteger, nullable=False),  # 0 open, 1 abandoned, 2 closed: the higher one tells the end
    Column("outcome", Text),
    Column("status", SmallInteger),
    Column("error_code", Text),
    Column("model_served", Text),
    Column("provider", Text),
    Column("tier_served", Text),
    Column("input_tokens", BigInteger, nullable=False),
    Column("cached_tokens", BigInteger, nullable=False),
    Column("output_tokens", BigInteger, nullable=False),
    Column("reasoning_tokens", BigInteger, nullable=False),
    Column("cost_nano_usd", BigInteger),
    Column("estimated", Boolean, nullable=False),
    Column("queued_ms", BigInteger, nullable=False),
    Column("ttft_ms", BigInteger),
    Column("duration_ms", BigInteger),
    Column("attempts", SmallInteger, nullable=False),
    Column("own_cost_nano_usd", BigInteger),
    Column("price_version", Text),
    Column("cache_write_tokens", BigInteger, nullable=False, server_default="0"),
    Column("user_hash", Text),
    Index("usage_event_started", "started_unix_ms"),
    Index("usage_event_open", "started_unix_ms", sqlite_where=text("rank = 0"), postgresql_where=text("rank = 0")),
    sqlite_with_rowid=False,
)

ATTEMPTS = Table(
    "usage_attempt",
    METADATA,
    Column("request_id", Text, primary_key=True),
    Column("n", SmallInteger, primary_key=True),
    Column("started_unix_ms", BigInteger, nullable=False),
    Column("model", Text, nullable=False),
    Column("provider", Text, nullable=False),
    Column("status", SmallInteger, nullable=False),
    Column("outcome", Text, nullable=False),
    Column("sent", Boolean, nullable=False),
    Column("duration_ms", BigInteger, nullable=False),
    sqlite_with_rowid=False,
)

HORIZON = Table(
    "usage_horizon",
    METADATA,
    Column("id", SmallInteger, primary_key=True, autoincrement=False),
    Column("unix_ms", BigInteger, nullable=False),
)
"""One row: requests that began before then were counted and deleted, and are not to be counted again."""
