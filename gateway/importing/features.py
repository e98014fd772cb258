"""What the file format names and this release lacks: an import writes nothing that its own gateway would refuse."""

from gateway.config.not_yet import NOT_YET


def lacking(path: str) -> bool:
    """Return whether a path of the file format, with `*` for names and indices, is not in this release."""
    return any(path in feature.paths for feature in NOT_YET)
