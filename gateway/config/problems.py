"""What is wrong with a configuration, and where: a line of the file and a path of fields."""

from collections.abc import Iterable
from difflib import get_close_matches

import msgspec

Where = tuple[str | int, ...]
"""A path into the file: field names, names that the operator gave, and indices of lists."""


def render(where: Where) -> str:
    """Return `where` as people write it, such as `models.small.deployments[0].provider`."""
    path = ""
    for part in where:
        path += f"[{part}]" if isinstance(part, int) else f".{part}" if path else part
    return path


def did_you_mean(word: str, known: Iterable[str]) -> str:
    """Return ` (did you mean 'x'?)` for the nearest known word, or nothing."""
    close = get_close_matches(word, list(known), n=1)
    return f" (did you mean '{close[0]}'?)" if close else ""


class Problem(msgspec.Struct, frozen=True, order=True):
    """One thing to mend. `line` 0 is the file as a whole.

    `message` never holds a secret, nor a value that came from the environment or a file.
    """

    line: int
    where: str
    message: str

    def describe(self, file: str) -> str:
        """Return the one line that an operator reads."""
        return ": ".join(part for part in (f"{file}:{self.line}" if self.line else file, self.where, self.message) if part)


class ConfigErrors(Exception):  # noqa: N818  # it carries all of them
    """A configuration that cannot be used: every problem at once, in the order of the file."""

    def __init__(self, file: str, problems: Iterable[Problem]) -> None:
        self.lines = tuple(problem.describe(file) for problem in sorted(set(problems)))
        super().__init__("\n".join(self.lines))
