"""Which models vendors have, by the catalogue of prices: what a wildcard of the other's file stands for."""

from gateway.config.price_list import PriceList, price_list


def known_models() -> dict[str, list[str]]:
    """Return the names of models by preset, as far as the catalogue has them."""
    return of(price_list())


def of(catalogue: PriceList) -> dict[str, list[str]]:
    """Return what a catalogue has, by preset; an id that names a family is no model's name."""
    return {
        preset: [model.id for model in vendor.models if model.is_called(model.id) and not model.id.endswith("-")]
        for vendor in catalogue.providers.values()
        for preset in vendor.presets
    }
