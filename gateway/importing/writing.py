"""A configuration as a person would write it: sections apart, short mappings on one line, and remarks where they belong."""

import re
from collections.abc import Iterator, Mapping, Sequence
from decimal import Decimal
from typing import Any

import msgspec
from yaml import SafeLoader

from gateway.config.problems import Where

WIDTH = 120
_PLAIN = re.compile(r"[A-Za-z0-9_./][A-Za-z0-9_.@+/ -]*(:[A-Za-z0-9_.@+/-]+)*", re.ASCII)
_UNPRINTABLE = re.compile("[\x7f-\x9f\u2028\u2029\ufeff\ufffe\uffff]")
"""What JSON leaves in a text as it is, and YAML refuses or takes for a line's end."""
_REFERENCE = re.compile(r"\$\{[A-Za-z_][A-Za-z0-9_]*\}", re.ASCII)
_SPACED = frozenset({("providers",), ("models",)})
"""Sections whose entries stand apart from each other."""


def write(document: Mapping[str, Any], remarks: Mapping[Where, Sequence[str]], head: Sequence[str]) -> str:
    """Return the file's text. `remarks` are of places in it; one of a place on a line with others stands above that line."""
    page = _Page(remarks)
    lines = [f"# {line}".rstrip() for line in head]
    for name, section in document.items():
        lines.extend(("", *page.member((name,), name, section, 0)))
    return "\n".join(lines) + "\n"


class _Page:
    def __init__(self, remarks: Mapping[Where, Sequence[str]]) -> None:
        self._remarks = remarks

    def member(self, where: Where, name: str, value: Any, depth: int) -> Iterator[str]:
        """Yield one field of a mapping and all that it holds."""
        indent, key = "  " * depth, _key(name)
        short = f"{indent}{key}: {_flow(value)}"
        if (where not in _SPACED or not value) and _is_short(value) and len(short) <= WIDTH:
            yield from self._above(where, indent, whole=True)
            yield short if not isinstance(value, str) else f"{indent}{key}: {_alone(value)}"
            return
        yield from self._above(where, indent, whole=False)
        yield f"{indent}{key}:"
        if isinstance(value, Mapping):
            for place, (inner, held) in enumerate(value.items()):
                if where in _SPACED and place:
                    yield ""
                yield from self.member((*where, inner), str(inner), held, depth + 1)
        else:
            for place, held in enumerate(value):
                yield from self._item((*where, place), held, depth + 1)

    def _item(self, where: Where, value: Any, depth: int) -> Iterator[str]:
        indent = "  " * depth
        short = f"{indent}- {_flow(value)}"
        yield from self._above(where, indent, whole=True)
        if len(short) <= WIDTH or not isinstance(value, Mapping):
            yield short
            return
        for place, (name, held) in enumerate(value.items()):
            begin = f"{indent}{'- ' if place == 0 else '  '}"
            yield f"{begin}{_key(name)}: {_alone(held) if isinstance(held, str) else _flow(held)}"

    def _above(self, where: Where, indent: str, *, whole: bool) -> Iterator[str]:
        """Yield the remarks of a place, and where it is written on one line, of all that is in it."""
        found = [
            remark
            for place, remarks in self._remarks.items()
            if place == where or (whole and place[: len(where)] == where)
            for remark in remarks
        ]
        for remark in dict.fromkeys(found):
            yield f"{indent}# {remark}"


def _is_short(value: Any) -> bool:
    if isinstance(value, Mapping):
        return bool(value) is False or not any(isinstance(held, Mapping | list) and _deep(held) for held in value.values())
    return not isinstance(value, list) or not any(isinstance(held, Mapping) for held in value)


def _deep(value: Any) -> bool:
    held = value.values() if isinstance(value, Mapping) else value
    return any(isinstance(each, Mapping | list) for each in held)


def _flow(value: Any) -> str:
    if isinstance(value, Mapping):
        return "{" + ", ".join(f"{_key(str(name))}: {_flow(held)}" for name, held in value.items()) + "}"
    if isinstance(value, list | tuple):
        return "[" + ", ".join(map(_flow, value)) + "]"
    return _scalar(value)


def _key(name: str) -> str:
    """Return a field's name; `on` is one, whatever YAML guesses."""
    return name if name == "on" else _scalar(name)


def _alone(text: str) -> str:
    """Return a text that has its line to itself, where a reference needs no quotes."""
    return text if _REFERENCE.fullmatch(text) else _scalar(text)


def _scalar(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int | float | Decimal):
        return f"{value:f}" if isinstance(value, Decimal) else str(value)
    text = str(value)
    if _PLAIN.fullmatch(text) and text == text.strip() and _is_text(text):
        return text
    return _UNPRINTABLE.sub(lambda found: f"\\u{ord(found[0]):04x}", msgspec.json.encode(text).decode())


def _is_text(text: str) -> bool:
    """Return whether YAML reads a plain word as text, and not as a number, a date or a truth."""
    resolvers = SafeLoader.yaml_implicit_resolvers.get(text[0], [])
    return not any(pattern.match(text) for _, pattern in resolvers)
