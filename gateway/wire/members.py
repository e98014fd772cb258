"""A JSON object taken apart without being rebuilt: where each top-level member stands in the bytes.

`split` refuses what is not one clean JSON object; `splice` edits members in place. Values that nobody edits keep their exact
bytes: `1.50` stays `1.50`. What the values mean is decided elsewhere. Pure.
"""

import re
from collections.abc import Mapping

import msgspec

from gateway.errors import InvalidJson, Unprocessable
from gateway.faults import FieldError


class Member(msgspec.Struct, frozen=True, gc=False):
    """One top-level member of an object: its name, its value's bytes, and where name and value stand in the body."""

    name: str
    value: bytes
    name_start: int
    value_start: int
    value_end: int

    def __repr__(self) -> str:
        return f"Member({self.name_start}:{self.value_end})"


class Members(msgspec.Struct, frozen=True, gc=False):
    """An object's bytes and its members in order; no name comes twice."""

    body: bytes
    items: tuple[Member, ...]

    def __repr__(self) -> str:
        return f"Members({len(self.body)} bytes)"

    def value(self, name: str) -> bytes | None:
        """Return a member's value as it stands in the body."""
        for item in self.items:
            if item.name == name:
                return item.value
        return None


decode_object = msgspec.json.Decoder(dict[str, msgspec.Raw]).decode
decode_any_document = msgspec.json.Decoder(msgspec.Raw).decode
decode_name = msgspec.json.Decoder(str).decode
encode_name = msgspec.json.Encoder().encode

# Both run over bytes that are known to be valid JSON, so that they need not tell a name from anything else.
TO_VALUE = re.compile(rb'[ \t\n\r]*[{,][ \t\n\r]*"([^"\\]*(?:\\.[^"\\]*)*)"[ \t\n\r]*:[ \t\n\r]*')
TO_END = re.compile(rb"[ \t\n\r]*\}")


def split(body: bytes) -> Members:
    """Return the members of the object that `body` is.

    Raises `InvalidJson` for what is not one clean JSON document (names that come twice at the top included) and `Unprocessable`
    for a document that is not an object.
    """
    raws = _values(body)
    items: list[Member] = []
    end = 0
    match, startswith = TO_VALUE.match, body.startswith
    for name, raw in raws.items():
        found = match(body, end)
        value = bytes(raw)
        # The decoder keeps the last of two members with one name: the bytes then hold something that it did not return here.
        if found is None or not (found[1] == name.encode() or _is_escaped(found[1], name)):
            raise _duplicate(name)
        start = found.end()
        if not startswith(value, start):
            raise _duplicate(name)
        end = start + len(value)
        items.append(Member(name, value, found.start(1) - 1, start, end))
    if items and TO_END.match(body, end) is None:
        raise _duplicate(items[-1].name)
    return Members(body, tuple(items))


def splice(members: Members, replace: Mapping[str, bytes | None]) -> bytes:
    """Return the body with some values replaced (JSON text), members removed (None) and new ones added at the end."""
    body, items = members.body, members.items
    parts: list[bytes] = []
    copied, kept, known = 0, False, 0
    for place, item in enumerate(items):
        if item.name not in replace:
            kept = True
            continue
        known += 1
        value = replace[item.name]
        if value is not None:
            parts += (body[copied : item.value_start], value)
            copied, kept = item.value_end, True
        elif kept:
            parts.append(body[copied : items[place - 1].value_end])
            copied = item.value_end
        else:
            parts.append(body[copied : item.name_start])
            copied = items[place + 1].name_start if place + 1 < len(items) else item.value_end
    if known < len(replace):
        end = items[-1].value_end if items else body.index(b"{") + 1
        parts += (body[copied:end], _added(members, replace, kept=kept))
        copied = end
    parts.append(body[copied:])
    return b"".join(parts)


def _values(body: bytes) -> dict[str, msgspec.Raw]:
    try:
        # The decoder checks UTF-8 only in what it turns into strings, and raw values are not.
        if not body.isascii():
            body.decode()
        return decode_object(body)
    except msgspec.ValidationError:
        pass
    except (UnicodeDecodeError, msgspec.DecodeError, RecursionError) as error:
        raise _invalid(error) from None
    try:
        decode_any_document(body)
    except (msgspec.DecodeError, RecursionError) as error:
        raise _invalid(error) from None
    raise Unprocessable((FieldError(("body",), "Input should be an object", "dict_type"),))


def _is_escaped(token: bytes, name: str) -> bool:
    return b"\\" in token and decode_name(b'"%b"' % token) == name


def _added(members: Members, replace: Mapping[str, bytes | None], *, kept: bool) -> bytes:
    present = {item.name for item in members.items}
    added = [encode_name(name) + b":" + value for name, value in replace.items() if value is not None and name not in present]
    return (b"," if kept and added else b"") + b",".join(added)


def _invalid(error: Exception) -> InvalidJson:
    if isinstance(error, RecursionError):
        return InvalidJson("The body is nested too deeply")
    if isinstance(error, UnicodeDecodeError):
        return InvalidJson("The body is not valid UTF-8")
    return InvalidJson(f"The body is not valid JSON: {error}")


def _duplicate(name: str) -> InvalidJson:
    return InvalidJson(f"The body names a member twice, at or near '{name[:100]}'")
