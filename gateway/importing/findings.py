"""What an import made of each field that it met: carried as it is, carried with a difference that is told, or not, and why."""

from collections import Counter
from collections.abc import Sequence
from typing import Literal

import msgspec

from gateway.config.problems import Where, render

Kind = Literal["exact", "approximate", "ignored"]
KINDS: tuple[Kind, ...] = ("exact", "approximate", "ignored")


class Finding(msgspec.Struct, frozen=True):
    """What became of one field. `into` is where it went, `note` what is different or why it went nowhere. Never a secret."""

    kind: Kind
    where: str
    into: str
    note: str


class Findings:
    """All of them, in the order in which they were met, and those that are remarks on what was written."""

    def __init__(self) -> None:
        self._met: dict[str, Finding] = {}
        self.remarks: dict[Where, list[str]] = {}

    def exact(self, where: Where, into: Where) -> None:
        """Note a field that means here what it meant there."""
        self._note("exact", where, into, "")

    def approximate(self, where: Where, into: Where, note: str) -> None:
        """Note a field that means something near, and say so beside what is written of it."""
        self._note("approximate", where, into, note)
        if into:
            remarks = self.remarks.setdefault(into, [])
            if note not in remarks:
                remarks.append(note)

    def ignored(self, where: Where, note: str) -> None:
        """Note a field that goes nowhere."""
        self._note("ignored", where, (), note)

    def left_out(self, where: Where, note: str) -> None:
        """Note a part that goes nowhere as a whole, whatever was said of what is in it."""
        path = render(where)
        self._met = {name: found for name, found in self._met.items() if not name.startswith((f"{path}.", f"{path}["))}
        self.ignored(where, note)

    def _note(self, kind: Kind, where: Where, into: Where, note: str) -> None:
        """Keep the least of what is said of one field: what is lost in one place is not carried."""
        finding = Finding(kind, render(where), render(into), note)
        before = self._met.get(finding.where)
        if before is None or KINDS.index(kind) >= KINDS.index(before.kind):
            self._met[finding.where] = finding

    def all(self) -> Sequence[Finding]:
        """Return them in the order in which they were met."""
        return tuple(self._met.values())

    def counts(self) -> dict[str, int]:
        """Return how many there are of each kind."""
        counted = Counter(finding.kind for finding in self._met.values())
        return {kind: counted[kind] for kind in KINDS}
