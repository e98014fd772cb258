"""Whether a gateway may start on its database: asked once, before there is a worker that would fail on it again and again."""

from pathlib import Path

import structlog
from sqlalchemy.exc import SQLAlchemyError

from gateway.config import Config, ConfigErrors
from gateway.config.problems import Problem
from gateway.config.tenants import Definitions
from gateway.embedded.child import Unavailable
from gateway.policy.tenancy import Tenants
from gateway.stores import versions
from gateway.stores.database import Reader
from gateway.stores.engine import Database
from gateway.stores.tenancy import declared

log = structlog.get_logger("gateway.supervisor")


async def admit(config: Config, path: Path) -> None:
    """Raise Unavailable where the database has other tables than this release needs, ConfigErrors where both name one thing.

    One that cannot be reached now is no reason: requests are served by what the configuration and Valkey know.
    """
    database = Database(config.database.url.reveal())
    try:
        await versions.admit(database)
        tenants = await names_in(database)
    except versions.SchemaVersionError as error:
        raise Unavailable(str(error)) from None
    except (SQLAlchemyError, OSError) as error:
        log.warning("database_unreachable", error=type(error).__name__)
        return
    if clashes := Definitions(config).clashes(tenants):
        told = "is in the database too, and nobody could tell which holds: rename it here, or delete it there"
        raise ConfigErrors(str(path), [Problem(0, clash, told) for clash in clashes])


async def names_in(database: Database) -> Tenants:
    """Return what the database declares; a SQLite file that is still to be made, or brought along, declares nothing."""
    if database.file is not None and await versions.current(database) != versions.NEWEST:
        return Tenants()
    reader = Reader(database.url.render_as_string(hide_password=False))
    try:
        return await declared(reader.fetch)
    finally:
        await reader.close()
