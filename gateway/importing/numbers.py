"""Numbers of the other's file, and durations as ours writes them. Seconds."""

from typing import Any

from gateway.importing.accounts import NotImportableError
from gateway.importing.fields import Fields

_DAY_S = 86_400


def number(fields: Fields, name: str) -> float | None:
    """Return a field that is to be a number of at least 0.

    Raises `NotImportableError`: a bound that cannot be read bounds nothing.
    """
    value = fields.take(name)
    if value is None:
        return None
    return read(value, name)


def read(value: Any, name: str) -> float:
    """Return a number of at least 0. Raises `NotImportableError`."""
    try:
        found = float(value)
    except (TypeError, ValueError):
        raise NotImportableError(f"its {name} is no number here") from None
    if not 0 <= found < 1e15:
        raise NotImportableError(f"its {name} is out of range")
    return found


def count(fields: Fields, name: str) -> int | None:
    """Return a field that is to be a whole number of at least 1; none lets nothing through, so an entry with 0 is none.

    Raises `NotImportableError`.
    """
    found = number(fields, name)
    if found is None:
        return None
    if found < 1:
        raise NotImportableError(f"its {name} is 0, which lets nothing through")
    return int(found)


def duration(seconds: float) -> str:
    """Return a duration as our file writes it."""
    if seconds != int(seconds):
        return f"{max(1, round(seconds * 1000))}ms"
    for unit, length_s in (("d", _DAY_S), ("h", 3600), ("m", 60)):
        if seconds and seconds % length_s == 0:
            return f"{int(seconds // length_s)}{unit}"
    return f"{int(seconds)}s"
