"""What a log line may not show: values under telling names, and text that looks like a credential wherever it stands.

The second line of defence; the first is that secrets are `Secret` and are never logged. Pure.
"""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence

HIDDEN = "***"

_TELLING = r"authorization|cookie|secret|passw(?:or)?d|pepper|credential|api[-_]?key|private[-_]?key"

_TELLING_NAME = re.compile(rf"{_TELLING}|(^|[-_])token$", re.IGNORECASE)

_CREDENTIAL = re.compile(
    r"\btg_[a-z0-9]{1,12}_[A-Za-z0-9_]+"
    r"|\b(?:sk|pk|rk|gsk|xai|nvapi|pplx|glpat)-[A-Za-z0-9_-]{8,}"
    r"|\b(?:hf|gh[oprsu]|github_pat|sk_live|sk_test)_[A-Za-z0-9_]{16,}"
    r"|\bAKIA[0-9A-Z]{16}\b"
    r"|\bAIza[A-Za-z0-9_-]{35}"
    r"|\bxox[abprs]-[A-Za-z0-9-]{10,}"
    r"|\beyJ[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]*"
    r"|(?<=bearer )[^\s\"',]+"
    r"|(?<=://)[^\s/@\"']+(?=@)",
    re.IGNORECASE,
)

# Bodies are anybody's: every repetition before what is hidden is bounded, so that no text takes long.
_IN_A_BODY = re.compile(
    rf"""(?isx)
    (?P<quote>\\{{0,8}}")                                                     # a member of JSON, within strings too
        (?:[\w.-]{{0,64}}(?:{_TELLING})[\w.-]{{0,64}} | (?:[\w.-]{{0,64}}[-_])?token)
    (?P=quote)\s{{0,8}}:\s{{0,8}}(?P=quote)
        (?P<member>.*?) (?:(?<!\\)(?P=quote) | \Z)
    | (?:{_TELLING}|\btoken|_token)=(?P<variable>[^\s"'&\\]+)              # a variable, or a part of a query
    | (?P<pem>-----BEGIN\ [A-Z\ ]{{0,32}}PRIVATE\ KEY-----.*?(?:-----END\ [A-Z\ ]{{0,32}}PRIVATE\ KEY----- | \Z))
    """
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


def excerpt(text: str, length: int, values: Iterable[str]) -> str:
    """Return the beginning of a body without secrets, and without these values, whatever they look like.

    What begins within `length` characters is found where it ends behind them too: no half of a secret is left.
    """
    pieces, at = [], 0
    for start, end in sorted((*_marked(text), *_standing(text, values))):
        if start >= length:
            break
        if end > at:
            pieces += [text[at:start], HIDDEN] if start >= at else []
            at = end
    return "".join([*pieces, text[at:length]])


def _marked(text: str) -> Iterator[tuple[int, int]]:
    """Yield where something stands that is secret by its look or by its name."""
    for found in _CREDENTIAL.finditer(text):
        yield found.span()
    for found in _IN_A_BODY.finditer(text):
        yield found.span(found.lastgroup or 0)


def _standing(text: str, values: Iterable[str]) -> Iterator[tuple[int, int]]:
    for value in filter(None, values):
        start = text.find(value)
        while start >= 0:
            yield start, start + len(value)
            start = text.find(value, start + len(value))
