"""The scalars that a configuration file writes in a notation of its own: durations, sizes, dates, networks, names.

Each is a type for the structs (`Duration` is a float of seconds) that carries its `Scalar`: how to read it, how to write it, and
what to call it in an error.
"""

import datetime
import re
from collections.abc import Callable
from decimal import Decimal
from ipaddress import ip_network
from typing import Annotated, Any

import msgspec


class Scalar(msgspec.Struct, frozen=True, kw_only=True):
    """One notation. `read` raises ValueError; `write` gives back what `read` takes; `pattern` is for the JSON Schema.

    One that is `bare` may not be quoted.
    """

    expects: str
    pattern: str
    read: Callable[[str], Any]
    write: Callable[[Any], str] = str
    bare: bool = False


_SECONDS = {"ms": 0.001, "s": 1, "m": 60, "h": 3600, "d": 86_400}
_DURATION = r"(\d+(?:\.\d+)?)(ms|s|m|h|d)"
_BYTES = {"B": 1, "KiB": 1 << 10, "MiB": 1 << 20, "GiB": 1 << 30}
_SIZE = r"(\d+)(B|KiB|MiB|GiB)"
_NAME = r"[A-Za-z0-9_][A-Za-z0-9_.@+-]{0,63}"
_FACTOR = r"\d{1,6}(\.\d+)?"
_PRICE = r"\d{1,6}(\.\d{1,6}0*)?"
_PREFIX = r"(/[A-Za-z0-9._~-]+)+"
_HOST_NAME = r"(?=.{1,253}\Z)[A-Za-z0-9_]([A-Za-z0-9_-]{0,61}[A-Za-z0-9_])?(\.[A-Za-z0-9_]([A-Za-z0-9_-]{0,61}[A-Za-z0-9_])?)*"
_MODEL_NAME = r"[A-Za-z0-9_][A-Za-z0-9_.@+:/-]{0,127}"


def _match(pattern: str, text: str) -> re.Match[str]:
    found = re.fullmatch(pattern, text, re.ASCII)
    if found is None:
        raise ValueError(text)
    return found


def _read_duration(text: str) -> float:
    number, unit = _match(_DURATION, text).groups()
    return float(number) * _SECONDS[unit]


def _write_duration(seconds: float) -> str:
    unit = next((unit for unit in ("d", "h", "m", "s") if seconds % _SECONDS[unit] == 0 and seconds), "ms" if seconds else "s")
    return f"{round(seconds / _SECONDS[unit])}{unit}"


def _read_size(text: str) -> int:
    number, unit = _match(_SIZE, text).groups()
    return int(number) * _BYTES[unit]


def _write_size(size: int) -> str:
    unit = next(unit for unit in ("GiB", "MiB", "KiB", "B") if size % _BYTES[unit] == 0)
    return f"{size // _BYTES[unit]}{unit}"


def _read_instant(text: str) -> float:
    moment = datetime.datetime.fromisoformat(text)
    return (moment if moment.tzinfo else moment.replace(tzinfo=datetime.UTC)).timestamp()


def _write_instant(unix_s: float) -> str:
    return datetime.datetime.fromtimestamp(unix_s, datetime.UTC).isoformat().replace("+00:00", "Z")


def _read_network(text: str) -> str:
    return str(ip_network(text))


def _decimal(pattern: str) -> Callable[[str], Decimal]:
    return lambda text: Decimal(_match(pattern, text).group())


def _reader(pattern: str) -> Callable[[str], str]:
    return lambda text: _match(pattern, text).group()


def _notation(scalar: Scalar) -> msgspec.Meta:
    return msgspec.Meta(extra={"scalar": scalar})


Duration = Annotated[
    float,
    _notation(
        Scalar(
            expects="a duration such as 250ms, 30s, 5m, 2h or 7d", pattern=_DURATION, read=_read_duration, write=_write_duration
        )
    ),
]
"""Seconds. Zero is allowed; `Period` is for what cannot be zero."""

Period = Annotated[Duration, msgspec.Meta(gt=0)]

Size = Annotated[
    int,
    _notation(Scalar(expects="a size such as 64KiB, 10MiB or 1GiB", pattern=_SIZE, read=_read_size, write=_write_size)),
    msgspec.Meta(gt=0),
]
"""Bytes."""

Instant = Annotated[
    float,
    _notation(
        Scalar(
            expects="a date such as 2027-01-01 or 2027-01-01T12:00:00Z",
            pattern=r"\d{4}-\d{2}-\d{2}.*",
            read=_read_instant,
            write=_write_instant,
        )
    ),
]
"""Unix seconds; a date alone is its first moment in UTC."""

Network = Annotated[
    str,
    _notation(Scalar(expects="an address or a network such as 10.0.0.0/8", pattern=r"[0-9A-Fa-f.:]+(/\d+)?", read=_read_network)),
]

Factor = Annotated[
    Decimal, _notation(Scalar(expects="a number of at least 0", pattern=_FACTOR, read=_decimal(_FACTOR), bare=True))
]
"""An exact decimal."""

UsdPerMillion = Annotated[
    Decimal,
    _notation(
        Scalar(
            expects="a price in USD per million tokens, with at most six decimals",
            pattern=_PRICE,
            read=_decimal(_PRICE),
            bare=True,
        )
    ),
]
"""Three decimals are whole nano-USD a token, which is what money is counted in; sums of smaller parts are rounded up once."""

Name = Annotated[
    str,
    _notation(
        Scalar(expects="a name of at most 64 letters, digits and the characters _ . @ + -", pattern=_NAME, read=_reader(_NAME))
    ),
]
"""The name of a provider, plan, org, project or key. No colon: names are joined with colons in Redis."""

ModelName = Annotated[
    str,
    _notation(
        Scalar(
            expects="a model name of at most 128 letters, digits and the characters _ . @ + : / -",
            pattern=_MODEL_NAME,
            read=_reader(_MODEL_NAME),
        )
    ),
]
"""A public model name or alias. It is a header's value (`x-gateway-attempts`), so no blank, comma or semicolon."""

HostName = Annotated[
    str,
    _notation(
        Scalar(expects="a host name such as ops.example.com, without a port", pattern=_HOST_NAME, read=_reader(_HOST_NAME))
    ),
]
"""What a request's Host may be, but for its port; letters of either case are one."""

Prefix = Annotated[
    str,
    _notation(Scalar(expects="a path such as /team/v1, without a slash at its end", pattern=_PREFIX, read=_reader(_PREFIX))),
]
"""What the paths of a contract begin with."""
