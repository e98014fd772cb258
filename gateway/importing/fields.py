"""A mapping that is read field by field, so that none is passed over: what nobody asked for is told at the end."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from gateway.config.problems import Where
from gateway.importing.findings import Findings


class Fields:
    """One mapping of the other's file. `where` is its place there."""

    def __init__(self, values: Any, where: Where, findings: Findings) -> None:
        self.where = where
        self._findings = findings
        self._values: dict[str, Any] = {}
        if isinstance(values, Mapping):
            self._values = {str(name): value for name, value in values.items() if value is not None}
        elif values is not None:
            findings.ignored(where, "expected a mapping")
        self._left = dict(self._values)

    def take(self, name: str) -> Any:
        """Return a field's value, None where it is absent or null. Whoever takes it says what became of it."""
        self._left.pop(name, None)
        return self._values.get(name)

    def mapping(self, name: str) -> Mapping[str, Any]:
        """Return a field that is to be a mapping; one that is none is told of, and is empty."""
        value = self.take(name)
        if value is None or isinstance(value, Mapping):
            return value or {}
        self._findings.ignored(self.at(name), "expected a mapping")
        return {}

    def list(self, name: str) -> Sequence[Any]:
        """Return a field that is to be a list; one that is none is told of, and is empty."""
        value = self.take(name)
        if value is None or isinstance(value, list):
            return value or ()
        self._findings.ignored(self.at(name), "expected a list")
        return ()

    def at(self, name: str) -> Where:
        """Return a field's place."""
        return (*self.where, name)

    def exact(self, name: str, into: Where) -> Any:
        """Return a field that is carried as it is."""
        value = self.take(name)
        if value is not None:
            self._findings.exact(self.at(name), into)
        return value

    def approximate(self, name: str, into: Where, note: str) -> Any:
        """Return a field that is carried with a difference."""
        value = self.take(name)
        if value is not None:
            self._findings.approximate(self.at(name), into, note)
        return value

    def ignore(self, name: str, note: str) -> Any:
        """Return a field that goes nowhere."""
        value = self.take(name)
        if value is not None:
            self._findings.ignored(self.at(name), note)
        return value

    def left(self) -> Iterator[str]:
        """Yield the names of the fields that nobody took."""
        yield from tuple(self._left)

    def ignore_rest(self, reasons: Mapping[str, str], otherwise: str) -> None:
        """Say of each field that nobody took why it goes nowhere."""
        for name in self.left():
            self.ignore(name, reasons.get(name, otherwise))
