"""The dates of HTTP headers as points in time (RFC 9110, 5.6.7). Pure: what is not a date with a zone is None."""

from datetime import datetime
from email.utils import parsedate_to_datetime


def http_date(value: bytes) -> datetime | None:
    """Return the point in time that a header names; None where it names none."""
    try:
        named = parsedate_to_datetime(value.decode("latin-1"))
    except (ValueError, OverflowError):
        return None
    return named if named.tzinfo is not None else None
