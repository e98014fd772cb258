"""What a request cost the operator, which price it was charged by, and how much of its input was cached anew."""

import sqlalchemy as sa
from alembic import op

revision = "0003"
down_revision = "0002"


def upgrade() -> None:
    """Add the columns. Of the rows that are there nobody knows what they cost, nor by which price."""
    op.add_column("usage_event", sa.Column("own_cost_nano_usd", sa.BigInteger))
    op.add_column("usage_event", sa.Column("price_version", sa.Text))
    # With a default, for the release before knows nothing of it, and may still write.
    op.add_column("usage_event", sa.Column("cache_write_tokens", sa.BigInteger, nullable=False, server_default="0"))
