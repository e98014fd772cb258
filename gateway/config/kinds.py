"""How each type of the structs reads one scalar of the file.

The field's type decides, never YAML's own guess: `no` is a word where a word is wanted, and a quoted `"10"` is no number.
"""

import datetime
import math
import re
from collections.abc import Callable
from typing import Any

import msgspec.inspect as mi

from gateway.config.scalars import Scalar
from gateway.policy.catalogue import Secret


def _boolean(text: str) -> bool:
    if text not in ("true", "false"):
        raise ValueError(text)
    return text == "true"


def _integer(text: str) -> int:
    if re.fullmatch(r"-?(0|[1-9][0-9_]*)", text, re.ASCII) is None:
        raise ValueError(text)
    return int(text)


def _number(text: str) -> float:
    value = float(text)
    if not math.isfinite(value):
        raise ValueError(text)
    return value


BOOLEAN = Scalar(expects="true or false", pattern="true|false", read=_boolean, bare=True)
INTEGER = Scalar(expects="a whole number", pattern=r"-?\d+", read=_integer, bare=True)
NUMBER = Scalar(expects="a number", pattern=r"-?\d+(\.\d+)?", read=_number, bare=True)
TEXT = Scalar(expects="text", pattern=".*", read=str)
SECRET = Scalar(expects="text", pattern=".*", read=Secret)
DATE = Scalar(expects="a date such as 2027-01-01", pattern=r"\d{4}-\d{2}-\d{2}", read=datetime.date.fromisoformat)


_PLAIN: dict[type, Scalar] = {
    mi.BoolType: BOOLEAN,
    mi.IntType: INTEGER,
    mi.FloatType: NUMBER,
    mi.StrType: TEXT,
    mi.DateType: DATE,
    Secret: SECRET,
}


def alternatives(kind: mi.Type) -> tuple[mi.Type, ...]:
    """Return the types that a type is made of, without null."""
    types = kind.types if isinstance(kind, mi.UnionType) else (kind,)
    return tuple(one for one in types if not isinstance(one, mi.NoneType))


def words(kind: mi.Type) -> tuple[str, ...]:
    """Return the closed set of words that a type takes; empty for any other type."""
    if isinstance(kind, mi.EnumType):
        return tuple(str(member.value) for member in kind.cls)
    if isinstance(kind, mi.Metadata):
        known: tuple[str, ...] = (kind.extra or {}).get("words", ())
        return known
    return tuple(str(value) for value in kind.values) if isinstance(kind, mi.LiteralType) else ()


def scalar(kind: mi.Type) -> Scalar | None:
    """Return how a type reads a scalar, or None for one that takes a mapping or a list."""
    if choice := words(kind):
        return _choice(choice, kind.cls if isinstance(kind, mi.EnumType) else str)
    if isinstance(kind, mi.Metadata):
        found: Scalar | None = (kind.extra or {}).get("scalar")
        return found or scalar(kind.type)
    return _PLAIN.get(kind.cls if isinstance(kind, mi.CustomType) else type(kind))


def _choice(choice: tuple[str, ...], make: Callable[[str], Any]) -> Scalar:
    expects = choice[0] if len(choice) == 1 else f"one of {', '.join(choice)}"
    return Scalar(expects=expects, pattern="|".join(choice), read=lambda text: make(choice[choice.index(text)]))


def expects(kind: mi.Type) -> str:
    """Return what a type wants, in words."""
    return " or ".join(dict.fromkeys(_expects_one(one) for one in alternatives(kind)))


def _expects_one(kind: mi.Type) -> str:
    if found := scalar(kind):
        return found.expects
    return "a list" if isinstance(kind, mi.VarTupleType) else "a mapping"


def broken_bound(kind: mi.Type, value: Any) -> str | None:
    """Return the bound of its type that a value breaks, in words, or None."""
    if isinstance(kind, mi.Metadata):
        return broken_bound(kind.type, value)
    if isinstance(kind, mi.StrType):
        return "must not be empty" if len(value) < (kind.min_length or 0) else None
    if not isinstance(kind, mi.IntType | mi.FloatType):
        return None
    if kind.gt is not None and value <= kind.gt:
        return f"must be more than {kind.gt}"
    if kind.ge is not None and value < kind.ge:
        return f"must be at least {kind.ge}"
    return f"must be at most {kind.le}" if kind.le is not None and value > kind.le else None
