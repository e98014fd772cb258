"""The references that a value may hold: `${NAME}`, `${NAME:-default}`, `${file:/path}`.

They are resolved in values, after the YAML is parsed, so that what they bring in can never become syntax. As in a shell, the
default also stands in for a variable that is set but empty.
"""

import re
from collections.abc import Callable, Mapping

import msgspec

_REFERENCE = re.compile(r"\$\{(?P<inner>[^{}\r\n]*)\}")
_VARIABLE = re.compile(r"(?P<name>[A-Za-z_][A-Za-z0-9_]*)(?::-(?P<default>.*))?")
_SYNTAX_HELP = "what begins with ${ is a reference: ${NAME}, ${NAME:-default} or ${file:/path}, none inside another"
_SYNTAX = "{}[],:#"
_STAND_INS = "".join(chr(0xE000 + i) for i in range(len(_SYNTAX)))
_SHELTER = str.maketrans(_SYNTAX, _STAND_INS)
_UNSHELTER = str.maketrans(_STAND_INS, _SYNTAX)


class Sources(msgspec.Struct, frozen=True):
    """What references are resolved from. `read_file` raises OSError."""

    environ: Mapping[str, str]
    read_file: Callable[[str], bytes]


class UnresolvedError(Exception):
    """A reference that leads nowhere. The message names it and holds no value."""


def shelter(text: str) -> str:
    """Return the document with the inside of each reference free of YAML's syntax, character for character.

    Without it `{secret: ${KEY}}` would end at the first brace. Raises ValueError when the text has a stand-in already.
    """
    if not set(_STAND_INS).isdisjoint(text):
        raise ValueError("the private characters U+E000 to U+E006 are not read here")
    return _REFERENCE.sub(lambda found: "$" + found[0][1:].translate(_SHELTER), text)


def unshelter(text: str) -> str:
    """Undo `shelter` in one scalar."""
    return text.translate(_UNSHELTER)


def has_reference(text: str) -> bool:
    """Return whether `resolve` has anything to do."""
    return "${" in text


def resolve(text: str, sources: Sources) -> str:
    """Return `text` with its references replaced.

    Raises `UnresolvedError` for a variable that is not set, a file that cannot be read, and what only looks like a reference.
    """
    if has_reference(_REFERENCE.sub("", text)):
        raise UnresolvedError(_SYNTAX_HELP)
    return _REFERENCE.sub(lambda found: _value(found["inner"], sources), text)


def _value(inner: str, sources: Sources) -> str:
    if inner.startswith("file:") and not inner.startswith("file:-"):
        return _content(inner.removeprefix("file:"), sources)
    found = _VARIABLE.fullmatch(inner)
    if found is None:
        raise UnresolvedError(_SYNTAX_HELP)
    value = sources.environ.get(found["name"])
    if found["default"] is not None:
        return value or found["default"]
    if value is None:
        raise UnresolvedError(f"environment variable {found['name']} is not set")
    return value


def _content(path: str, sources: Sources) -> str:
    """Return a file's text without its last line end, which editors and `echo` add to a secret."""
    try:
        return sources.read_file(path).decode().removesuffix("\n").removesuffix("\r")
    except OSError as error:
        raise UnresolvedError(f"file {path} cannot be read: {error.strerror or type(error).__name__}") from error
    except UnicodeDecodeError:
        raise UnresolvedError(f"file {path} is not UTF-8 text") from None
