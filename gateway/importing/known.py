"""Which models vendors have, by the catalogue of prices: what a wildcard of the other's file stands for."""

from importlib.resources import files

import msgspec

FILE = "catalogue.json"


class Model(msgspec.Struct, frozen=True):
    """One of a vendor's models. Of what the catalogue says of it nothing else is read here."""

    id: str


class Vendor(msgspec.Struct, frozen=True):
    """A vendor: the presets that are its own, and its models."""

    presets: tuple[str, ...] = ()
    models: tuple[Model, ...] = ()


class Catalogue(msgspec.Struct, frozen=True):
    """The vendors of a catalogue."""

    providers: dict[str, Vendor]


def known_models() -> dict[str, list[str]]:
    """Return the names of models by preset; none, where no catalogue is shipped."""
    shipped = files("gateway.config") / FILE
    return of(shipped.read_bytes()) if shipped.is_file() else {}


def of(raw: bytes) -> dict[str, list[str]]:
    """Return what a catalogue has, by preset."""
    vendors = msgspec.json.decode(raw, type=Catalogue).providers.values()
    return {preset: [model.id for model in vendor.models] for vendor in vendors for preset in vendor.presets}
