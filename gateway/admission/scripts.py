"""The admission scripts as the store gets them: parts put together, constants put in their places.

A store runs all of a script's text at every call. What a script needs seldom stands in a function that makes it when it is asked
for, and constants, which the parts give names to, cost nothing.
"""

import re
from collections.abc import Callable, Mapping
from hashlib import sha1
from importlib.resources import files

CONSTANTS = re.compile(r"^local ([A-Z][A-Z_]*(?:, [A-Z][A-Z_]*)*) = ((?:-?\d+|'[^']*')(?:, (?:-?\d+|'[^']*'))*)\n", re.MULTILINE)
WORD = re.compile(r"'[^']*'|\b[A-Z][A-Z_]*\b")
"""A name in capitals; a string is none, whatever is in it."""

COMMENT = re.compile(r"^ *--.*\n| +--.*$", re.MULTILINE)

SELDOM = "open_growth = function()\n%s\nend\nopen_room = function()\n%s\nend\n"

PARTS: Mapping[str, tuple[str, str, str]] = {
    "acquire": ("core rows", "ends claims upstreams queue", "serve"),
    "confirm": ("core rows", "ends claims upstreams queue", "serve"),
    "switch": ("core ends rows", "claims upstreams queue", "serve"),
    "settle": ("core ends learning", "rows claims upstreams queue", ""),
    "progress": ("core ends", "rows claims upstreams queue", ""),
    "adopt": ("core ends rows", "claims upstreams queue", ""),
    "report": ("core", "ends rows claims upstreams queue", ""),
    "order": ("core rows upstreams", "", ""),
    "tick": ("core", "ends rows claims upstreams queue", ""),
    "seed": ("core", "", ""),
    "levels": ("core rows", "", ""),
}
"""By script: the parts that it always needs, those that it needs seldom, and those that may ask for both."""


def read_part(name: str) -> str:
    """Return the text of a part, or of a script's own."""
    return (files("gateway.admission") / f"{name}.lua").read_text("utf-8")


class Script:
    """One script: its name, its text, and the digest by which a store that has seen it knows it."""

    def __init__(self, name: str, read: Callable[[str], str] = read_part) -> None:
        self.name = name
        always, seldom, above = ("".join(map(read, parts.split())) for parts in PARTS[name])
        self.text = inlined(always + SELDOM % (read("growth"), seldom) + above + read(name))
        self.digest = sha1(self.text.encode(), usedforsecurity=False).hexdigest()


def inlined(text: str) -> str:
    """Return a script's text without comments, each named constant replaced by what it is.

    Raises ValueError where one name stands for two things.
    """
    text = COMMENT.sub("", text)
    values: dict[str, str] = {}
    for names, literals in CONSTANTS.findall(text):
        for name, literal in zip(names.split(", "), literals.split(", "), strict=True):
            if values.setdefault(name, literal) != literal:
                raise ValueError(f"{name} is {values[name]} and {literal}")
    return WORD.sub(lambda found: values.get(found[0], found[0]), CONSTANTS.sub("", text))
