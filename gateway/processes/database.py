"""Whether a gateway may start on its database: asked once, before there is a worker that would fail on it again and again."""

import structlog
from sqlalchemy.exc import SQLAlchemyError

from gateway.embedded.child import Unavailable
from gateway.stores import versions
from gateway.stores.engine import Database

log = structlog.get_logger("gateway.supervisor")


async def admit(url: str) -> None:
    """Raise Unavailable where the database has other tables than this release needs.

    One that cannot be reached now is no reason: requests are served by what the configuration and Valkey know.
    """
    try:
        await versions.admit(Database(url))
    except versions.SchemaVersionError as error:
        raise Unavailable(str(error)) from None
    except (SQLAlchemyError, OSError) as error:
        log.warning("database_unreachable", error=type(error).__name__)
