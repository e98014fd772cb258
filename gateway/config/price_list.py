"""The catalogue: what models are called at their providers and what they cost there, as `gateway/config/catalogue.json` has it.

`make catalogue` writes that file; one line a model, its prices as a configuration file writes them. Names are globs, in lower
case; one that begins with `!` is none of the model's, whatever else it is like.
"""

import functools
from collections.abc import Iterator
from fnmatch import fnmatchcase
from importlib.resources import files

import msgspec

from gateway.config.structs.base import Count, Section
from gateway.config.structs.supply import Price, Provider, Text

FILE = "catalogue.json"

GLOB = frozenset("*?[")


class Listed(Section, frozen=True, kw_only=True):
    """One model: its id, what else it is called, and its prices, of which the first one holds from ever."""

    id: Text
    names: tuple[Text, ...]
    context_window: Count | None = None
    prices: tuple[Price, ...]

    def is_called(self, name: str) -> bool:
        """Return whether it is meant by a name in lower case."""
        found = any(_fits(pattern, name) for pattern in self.names if pattern[0] != "!")
        return found and not any(_fits(pattern[1:], name) for pattern in self.names if pattern[0] == "!")


class Source(Section, frozen=True, kw_only=True):
    """A provider: the presets and the base URLs that are its own, and those whose models it serves besides its own."""

    presets: tuple[Text, ...] = ()
    urls: tuple[Text, ...] = ()
    like: tuple[Text, ...] = ()
    models: tuple[Listed, ...]


class PriceList(Section, frozen=True, kw_only=True):
    """All of the catalogue. `version` is the day of the prices, and a hash of all that it says."""

    source: Text
    version: Text
    providers: dict[str, Source]

    def find(self, provider: Provider, model: str) -> tuple[str, Listed] | None:
        """Return the provider's name in the catalogue and its model that is called so there, if they are known."""
        name = model.lower()
        for source in self._sources(provider):
            for listed in self.providers[source].models:
                if listed.is_called(name):
                    return source, listed
        return None

    def _sources(self, provider: Provider) -> Iterator[str]:
        """Yield whose prices may hold: a preset tells whose account it is, else the base URL does."""
        for name, source in self.providers.items():
            if provider.preset in source.presets or any(fnmatchcase(provider.base_url, url) for url in source.urls):
                yield name
                yield from source.like
                return


@functools.cache
def price_list() -> PriceList:
    """Return the catalogue that is shipped. It is read once: a configuration asks for it at its check and when it is compiled."""
    return decode((files("gateway.config") / FILE).read_bytes())


decode = msgspec.json.Decoder(PriceList).decode


def _fits(pattern: str, name: str) -> bool:
    return pattern == name or (not GLOB.isdisjoint(pattern) and fnmatchcase(name, pattern))
