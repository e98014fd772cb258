"""The ledger's requests and attempts. A file that has them was written before there were revisions, and is taken as it is."""

import sqlalchemy as sa
from alembic import op

revision = "0001"
down_revision = None

AFTER_USER_VERSION_1 = 2
"""What makes the release that counted by this pragma refuse the file: it would write to it, not knowing what else to keep."""


def upgrade() -> None:
    """Make the two tables where they are not."""
    connection = op.get_bind()
    if not sa.inspect(connection).has_table("usage_event"):
        _events()
        _attempts()
    if connection.dialect.name == "sqlite":
        op.execute(f"PRAGMA user_version = {AFTER_USER_VERSION_1}")


def _events() -> None:
    op.create_table(
        "usage_event",
        sa.Column("request_id", sa.Text, primary_key=True),
        sa.Column("started_unix_ms", sa.BigInteger, nullable=False),
        sa.Column("key", sa.Text, nullable=False),
        sa.Column("key_id", sa.Text, nullable=False),
        sa.Column("org", sa.Text, nullable=False),
        sa.Column("project", sa.Text),
        sa.Column("model_requested", sa.Text),
        sa.Column("tier_requested", sa.Text),
        sa.Column("route", sa.Text, nullable=False),
        sa.Column("stream", sa.Boolean, nullable=False),
        sa.Column("client_request_id", sa.Text),
        sa.Column("rank", sa.SmallInteger, nullable=False),
        sa.Column("outcome", sa.Text),
        sa.Column("status", sa.SmallInteger),
        sa.Column("error_code", sa.Text),
        sa.Column("model_served", sa.Text),
        sa.Column("provider", sa.Text),
        sa.Column("tier_served", sa.Text),
        sa.Column("input_tokens", sa.BigInteger, nullable=False),
        sa.Column("cached_tokens", sa.BigInteger, nullable=False),
        sa.Column("output_tokens", sa.BigInteger, nullable=False),
        sa.Column("reasoning_tokens", sa.BigInteger, nullable=False),
        sa.Column("cost_nano_usd", sa.BigInteger),
        sa.Column("estimated", sa.Boolean, nullable=False),
        sa.Column("queued_ms", sa.BigInteger, nullable=False),
        sa.Column("ttft_ms", sa.BigInteger),
        sa.Column("duration_ms", sa.BigInteger),
        sa.Column("attempts", sa.SmallInteger, nullable=False),
        sqlite_with_rowid=False,
    )
    op.create_index("usage_event_started", "usage_event", ["started_unix_ms"])


def _attempts() -> None:
    op.create_table(
        "usage_attempt",
        sa.Column("request_id", sa.Text, sa.ForeignKey("usage_event.request_id"), primary_key=True),
        sa.Column("n", sa.SmallInteger, primary_key=True),
        sa.Column("model", sa.Text, nullable=False),
        sa.Column("provider", sa.Text, nullable=False),
        sa.Column("status", sa.SmallInteger, nullable=False),
        sa.Column("outcome", sa.Text, nullable=False),
        sa.Column("sent", sa.Boolean, nullable=False),
        sa.Column("duration_ms", sa.BigInteger, nullable=False),
        sqlite_with_rowid=False,
    )
