"""Whether there are pictures in what is asked: parts of chat messages, blocks of Messages, items of Responses.

Bodies are looked into only where it matters, and only if the words for a picture are in them at all. Pure.
"""

from typing import Any

import msgspec

KINDS = frozenset({"image", "image_url", "input_image", "computer_screenshot"})
"""What a picture is called, in all dialects."""

WORDS = tuple(f'"{kind}"'.encode() for kind in sorted(KINDS))

INSIDE = ("content", "output")
"""Where a message, a block or an item holds others; what a tool is called with is nothing that is shown."""

decode = msgspec.json.Decoder().decode


def has_pictures(raw: bytes) -> bool:
    """Return whether messages or items, as they stand in a body, show a picture. False for what only looked like JSON."""
    if not any(word in raw for word in WORDS):
        return False
    try:
        return _shows(decode(raw))
    except (msgspec.DecodeError, RecursionError):
        return False


def _shows(found: Any) -> bool:
    if isinstance(found, list):
        return any(map(_shows, found))
    if not isinstance(found, dict):
        return False
    kind = found.get("type")
    return (isinstance(kind, str) and kind in KINDS) or any(_shows(found.get(name)) for name in INSIDE)
