"""What is known of the vendors, so that a file has to say only what it wants otherwise: `gateway/providers/presets.yaml`.

Field by field what a file writes holds, and the preset where it writes nothing; inside `quirks` member by member. `tiers`,
`endpoints` and `headers` are values like any other: written, they are all that there is.
"""

import datetime
import functools
from collections.abc import Collection, Mapping
from importlib.resources import files

import msgspec
import msgspec.inspect as mi
from msgspec.structs import fields

from gateway.config.decode import Decoder, Setting
from gateway.config.document import read
from gateway.config.problems import ConfigErrors, Where
from gateway.config.references import Sources
from gateway.config.structs import Config
from gateway.config.structs.base import Section
from gateway.config.structs.supply import PresetName, Provider, Quirks, Text

FILE = "presets.yaml"


class Source(Section, frozen=True, kw_only=True):
    """What a preset goes by: documentation, the day it was written after that, and whether it has ever met the real thing."""

    documentation: Text
    date: datetime.date
    run: bool = False


class Preset(Provider, frozen=True, kw_only=True):
    """What is known of a vendor. Never a credential, and never leave to do without one's protection."""

    source: Source


@functools.cache
def presets() -> Mapping[str, Preset]:
    """Return the presets that are shipped, by name. They are read once: an import asks for each of its deployments."""
    return decoded((files("gateway.providers") / FILE).read_bytes())


def decoded(raw: bytes) -> dict[str, Preset]:
    """Return what a file of presets says. It may refer to nothing: what it says is the same everywhere.

    Raises `ConfigErrors`.
    """
    decoder = Decoder(Sources({}, _no_file))
    found: dict[str, Preset] = decoder.read(read(raw), mi.type_info(dict[PresetName, Preset]), ())
    if decoder.problems:
        raise ConfigErrors(FILE, decoder.problems)
    return found


def _no_file(path: str) -> bytes:
    raise FileNotFoundError(2, "No such file or directory", path)


def filled(config: Config, settings: Mapping[Where, Setting]) -> Config:
    """Return a configuration whose providers have from their presets what the file does not write."""
    if not any(provider.preset for provider in config.providers.values()):
        return config
    known = presets()
    written = {where for where, setting in settings.items() if setting.value is not msgspec.UNSET}
    providers = {
        name: provider if provider.preset is None else fill(provider, known[provider.preset], ("providers", name), written)
        for name, provider in config.providers.items()
    }
    return msgspec.structs.replace(config, providers=providers)


def fill(own: Provider, preset: Provider, where: Where, written: Collection[Where]) -> Provider:
    """Return what holds of a provider, of which the file writes these paths."""
    quirks = {
        quirk.name: getattr(own.quirks if (*where, "quirks", quirk.encode_name) in written else preset.quirks, quirk.name)
        for quirk in fields(Quirks)
    }
    chosen = {
        field.name: getattr(own if (*where, field.encode_name) in written else preset, field.name) for field in fields(Provider)
    }
    return Provider(**{**chosen, "quirks": Quirks(**quirks)})
