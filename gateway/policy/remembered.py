"""What was worked out for keys, kept for the next request. Keys come and go: when it is too much it is thrown away. Pure."""

from collections.abc import Hashable
from typing import TypeVar

MOST = 20_000
"""Some of what there is for each of thousands of keys."""

Found = TypeVar("Found", bound=Hashable)
Known = TypeVar("Known")


class Remembered(dict[Found, Known]):
    """A dict that begins anew instead of growing past `most` entries."""

    def __init__(self, most: int = MOST) -> None:
        super().__init__()
        self._most = most

    def __setitem__(self, found: Found, known: Known) -> None:
        """Keep one thing more."""
        if len(self) >= self._most:
            self.clear()
        super().__setitem__(found, known)
