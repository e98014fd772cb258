"""Two configurations compared, field by field: documents made flat, entries of lists by their names where they have one."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import msgspec

from gateway.config.carried import document
from gateway.config.shown import HIDDEN, whole
from gateway.config.structs import Config


class Difference(msgspec.Struct, frozen=True):
    """One field that is not the same; None where one side has no such field."""

    path: str
    old: Any
    new: Any


def changed_paths(old: Config, new: Config) -> tuple[str, ...]:
    """Return the paths of all that is not the same, secrets too."""
    return tuple(each.path for each in differences(document(old), document(new)))


def between(old: Config, new: Config) -> tuple[Difference, ...]:
    """Return all that is not the same, as it may be shown: of a secret, only that it is another."""
    was, will_be = flat(whole(old)), flat(whole(new))
    return tuple(Difference(path, was.get(path), will_be.get(path)) for path in changed_paths(old, new))


def differences(old: Mapping[str, Any], new: Mapping[str, Any]) -> tuple[Difference, ...]:
    """Return what is not the same in two documents, in the order of the newer one, what is gone behind it."""
    was, will_be = flat(old), flat(new)
    paths = dict.fromkeys([*will_be, *was])
    return tuple(Difference(path, was.get(path), will_be.get(path)) for path in paths if was.get(path) != will_be.get(path))


def hides(document: Mapping[str, Any]) -> bool:
    """Return whether something in a document is not shown, so that it cannot be compared."""
    return HIDDEN in flat(document).values()


def flat(document: Mapping[str, Any]) -> dict[str, Any]:
    """Return every leaf of a document by its path."""
    return dict(_leaves(document, ""))


def _leaves(value: Any, path: str) -> Iterator[tuple[str, Any]]:
    if isinstance(value, Mapping) and value:
        for name, each in value.items():
            yield from _leaves(each, f"{path}.{name}" if path else str(name))
    elif isinstance(value, Sequence) and not isinstance(value, str) and value:
        for at, each in enumerate(value):
            yield from _leaves(each, f"{path}[{_name(each, at)}]")
    else:
        yield path, value


def _name(entry: Any, at: int) -> str | int:
    return entry.get("name", at) if isinstance(entry, Mapping) else at
