"""The other's file as values: YAML, with the files that it includes."""

from pathlib import Path
from typing import Any

import msgspec
from yaml import MarkedYAMLError, YAMLError, safe_load


class SourceError(Exception):
    """A file that cannot be read as a configuration. The message names it."""


class Source(msgspec.Struct, frozen=True):
    """What a file says, its inclusions resolved, and the names of the files that were included."""

    values: dict[str, Any]
    included: tuple[str, ...]


def read(path: Path) -> Source:
    """Return what a file and its inclusions say: lists of both follow each other, of all else an inclusion's word holds.

    Raises `SourceError`.
    """
    values = _mapping(path)
    included = values.pop("include", None) or []
    if not isinstance(included, list):
        raise SourceError(f"{path}: include: expected a list of files")
    for name in included:
        for key, value in _mapping(path.parent / str(name)).items():
            if isinstance(value, list) and isinstance(values.get(key), list):
                values[key] = [*values[key], *value]
            else:
                values[key] = value
    return Source(values, tuple(map(str, included)))


def _mapping(path: Path) -> dict[str, Any]:
    try:
        found = safe_load(path.read_bytes())
    except OSError as error:
        raise SourceError(f"{path}: cannot be read: {error.strerror or type(error).__name__}") from error
    except MarkedYAMLError as error:
        line = f":{error.problem_mark.line + 1}" if error.problem_mark else ""
        raise SourceError(f"{path}{line}: this is not valid YAML: {error.problem}") from None
    except (YAMLError, RecursionError, ValueError):
        raise SourceError(f"{path}: this is not valid YAML") from None
    if not isinstance(found, dict):
        raise SourceError(f"{path}: expected a mapping of sections")
    return {str(key): value for key, value in found.items()}
