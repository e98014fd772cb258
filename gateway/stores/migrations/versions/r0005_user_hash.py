"""Whose request it was among the client's own users, as a keyed hash, where that is asked for."""

import sqlalchemy as sa
from alembic import op

revision = "0005"
down_revision = "0004"


def upgrade() -> None:
    """Add the column. The release before leaves it empty."""
    op.add_column("usage_event", sa.Column("user_hash", sa.Text))
