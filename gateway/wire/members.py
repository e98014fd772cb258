"""A JSON object taken apart without being rebuilt: where each top-level member stands in the bytes.

Values that nobody edits keep their exact bytes: `1.50` stays `1.50`. Pure.
"""

import msgspec


class Member(msgspec.Struct, frozen=True):
    """One top-level member of an object: its name, and where its name and its value stand in the body."""

    name: str
    name_start: int
    value_start: int
    value_end: int


class Members(msgspec.Struct, frozen=True):
    """An object's bytes and its members in order."""

    body: bytes
    items: tuple[Member, ...]
