"""What the programs told, as a table. Pure."""

from collections.abc import Sequence
from typing import NamedTuple


class Outcome(NamedTuple):
    """How one client fared: what ran, which of its scenarios passed, which failed and why, or why it did not run at all."""

    client: str
    version: str = ""
    passed: tuple[str, ...] = ()
    failed: tuple[str, ...] = ()
    took_s: float = 0.0
    absent: str = ""

    @property
    def ok(self) -> bool:
        """Whether nothing failed; what did not run has not failed."""
        return not self.failed

    @property
    def verdict(self) -> str:
        """Return a word or two."""
        if self.absent:
            return f"not run: {self.absent}"
        return "FAIL" if self.failed else "PASS"


def outcome(client: str, said: str, died: str, took_s: float) -> Outcome:
    """Read what a program said; `died` is how it ended, where it did not end well. One that tells of no scenario has failed."""
    told: dict[str, list[str]] = {"VERSION": [""], "PASS": [], "FAIL": []}
    for line in said.splitlines():
        word, _, rest = line.partition(" ")
        told.get(word, []).append(rest)
    version, passed, failed = told["VERSION"][-1], told["PASS"], told["FAIL"]
    if died:
        failed.append(f"the program: {died}")
    elif not (passed or failed):
        failed.append("the program: told of no scenario")
    return Outcome(client, version, tuple(passed), tuple(failed), took_s)


def table(outcomes: Sequence[Outcome]) -> str:
    """Return the table, a line for each client, and below it a line for each failure."""
    width = max(len(one.version) for one in outcomes)
    lines = [f"{'client':16}{'version':{width + 2}}{'pass':>5}{'fail':>5}{'time':>9}  verdict"]
    for one in outcomes:
        counts = f"{len(one.passed):5}{len(one.failed):5}{one.took_s:7.1f} s"
        lines.append(f"{one.client:16}{one.version:{width + 2}}{counts}  {one.verdict}")
    lines.extend(f"FAIL {one.client}: {failure}" for one in outcomes for failure in one.failed)
    return "\n".join(lines)
