"""How a database comes to have this release's tables: one revision after the other, all in the caller's transaction.

A revision is a file in `versions`, written for both databases and never changed once released. It names its own tables, since
`gateway.stores.schema` moves on; its number is in the file's name. Loaded only where there is something to do.
"""

from pathlib import Path

from alembic.config import Config
from alembic.runtime.environment import EnvironmentContext
from alembic.runtime.migration import MigrationContext, MigrationStep, RevisionStep
from alembic.script import ScriptDirectory
from sqlalchemy import Connection


def revisions() -> ScriptDirectory:
    """Return the revisions that this release has."""
    return ScriptDirectory(str(Path(__file__).parent))


def run(connection: Connection, newest: str = "head") -> None:
    """Run what the database has not seen, up to `newest`. The caller holds its transaction and its lock."""
    script = revisions()

    def pending(found: tuple[str, ...], _context: MigrationContext) -> list[RevisionStep]:
        missing = list(script.iterate_revisions(newest, found))
        return [MigrationStep.upgrade_from_script(script.revision_map, revision) for revision in reversed(missing)]

    with EnvironmentContext(Config(), script, fn=pending) as environment:
        # SQLite cannot change a column: a table is made anew beside the old one, and takes its rows and name.
        environment.configure(connection=connection, render_as_batch=connection.dialect.name == "sqlite")
        environment.run_migrations()
