"""References of the other's file to its environment, as ours: `os.environ/NAME` is `${NAME}`."""

import re
from collections.abc import Mapping
from typing import Any

_ELSEWHERE = "os.environ/"
_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*", re.ASCII)


class UnwritableError(ValueError):
    """A text that our file cannot say. The message holds nothing of it."""


class References:
    """Texts as our file says them. `given` are variables that the other's file sets itself."""

    def __init__(self, given: Mapping[str, Any]) -> None:
        self._given = {str(name): _plain(value) for name, value in given.items() if isinstance(value, str | int | float)}

    def text(self, value: Any) -> str:
        """Return a text, or our reference to it.

        Raises `UnwritableError`.
        """
        said = _plain(value)
        if said.startswith(_ELSEWHERE):
            return self.variable(said.removeprefix(_ELSEWHERE))
        return _literal(said)

    def variable(self, name: str) -> str:
        """Return our reference to a variable, or what the file itself sets it to.

        Raises `UnwritableError`.
        """
        if name in self._given and not self._given[name].startswith(_ELSEWHERE):
            return _literal(self._given[name])
        if _VARIABLE.fullmatch(name) is None:
            raise UnwritableError("no name of a variable")
        return f"${{{name}}}"


def is_reference(text: str) -> bool:
    """Return whether what a text stands for is known only where the gateway runs."""
    return "${" in text


def _plain(value: Any) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, str | int | float):
        return str(value)
    raise UnwritableError(f"expected text, not a {'list' if isinstance(value, list) else 'mapping'}")


def _literal(text: str) -> str:
    if "${" in text:
        raise UnwritableError("holds ${, which would be a reference here")
    return text
