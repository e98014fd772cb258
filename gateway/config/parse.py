"""Bytes of a configuration file to a `Config`, with a note of every path that the file sets and of all that is wrong with it."""

from collections.abc import Mapping

import msgspec
import msgspec.inspect as mi

from gateway.config.decode import Decoder, Setting
from gateway.config.document import DocumentError, line_of, read
from gateway.config.presets import filled
from gateway.config.problems import Problem, Where, render
from gateway.config.references import Sources
from gateway.config.structs import Config

_CONFIG = mi.type_info(Config)


class Parsed(msgspec.Struct, frozen=True, kw_only=True):
    """A file as it was read. With `problems`, `config` is what could be read: good enough to look for more of them.

    In `config` presets are filled in; `settings` are the file's own alone.
    """

    config: Config
    settings: Mapping[Where, Setting]
    entries: Mapping[Where, frozenset[str]]
    problems: tuple[Problem, ...]

    def problem(self, where: Where, message: str) -> Problem:
        """Return a problem at `where`, on the line of the nearest thing that the file does set."""
        prefixes = (where[:length] for length in range(len(where), -1, -1))
        return Problem(next(self.settings[prefix].line for prefix in prefixes if prefix in self.settings), render(where), message)

    def names(self, *section: str) -> frozenset[str]:
        """Return the names that a section gives, those of entries with problems included."""
        return self.entries.get(section, frozenset())


def parse(raw: bytes, sources: Sources) -> Parsed:
    """Return what the file says.

    Raises `DocumentError` for what is not one YAML mapping at all.
    """
    decoder = Decoder(sources)
    root = read(raw)
    config = decoder.read(root, _CONFIG, ())
    if not isinstance(config, Config):
        raise DocumentError(line_of(root), "the file must be a mapping of fields")
    return Parsed(
        config=filled(config, decoder.settings),
        settings=decoder.settings,
        entries=decoder.entries,
        problems=tuple(decoder.problems),
    )
