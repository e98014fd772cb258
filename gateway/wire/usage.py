"""The tokens of one answer, and how they are read from a `usage` object. Pure."""

import msgspec


class Usage(msgspec.Struct, frozen=True, kw_only=True):
    """Tokens of one answer. `input` includes `cached`, `output` includes `reasoning`."""

    input: int = 0
    output: int = 0
    cached: int = 0
    reasoning: int = 0

    @property
    def total(self) -> int:
        """Return input and output together."""
        return self.input + self.output
