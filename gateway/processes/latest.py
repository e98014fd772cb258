"""What is made of the configuration that is in force: once for each, when it is first asked for."""

from collections.abc import Callable
from typing import Generic, TypeVar

from gateway.config import Config

Made = TypeVar("Made")

Current = Callable[[], Config]
"""Returns the configuration that is in force."""


class Latest(Generic[Made]):
    """`latest()` is what `make` makes of the configuration that is `current`."""

    def __init__(self, current: Current, make: Callable[[Config], Made]) -> None:
        self._current = current
        self._make = make
        self._config: Config | None = None
        self._made: Made

    def __call__(self) -> Made:
        """Return it."""
        config = self._current()
        if config is not self._config:
            self._made, self._config = self._make(config), config
        return self._made
