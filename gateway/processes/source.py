"""Where the configuration of a gateway comes from."""

from collections.abc import Mapping
from pathlib import Path

import msgspec

from gateway.config import Files
from gateway.config.certificates import Certificates
from gateway.processes.overrides import Overrides


class Source(msgspec.Struct, frozen=True, kw_only=True):
    """A file, the environment that it refers to, and what the command line says over it.

    `files` are those that it was read from at the start, `findings` what deserves a look in it, `shown` what its listeners show
    over TLS.
    """

    path: Path
    environ: Mapping[str, str]
    overrides: Overrides = Overrides()
    files: Files = msgspec.field(default_factory=Files)
    findings: tuple[str, ...] = ()
    shown: Certificates = Certificates()

    def __repr__(self) -> str:
        """Return the path alone: the environment is secret."""
        return f"Source({str(self.path)!r})"
