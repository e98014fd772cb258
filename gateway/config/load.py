"""The way in: a path to a configuration that can be used, or every reason why it cannot."""

from collections.abc import Mapping
from pathlib import Path

import msgspec

from gateway.config import certificates, replicas
from gateway.config.check import check
from gateway.config.document import DocumentError
from gateway.config.files import Files
from gateway.config.parse import parse
from gateway.config.problems import ConfigErrors, Problem
from gateway.config.references import Sources
from gateway.config.structs import Config


class Loaded(msgspec.Struct, frozen=True):
    """A sound configuration, the lines of what deserves a look all the same, and the SHA-256 of the file."""

    config: Config
    warnings: tuple[str, ...]


def load(path: Path, environ: Mapping[str, str], files: Files | None = None) -> Loaded:
    """Return what the file at `path` says, its references resolved from `environ` and from files.

    `files` remembers all that the configuration is made of, whether it can be used or not. Raises `ConfigErrors`.
    """
    file, files = str(path), files or Files()
    try:
        parsed = parse(files.read(file), Sources(environ, files.read))
    except OSError as error:
        raise ConfigErrors(file, [Problem(0, "", f"cannot be read: {error.strerror or type(error).__name__}")]) from error
    except DocumentError as error:
        raise ConfigErrors(file, [error.problem]) from None
    findings = check(parsed)
    errors = [*findings.errors, *replicas.check(parsed, environ), *certificates.check(parsed, files)]
    if errors:
        raise ConfigErrors(file, errors)
    for provider in parsed.config.providers.values():
        if provider.ca_file is not None:
            files.watch(provider.ca_file)
    return Loaded(parsed.config, tuple(problem.describe(file) for problem in findings.warnings))
