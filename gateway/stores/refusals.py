"""What a database says of rows that it will never take. Everything else that one says is about itself, and passes."""

from collections.abc import Iterator
from contextlib import contextmanager

import asyncpg
from sqlalchemy.exc import DataError, DBAPIError, IntegrityError

DATA_EXCEPTION, INTEGRITY_VIOLATION = "22", "23"
"""The classes of Postgres' error codes that are about the rows."""


class UnstorableError(Exception):
    """Something that no database of this release will ever take."""


@contextmanager
def refusals() -> Iterator[None]:
    """Raise UnstorableError instead of what a database or its driver says about rows."""
    try:
        yield
    except (DataError, IntegrityError, OverflowError) as error:
        raise UnstorableError(f"the database refuses it ({type(error).__name__})") from error
    except DBAPIError as error:
        cause = _about_rows(error)
        if cause is None:
            raise
        raise UnstorableError(f"the database refuses it ({type(cause).__name__})") from error


@contextmanager
def driven() -> Iterator[None]:
    """Raise what SQLAlchemy would where the driver itself is called."""
    try:
        yield
    except (asyncpg.PostgresError, asyncpg.InterfaceError) as error:
        raise DBAPIError("", None, error) from error


def _about_rows(error: DBAPIError) -> BaseException | None:
    """Return what Postgres, or its driver, says of the rows; None where it is about something else."""
    for cause in (error.orig, getattr(error.orig, "__cause__", None)):
        if isinstance(cause, asyncpg.PostgresError):
            return cause if (cause.sqlstate or "")[:2] in (DATA_EXCEPTION, INTEGRITY_VIOLATION) else None
        # The driver takes a value that does not fit its column's type for a wrong argument.
        if isinstance(cause, asyncpg.InterfaceError) and isinstance(cause, ValueError):
            return cause
    return None
