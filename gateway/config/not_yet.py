"""What the file format names and this release does not have. Asking for it is an error: nothing that a file says is ignored.

Defaults are never refused. One line a feature, so that the release which brings it deletes a line.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import msgspec
from msgspec import UNSET

from gateway.config.parse import Parsed
from gateway.config.problems import Problem, Where


def _only(*values: object) -> Callable[[Any], bool]:
    return lambda value: value in values


def _never(_: object) -> bool:
    return False


class Feature(msgspec.Struct, frozen=True):
    """Something to come: what it is, the paths that ask for it (`*` is any one part), and the values that do not."""

    name: str
    paths: tuple[str, ...]
    allows: Callable[[Any], bool] = _never


NOT_YET = (Feature("several Redis cells", ("redis.cells",), _only(1)),)


def _by_field() -> Mapping[str, list[tuple[list[str], Feature]]]:
    found: dict[str, list[tuple[list[str], Feature]]] = {}
    for feature in NOT_YET:
        for path in feature.paths:
            parts = path.split(".")
            found.setdefault(parts[-1], []).append((parts, feature))
    return found


_BY_FIELD = _by_field()


def check(parsed: Parsed) -> Iterator[Problem]:
    """Yield each setting that asks for what is not there."""
    for where, setting in parsed.settings.items():
        for path, feature in _BY_FIELD.get(str(where[-1]), ()) if where else ():
            if _fits(path, where) and setting.value not in (None, UNSET) and not feature.allows(setting.value):
                yield parsed.problem(where, f"{feature.name}: not in this release")


def _fits(path: Sequence[str], where: Where) -> bool:
    return len(path) == len(where) and all(part in ("*", given) for part, given in zip(path, where, strict=True))
