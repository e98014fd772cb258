"""A JSON object taken apart without being rebuilt: its top-level members as they are written.

`split` refuses what is not one clean JSON object; `splice` edits members in place. Values that nobody edits keep their exact
bytes: `1.50` stays `1.50`. What the values mean is decided elsewhere. Pure.
"""

import re
from collections.abc import Mapping
from itertools import chain

import msgspec

from gateway.errors import InvalidJson, Unprocessable
from gateway.faults import FieldError


class Members(msgspec.Struct, frozen=True, gc=False):
    """An object's bytes, its members' values in order, and how they are laid out; no name comes twice.

    A lead is what stands before a value since the end of the one before: a bracket or a comma, gaps, the name, the colon. `leads`
    is None where the body is written without any gap, as most programs write: then an encoder can take its place.
    """

    body: bytes
    raws: Mapping[str, msgspec.Raw]
    leads: tuple[bytes, ...] | None = None

    def __repr__(self) -> str:
        return f"Members({len(self.body)} bytes)"

    def value(self, name: str) -> bytes | None:
        """Return a member's value as it stands in the body."""
        raw = self.raws.get(name)
        return None if raw is None else bytes(raw)

    def values(self) -> dict[str, bytes]:
        """Return every member's value as it stands in the body."""
        return dict(zip(self.raws, map(bytes, self.raws.values()), strict=True))

    def span(self, name: str) -> tuple[int, int]:
        """Return where a member's lead begins and where its value does."""
        start = 0
        for (each, raw), lead in zip(self.raws.items(), self._leads(), strict=True):
            if each == name:
                return start, start + len(lead)
            start += len(lead) + len(bytes(raw))
        raise KeyError(name)

    def _leads(self) -> tuple[bytes, ...]:
        if self.leads is not None:
            return self.leads
        return tuple((b"," if place else b"{") + encode(name) + b":" for place, name in enumerate(self.raws))


decode_object = msgspec.json.Decoder(dict[str, msgspec.Raw]).decode
decode_any_document = msgspec.json.Decoder(msgspec.Raw).decode
decode_name = msgspec.json.Decoder(str).decode
encode = msgspec.json.Encoder().encode

# Both run over bytes that are known to be valid JSON, so that they need not tell a name from anything else.
LEAD = re.compile(rb'[ \t\n\r]*[{,][ \t\n\r]*"([^"\\]*(?:\\.[^"\\]*)*)"[ \t\n\r]*:[ \t\n\r]*')
TO_END = re.compile(rb"[ \t\n\r]*\}")


def split(body: bytes) -> Members:
    """Return the members of the object that `body` is.

    Raises `InvalidJson` for what is not one clean JSON document (names that come twice at the top included) and `Unprocessable`
    for a document that is not an object.
    """
    raws = _raws(body)
    # The decoder keeps the last of two members with one name, so what is written back is shorter then than what was read.
    return Members(body, raws) if encode(raws) == body else Members(body, raws, _leads(body, raws))


def splice(members: Members, replace: Mapping[str, bytes | None]) -> bytes:
    """Return the body with some values replaced (JSON text), members removed (None) and new ones added at the end."""
    if members.leads is not None:
        return _splice_in_place(members, members.leads, replace)
    edited = {**members.raws}
    for name, value in replace.items():
        if value is None:
            edited.pop(name, None)
        else:
            edited[name] = msgspec.Raw(value)
    return encode(edited)


def _splice_in_place(members: Members, leads: tuple[bytes, ...], replace: Mapping[str, bytes | None]) -> bytes:
    """Splice a body that keeps its own gaps; where the first member goes, the next takes its place."""
    opening = leads[0][: leads[0].index(b'"')] if leads else members.body[: members.body.index(b"{") + 1]
    kept: list[tuple[bytes, bytes]] = []
    for (name, raw), lead in zip(members.raws.items(), leads, strict=True):
        value = replace.get(name, raw)
        if value is not None:
            kept.append((lead, bytes(value)))
    if kept:
        first, value = kept[0]
        kept[0] = (opening + first[first.index(b'"') :], value)
        opening = b""
    for name, value in replace.items():
        if value is not None and name not in members.raws:
            kept.append(((b"," if kept else opening) + encode(name) + b":", value))
            opening = b""
    return opening + b"".join(chain.from_iterable(kept)) + _tail(members, leads)


def _tail(members: Members, leads: tuple[bytes, ...]) -> bytes:
    """Return what stands behind the last value."""
    taken = sum(map(len, leads)) + sum(len(bytes(raw)) for raw in members.raws.values())
    return members.body[taken or members.body.index(b"{") + 1 :]


def _leads(body: bytes, raws: Mapping[str, msgspec.Raw]) -> tuple[bytes, ...]:
    """Return what stands before each value. Raises `InvalidJson` where the body holds a member that was not decoded."""
    leads: list[bytes] = []
    name, end = "", 0
    for name, raw in raws.items():
        found, value = LEAD.match(body, end), bytes(raw)
        if found is None or not (found[1] == name.encode() or _is_escaped(found[1], name)):
            raise _duplicate(name)
        if not body.startswith(value, found.end()):
            raise _duplicate(name)
        leads.append(found[0])
        end = found.end() + len(value)
    if raws and TO_END.match(body, end) is None:
        raise _duplicate(name)
    return tuple(leads)


def _raws(body: bytes) -> dict[str, msgspec.Raw]:
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


def _invalid(error: Exception) -> InvalidJson:
    if isinstance(error, RecursionError):
        return InvalidJson("The body is nested too deeply")
    if isinstance(error, UnicodeDecodeError):
        return InvalidJson("The body is not valid UTF-8")
    return InvalidJson(f"The body is not valid JSON: {error}")


def _duplicate(name: str) -> InvalidJson:
    return InvalidJson(f"The body names a member twice, at or near '{name[:100]}'")
