"""So that two admins do not overwrite each other: what was last changed when, as an ETag, and a change only of what was seen."""

import re

from gateway.errors import InvalidRequest
from gateway.web.gate import Asked

_ONE_TAG = re.compile(r'"(\d{1,16})"', re.ASCII)

ABSENT = 0
"""When something was changed last that is not there."""


def etag(updated_unix_ms: int | None) -> dict[str, str]:
    """Return the header that names a state; the file's own has none, since nobody changes it here."""
    return {} if updated_unix_ms is None else {"etag": f'"{updated_unix_ms}"'}


def expected_unix_ms(request: Asked) -> int | None:
    """Return when the sender of a change saw it changed last: never where it was not to be there, None where nothing is said.

    Raises InvalidRequest.
    """
    match, none_match = request.headers.get("if-match"), request.headers.get("if-none-match")
    if match is None and none_match is None:
        return None
    if match is None and (none_match or "").strip() == "*":
        return ABSENT
    found = None if match is None or none_match is not None else _ONE_TAG.fullmatch(match.strip())
    if found is None:
        raise InvalidRequest("A change takes If-Match with one ETag as it was told, or If-None-Match with *")
    return int(found[1])
