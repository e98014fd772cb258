"""The way in: a path to a configuration that can be used, or every reason why it cannot."""

from collections.abc import Mapping
from hashlib import sha256
from pathlib import Path

import msgspec

from gateway.config import replicas
from gateway.config.check import check
from gateway.config.document import DocumentError
from gateway.config.parse import parse
from gateway.config.problems import ConfigErrors, Problem
from gateway.config.references import Sources
from gateway.config.structs import Config


class Loaded(msgspec.Struct, frozen=True):
    """A sound configuration, the lines of what deserves a look all the same, and the SHA-256 of the file."""

    config: Config
    warnings: tuple[str, ...]
    sha256: str


def load(path: Path, environ: Mapping[str, str]) -> Loaded:
    """Return what the file at `path` says, its references resolved from `environ` and from files.

    Raises `ConfigErrors`.
    """
    file = str(path)
    try:
        raw = path.read_bytes()
        parsed = parse(raw, Sources(environ, lambda name: Path(name).read_bytes()))
    except OSError as error:
        raise ConfigErrors(file, [Problem(0, "", f"cannot be read: {error.strerror or type(error).__name__}")]) from error
    except DocumentError as error:
        raise ConfigErrors(file, [error.problem]) from None
    findings = check(parsed)
    errors = [*findings.errors, *replicas.check(parsed, environ)]
    if errors:
        raise ConfigErrors(file, errors)
    warnings = tuple(problem.describe(file) for problem in findings.warnings)
    return Loaded(parsed.config, warnings, sha256(raw).hexdigest())
