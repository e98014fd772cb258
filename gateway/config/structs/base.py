"""What the sections of the file share: the base of all structs, and the numbers that many fields are made of."""

from typing import Annotated

import msgspec


class Section(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A mapping of the file with a closed set of fields."""


Count = Annotated[int, msgspec.Meta(ge=1, le=2**53)]
"""At least one. The bound is where a Lua number stops being exact, which is what counts in Redis are."""

Share = Annotated[float, msgspec.Meta(gt=0, le=1)]
"""A part of a whole; zero would switch the thing off by accident."""
