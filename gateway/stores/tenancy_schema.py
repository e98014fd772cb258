"""The tables of who may use the gateway: plans, orgs, their projects, keys; and of what was done to them.

A `definition` is the JSON of the very struct that the configuration file has for the same thing. Times are Unix milliseconds,
money is nano-USD; a null is what has not happened.
"""

from sqlalchemy import BigInteger, Column, ForeignKey, Index, Integer, LargeBinary, Table, Text, text

from gateway.stores.schema import METADATA


def _defined() -> tuple[Column[str], Column[int], Column[int]]:
    return (
        Column("definition", Text, nullable=False),
        Column("created_unix_ms", BigInteger, nullable=False),
        Column("updated_unix_ms", BigInteger, nullable=False),
    )


ORGS = Table("org", METADATA, Column("name", Text, primary_key=True), *_defined())
PLANS = Table("plan", METADATA, Column("name", Text, primary_key=True), *_defined())
PROJECTS = Table("project", METADATA, Column("org", Text, primary_key=True), Column("name", Text, primary_key=True), *_defined())

KEYS = Table(
    "api_key",
    METADATA,
    Column("id", Text, primary_key=True),
    Column("name", Text, nullable=False),
    Column("org", Text, nullable=False),
    Column("plan", Text),
    *_defined(),
    Column("expires_unix_ms", BigInteger),
    Column("revoked_unix_ms", BigInteger),
    Column("blocked_unix_ms", BigInteger),
    Column("last_used_unix_ms", BigInteger),
    Column("source", Text, nullable=False),  # minted or litellm
    Index(
        "api_key_name",
        "org",
        "name",
        unique=True,
        sqlite_where=text("revoked_unix_ms IS NULL"),
        postgresql_where=text("revoked_unix_ms IS NULL"),
    ),
)

SECRETS = Table(
    "key_secret",
    METADATA,
    Column("digest", LargeBinary, primary_key=True),
    Column("scheme", Text, nullable=False),  # hmac-sha256 or sha256
    Column("key_id", Text, ForeignKey(KEYS.c.id), nullable=False),
    Column("display", Text, nullable=False),  # what may be shown of it
    Column("created_unix_ms", BigInteger, nullable=False),
    Column("not_after_unix_ms", BigInteger),
    Index("key_secret_key", "key_id"),
)

OPENING_BALANCES = Table(
    "opening_balance",
    METADATA,
    Column("scope", Text, primary_key=True),
    Column("period_start_unix_ms", BigInteger, primary_key=True),
    Column("nano_usd", BigInteger, nullable=False),
    Column("tokens", BigInteger, nullable=False),
)
"""What was spent elsewhere before: counted with the ledger when a budget is rebuilt."""

AUDIT = Table(
    "audit",
    METADATA,
    Column("id", BigInteger().with_variant(Integer, "sqlite"), primary_key=True, autoincrement=True),
    Column("at_unix_ms", BigInteger, nullable=False),
    Column("actor", Text, nullable=False),
    Column("action", Text, nullable=False),
    Column("subject", Text, nullable=False),
    Column("detail", Text, nullable=False),  # JSON
    Index("audit_at", "at_unix_ms"),
    sqlite_autoincrement=True,
)
"""What was changed, and by whom. A trigger refuses to change or delete a row."""
