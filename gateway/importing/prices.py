"""Which models have a price, and that of a model whose name at its provider tells nobody what it is.

Prices are the file's, or the catalogue's by what a model is called at its provider. A name of the operator's own, as Azure has
them, says nothing there; what LiteLLM calls its `base_model` does.
"""

import datetime
from collections.abc import Mapping
from decimal import Decimal
from typing import Any

import msgspec

from gateway.config.parse import parse
from gateway.config.price_list import price_list
from gateway.config.priced import unpriced
from gateway.config.references import Sources
from gateway.config.structs.supply import Price, Provider
from gateway.importing.writing import write

_NOTHING: tuple[Any, ...] = (None, [], {})


def priced(providers: Mapping[str, Any], models: Mapping[str, Any]) -> frozenset[str]:
    """Return the models that have a price today."""
    if not models:
        return frozenset()
    text = write({"providers": providers, "models": models}, {}, ())
    # Variables are empty here: of a provider, its preset is what the catalogue goes by.
    return frozenset(models) - unpriced(parse(text.encode(), Sources({}, _nowhere)).config).keys()


def of_base(preset: str | None, base_model: str, today: datetime.date) -> dict[str, Any] | None:
    """Return the catalogue's price of what a deployment is at heart, as the file has it; None where it is not known."""
    provider = msgspec.convert({"preset": preset}, Provider)
    found = price_list().find(provider, base_model.rpartition("/")[2])
    if found is None:
        return None
    eras = [price for price in found[1].prices if price.from_date is None or price.from_date <= today]
    return _written(msgspec.structs.replace(eras[-1], from_date=None)) if eras else None


def _written(price: Price) -> dict[str, Any]:
    """Return a price as the file has it: without what is not said."""
    builtins = msgspec.to_builtins(price, builtin_types=(Decimal,))
    return {name: said for name, value in builtins.items() if (said := _said(value)) not in _NOTHING}


def _said(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {name: said for name, held in value.items() if (said := _said(held)) not in _NOTHING}
    return [_said(each) for each in value] if isinstance(value, list | tuple) else value


def _nowhere(path: str) -> bytes:
    raise FileNotFoundError(2, "No such file or directory", path)
