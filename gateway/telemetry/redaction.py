"""What a log line may not show: values under telling names, and text that looks like a credential wherever it stands.

The second line of defence; the first is that secrets are `Secret` and are never logged. Pure.
"""

import re
from collections.abc import Mapping, Sequence

HIDDEN = "***"

_TELLING_NAME = re.compile(
    r"authorization|cookie|secret|passw(or)?d|pepper|credential|api[-_]?key|(^|[-_])token$|private[-_]?key", re.IGNORECASE
)

_CREDENTIAL = re.compile(
    r"\btg_[a-z0-9]{1,12}_[A-Za-z0-9_]+"
    r"|\b(?:sk|pk|rk|gsk|xai)-[A-Za-z0-9_-]{8,}"
    r"|\bAKIA[0-9A-Z]{16}\b"
    r"|(?<=bearer )[^\s\"',]+"
    r"|(?<=://)[^\s/@\"']+(?=@)",
    re.IGNORECASE,
)


def redacted(value: object, name: str = "") -> object:
    """Return `value` without secrets; `name` is what it is called where it stands."""
    if name and value is not None and _TELLING_NAME.search(name):
        return HIDDEN
    if isinstance(value, bytes):
        value = value.decode("utf-8", "replace")
    if isinstance(value, str):
        return _CREDENTIAL.sub(HIDDEN, value)
    if isinstance(value, Mapping):
        return {key: redacted(each, str(key)) for key, each in value.items()}
    if isinstance(value, Sequence):
        return [redacted(each) for each in value]
    return value
