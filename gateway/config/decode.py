"""A tree of YAML nodes to the structs, led by the structs' own types.

Every problem is noted with its line and the reading goes on, so that one run names them all: a field that cannot be read keeps
its default, an entry that cannot be made is left out.
"""

from collections.abc import Iterator
from typing import Any

import msgspec
import msgspec.inspect as mi
from msgspec import UNSET
from yaml import MappingNode, Node, ScalarNode, SequenceNode

from gateway.config.document import line_of
from gateway.config.kinds import alternatives, broken_bound, expects, scalar, words
from gateway.config.problems import Problem, Where, did_you_mean, render
from gateway.config.references import Sources, UnresolvedError, has_reference, resolve, unshelter

_STANDARD = "tag:yaml.org,2002:"
_NULL_TAG = _STANDARD + "null"
_MERGE_TAG = _STANDARD + "merge"
_TAGS = frozenset(
    _STANDARD + name for name in ("str", "int", "float", "bool", "null", "timestamp", "value", "merge", "map", "seq")
)
"""What YAML guesses of a plain value. It decides nothing here; any other tag was written on purpose."""


class Setting(msgspec.Struct, frozen=True):
    """What a file says at one path: the line, and the value as it was read (UNSET where it could not be)."""

    line: int
    value: Any


class Decoder:
    """Reads nodes as values of a type. `settings` has every path that the file sets, `entries` the names in each mapping of
    names, those of broken entries included, and `problems` what could not be read.
    """

    def __init__(self, sources: Sources) -> None:
        self._sources = sources
        self.settings: dict[Where, Setting] = {}
        self.entries: dict[Where, frozenset[str]] = {}
        self.problems: list[Problem] = []

    def read(self, node: Node, kind: mi.Type, where: Where) -> Any:
        """Return the value, or UNSET after noting why there is none."""
        value = self._read(node, kind, where)
        self.settings[where] = Setting(line_of(node), value)
        return value

    def _read(self, node: Node, kind: mi.Type, where: Where) -> Any:
        if node.tag not in _TAGS:
            return self._refuse(node, where, f"the tag {node.tag} is not read here")
        if isinstance(node, ScalarNode):
            return self._scalar(node, kind, where)
        for one in alternatives(kind):
            if isinstance(node, MappingNode) and isinstance(one, mi.StructType):
                return self._struct(node, one, where)
            if isinstance(node, MappingNode) and isinstance(one, mi.DictType):
                return self._mapping(node, one, where)
            if isinstance(node, SequenceNode) and isinstance(one, mi.VarTupleType):
                return self._list(node, one, where)
        return self._refuse(
            node, where, f"expected {expects(kind)}, got a {'mapping' if isinstance(node, MappingNode) else 'list'}"
        )

    def _refuse(self, node: Node, where: Where, message: str) -> Any:
        self.problems.append(Problem(line_of(node), render(where), message))
        return UNSET

    def _scalar(self, node: ScalarNode, kind: mi.Type, where: Where) -> Any:
        if node.tag == _NULL_TAG:
            nullable = isinstance(kind, mi.UnionType) and any(isinstance(one, mi.NoneType) for one in kind.types)
            return None if nullable else self._refuse(node, where, f"expected {expects(kind)}, got nothing")
        written = unshelter(node.value)
        try:
            text = resolve(written, self._sources)
        except UnresolvedError as error:
            return self._refuse(node, where, str(error))
        for one in alternatives(kind):
            notation = scalar(one)
            if notation is None or (notation.bare and node.style and not has_reference(written)):
                continue
            try:
                value = notation.read(text)
            except ValueError:
                continue
            broken = broken_bound(one, value)
            return value if broken is None else self._refuse(node, where, broken)
        return self._refuse(node, where, _mismatch(kind, node, written))

    def _struct(self, node: MappingNode, kind: mi.StructType, where: Where) -> Any:
        fields = {field.encode_name: field for field in kind.fields}
        values: dict[str, Any] = {}
        seen: set[str] = set()
        for key, child in self._pairs(node, where):
            field = fields.get(key)
            if field is None:
                self._refuse(child, (*where, key), f"unknown field '{key}'{did_you_mean(key, fields)}")
                continue
            seen.add(key)
            value = self.read(child, field.type, (*where, key))
            if value is not UNSET:
                values[field.name] = value
        required = [field for field in kind.fields if field.required]
        for field in required:
            if field.encode_name not in seen:
                self._refuse(node, (*where, field.encode_name), "is missing")
        return kind.cls(**values) if all(field.name in values for field in required) else UNSET

    def _mapping(self, node: MappingNode, kind: mi.DictType, where: Where) -> Any:
        entries: dict[Any, Any] = {}
        notation = scalar(kind.key_type)
        pairs = dict(self._pairs(node, where))
        self.entries[where] = frozenset(pairs)
        for key, child in pairs.items():
            value = self.read(child, kind.value_type, (*where, key))
            try:
                name = notation.read(key) if notation else key
            except ValueError:
                self._refuse(child, (*where, key), f"expected {expects(kind.key_type)}{did_you_mean(key, words(kind.key_type))}")
                continue
            if value is not UNSET:
                entries[name] = value
        return entries

    def _list(self, node: SequenceNode, kind: mi.VarTupleType, where: Where) -> Any:
        if len(node.value) < (kind.min_length or 0):
            return self._refuse(node, where, "must not be empty")
        items = [self.read(child, kind.item_type, (*where, index)) for index, child in enumerate(node.value)]
        return tuple(item for item in items if item is not UNSET)

    def _pairs(self, node: MappingNode, where: Where) -> Iterator[tuple[str, Node]]:
        """Yield the fields of a mapping, each once."""
        lines: dict[str, int] = {}
        for key, child in node.value:
            if not isinstance(key, ScalarNode) or key.tag not in _TAGS:
                self._refuse(key, where, "a field's name must be plain text")
            elif key.tag == _MERGE_TAG:
                self._refuse(key, where, "merge keys are not read here: repeat the fields, or use an alias for the whole mapping")
            elif (name := unshelter(key.value)) in lines:
                self._refuse(key, (*where, name), f"is given twice, first on line {lines[name]}")
            else:
                lines[name] = line_of(key)
                yield name, child


def _mismatch(kind: mi.Type, node: ScalarNode, written: str) -> str:
    """Say what was expected and what came. What a reference brought in is named by the reference, a secret not at all."""
    choice = [word for one in alternatives(kind) for word in words(one)]
    shown = f"the value of {written}" if has_reference(written) else f"{'the text ' if node.style else ''}'{written}'"
    hint = "" if has_reference(written) else did_you_mean(written, choice)
    return f"expected {expects(kind)}, got {shown}{hint}"
