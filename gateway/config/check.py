"""Everything that can be said about a file without sending anything: what forbids to use it, and what deserves a look."""

from collections.abc import Sequence

import msgspec

from gateway.config import budgets, capabilities, naming, not_yet, priced, sanity, secrecy
from gateway.config.parse import Parsed
from gateway.config.problems import Problem


class Findings(msgspec.Struct, frozen=True):
    """Errors, what could not be read included, and warnings."""

    errors: Sequence[Problem]
    warnings: Sequence[Problem]


def check(parsed: Parsed) -> Findings:
    """Return all errors at once; warnings only of a file without errors, since they would be about half a file."""
    errors = [*parsed.problems]
    for room in (naming, sanity, capabilities, priced, budgets, secrecy, not_yet):
        errors.extend(room.check(parsed))
    warnings = [] if errors else [*naming.warn(parsed), *sanity.warn(parsed), *priced.warn(parsed)]
    return Findings(sorted(errors), sorted(warnings))
