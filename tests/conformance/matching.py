"""How the rows say what they expect: values to compare with, objects as subsets, and matchers for the rest.

Objects are subsets, arrays have equal length, numbers compare by value (true is no number), header names ignore case. What does
not fit is told, one line a difference, with the place where it stands.
"""

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any


def is_number(value: Any) -> bool:
    """Return whether a JSON value is a number."""
    return isinstance(value, int | float) and not isinstance(value, bool)


TYPES: Mapping[str, Callable[[Any], bool]] = {
    "string": lambda value: isinstance(value, str),
    "integer": lambda value: isinstance(value, int) and not isinstance(value, bool),
    "number": is_number,
    "boolean": lambda value: isinstance(value, bool),
    "object": lambda value: isinstance(value, dict),
    "array": lambda value: isinstance(value, list),
    "null": lambda value: value is None,
}

LONGEST_SHOWN = 160


def differences(expected: Any, given: Any, where: str) -> Iterator[str]:
    """Yield where `given` is not as `expected`."""
    name = matcher(expected)
    if name is not None:
        if not MATCHERS[name](expected[name], given):
            yield f"{where}: {shown(given)} is not {shown(expected)}"
    elif isinstance(expected, dict):
        yield from _object_differences(expected, given, where)
    elif isinstance(expected, list):
        yield from _array_differences(expected, given, where)
    elif not same(expected, given):
        yield f"{where}: {shown(given)} is not {shown(expected)}"


def matches(expected: Any, given: Any) -> bool:
    """Return whether nothing differs."""
    return next(differences(expected, given, ""), None) is None


def header_differences(expected: Mapping[str, Any], given: Sequence[tuple[str, str]], where: str) -> Iterator[str]:
    """Yield where headers are not as expected; the values of one that came several times are joined as one list."""
    found: dict[str, str] = {}
    for name, value in given:
        lower = name.lower()
        found[lower] = f"{found[lower]}, {value}" if lower in found else value
    yield from differences({name.lower(): value for name, value in expected.items()}, found, where)


def matcher(expected: Any) -> str | None:
    """Return the matcher's name if `expected` is one. Raises `ValueError` for one that nobody knows."""
    if not isinstance(expected, dict) or not any(name.startswith("$") for name in expected):
        return None
    name, *others = expected
    if others or name not in MATCHERS:
        raise ValueError(f"no matcher: {shown(expected)}")
    return str(name)


def same(expected: Any, given: Any) -> bool:
    """Return whether two values are deeply equal; numbers by value, and true is no number."""
    if isinstance(expected, dict):
        return (
            isinstance(given, dict)
            and expected.keys() == given.keys()
            and all(same(value, given[name]) for name, value in expected.items())
        )
    if isinstance(expected, list):
        return isinstance(given, list) and len(expected) == len(given) and all(map(same, expected, given))
    if is_number(expected):
        return is_number(given) and bool(expected == given)
    return type(expected) is type(given) and bool(expected == given)


def shown(value: Any) -> str:
    """Return a value as a line has room for it."""
    text = repr(value)
    return text if len(text) <= LONGEST_SHOWN else f"{text[:LONGEST_SHOWN]}..."


def _object_differences(expected: Mapping[str, Any], given: Any, where: str) -> Iterator[str]:
    if not isinstance(given, dict):
        yield f"{where}: {shown(given)} is no object"
        return
    for name, value in expected.items():
        place = f"{where}.{name}"
        if name in given:
            yield from differences(value, given[name], place)
        elif matcher(value) != "$absent_or":
            yield f"{place} is missing"


def _array_differences(expected: Sequence[Any], given: Any, where: str) -> Iterator[str]:
    if not isinstance(given, list) or len(given) != len(expected):
        yield f"{where}: {shown(given)} is no array of {len(expected)}"
        return
    for place, (value, found) in enumerate(zip(expected, given, strict=True)):
        yield from differences(value, found, f"{where}[{place}]")


def _is_any(names: str | list[str], given: Any) -> bool:
    return any(TYPES[name](given) for name in ([names] if isinstance(names, str) else names))


def _is_one_of(values: list[Any], given: Any) -> bool:
    return any(same(value, given) for value in values)


def _holds(expected: list[Any], given: Any) -> bool:
    """Return whether each of these fits an item of its own."""
    if not isinstance(given, list):
        return False
    if not expected:
        return True
    first, *others = expected
    return any(matches(first, item) and _holds(others, given[:place] + given[place + 1 :]) for place, item in enumerate(given))


MATCHERS: Mapping[str, Callable[[Any, Any], bool]] = {
    "$any": _is_any,
    "$re": lambda pattern, given: isinstance(given, str) and re.search(pattern, given) is not None,
    "$near": lambda pair, given: is_number(given) and abs(given - pair[0]) <= pair[1],
    "$between": lambda pair, given: is_number(given) and pair[0] <= given <= pair[1],
    "$in": _is_one_of,
    "$absent_or": _is_one_of,
    "$eq": same,
    "$has": _holds,
    "$set": lambda expected, given: isinstance(given, list) and len(given) == len(expected) and _holds(expected, given),
}
