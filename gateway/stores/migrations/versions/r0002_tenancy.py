"""Plans, orgs, projects, keys, balances brought along, and the audit, which only grows."""

import sqlalchemy as sa
from alembic import op

revision = "0002"
down_revision = "0001"

SQLITE_APPEND_ONLY = (
    "CREATE TRIGGER audit_no_update BEFORE UPDATE ON audit BEGIN SELECT RAISE(ABORT, 'audit is append-only'); END",
    "CREATE TRIGGER audit_no_delete BEFORE DELETE ON audit BEGIN SELECT RAISE(ABORT, 'audit is append-only'); END",
    # INSERT OR REPLACE takes the old row away without a word to the trigger above.
    "CREATE TRIGGER audit_no_replace BEFORE INSERT ON audit WHEN EXISTS (SELECT 1 FROM audit WHERE id = NEW.id)"
    " BEGIN SELECT RAISE(ABORT, 'audit is append-only'); END",
)
POSTGRES_APPEND_ONLY = (
    "CREATE FUNCTION audit_is_append_only() RETURNS trigger LANGUAGE plpgsql AS"
    " $$ BEGIN RAISE EXCEPTION 'audit is append-only' USING ERRCODE = 'restrict_violation'; END $$",
    "CREATE TRIGGER audit_no_change BEFORE UPDATE OR DELETE OR TRUNCATE ON audit"
    " FOR EACH STATEMENT EXECUTE FUNCTION audit_is_append_only()",
)


def upgrade() -> None:
    """Make the tables."""
    op.create_table("org", sa.Column("name", sa.Text, primary_key=True), *_defined())
    op.create_table("plan", sa.Column("name", sa.Text, primary_key=True), *_defined())
    names = sa.Column("org", sa.Text, primary_key=True), sa.Column("name", sa.Text, primary_key=True)
    op.create_table("project", *names, *_defined())
    _keys()
    op.create_table(
        "opening_balance",
        sa.Column("scope", sa.Text, primary_key=True),
        sa.Column("period_start_unix_ms", sa.BigInteger, primary_key=True, autoincrement=False),
        sa.Column("nano_usd", sa.BigInteger, nullable=False),
        sa.Column("tokens", sa.BigInteger, nullable=False),
    )
    _audit()


def _defined() -> tuple[sa.Column[str], sa.Column[int], sa.Column[int]]:
    return (
        sa.Column("definition", sa.Text, nullable=False),
        sa.Column("created_unix_ms", sa.BigInteger, nullable=False),
        sa.Column("updated_unix_ms", sa.BigInteger, nullable=False),
    )


def _keys() -> None:
    op.create_table(
        "api_key",
        sa.Column("id", sa.Text, primary_key=True),
        sa.Column("name", sa.Text, nullable=False),
        sa.Column("org", sa.Text, nullable=False),
        sa.Column("plan", sa.Text),
        *_defined(),
        sa.Column("expires_unix_ms", sa.BigInteger),
        sa.Column("revoked_unix_ms", sa.BigInteger),
        sa.Column("blocked_unix_ms", sa.BigInteger),
        sa.Column("last_used_unix_ms", sa.BigInteger),
        sa.Column("source", sa.Text, nullable=False),
    )
    standing = sa.text("revoked_unix_ms IS NULL")
    op.create_index("api_key_name", "api_key", ["org", "name"], unique=True, sqlite_where=standing, postgresql_where=standing)
    op.create_table(
        "key_secret",
        sa.Column("digest", sa.LargeBinary, primary_key=True),
        sa.Column("scheme", sa.Text, nullable=False),
        sa.Column("key_id", sa.Text, sa.ForeignKey("api_key.id"), nullable=False),
        sa.Column("display", sa.Text, nullable=False),
        sa.Column("created_unix_ms", sa.BigInteger, nullable=False),
        sa.Column("not_after_unix_ms", sa.BigInteger),
    )
    op.create_index("key_secret_key", "key_secret", ["key_id"])


def _audit() -> None:
    op.create_table(
        "audit",
        sa.Column("id", sa.BigInteger().with_variant(sa.Integer, "sqlite"), primary_key=True, autoincrement=True),
        sa.Column("at_unix_ms", sa.BigInteger, nullable=False),
        sa.Column("actor", sa.Text, nullable=False),
        sa.Column("action", sa.Text, nullable=False),
        sa.Column("subject", sa.Text, nullable=False),
        sa.Column("detail", sa.Text, nullable=False),
        sqlite_autoincrement=True,
    )
    op.create_index("audit_at", "audit", ["at_unix_ms"])
    for statement in SQLITE_APPEND_ONLY if op.get_bind().dialect.name == "sqlite" else POSTGRES_APPEND_ONLY:
        op.execute(statement)
