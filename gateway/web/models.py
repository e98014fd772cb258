"""The list of models, in each contract's own shape: what the caller's key may use, aliases too (decisions 32 and 49)."""

from collections.abc import Callable
from decimal import Decimal
from time import time
from typing import Any

import msgspec
from litestar import Request, get
from litestar.handlers import HTTPRouteHandler
from litestar.params import FromPath

from gateway.keys import Authenticate, Principal
from gateway.policy.access import find_model, may_use
from gateway.policy.catalogue import Catalogue, Key, Model
from gateway.policy.prices import Exact, Price, at
from gateway.wire.contracts import DEEPINFRA, NEBIUS, Contract

MODEL_CREATED_S = 1_735_689_600
"""What every model says it was created: a constant, since clients cache by it and a config file knows no better (2025-01-01)."""

NANO_USD = Decimal(10) ** -9
PER_MILLION = 1_000
"""A price in nano-USD a token, in USD a million."""


class ModelCard(msgspec.Struct, frozen=True, kw_only=True):
    """One model as OpenAI's list shows it."""

    id: str
    object: str = "model"
    created: int = MODEL_CREATED_S
    owned_by: str = "tiergate"


class Rates(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """DeepInfra's prices, in USD a million tokens."""

    input_tokens: float
    output_tokens: float
    cache_read_tokens: float | None = None


class Metadata(msgspec.Struct, frozen=True, kw_only=True):
    """What DeepInfra's list adds. Nobody describes models here, nor tags them."""

    description: str | None = None
    context_length: int | None
    max_tokens: int | None
    pricing: Rates | None
    tags: list[str] = []


class DeepInfraCard(ModelCard, frozen=True, kw_only=True):
    """One model as DeepInfra's list shows it."""

    root: str
    parent: str | None = None
    metadata: Metadata


class Pricing(msgspec.Struct, frozen=True, kw_only=True):
    """Nebius' prices, in USD a token, as text."""

    prompt: str
    completion: str


class Architecture(msgspec.Struct, frozen=True, kw_only=True):
    """What goes in and what comes out."""

    modality: str


class NebiusCard(ModelCard, frozen=True, kw_only=True):
    """One model as Nebius' verbose list shows it. How it is run, and where, its providers know."""

    name: str
    context_length: int | None
    architecture: Architecture
    quantization: str | None = None
    pricing: Pricing | None
    per_request_limits: dict[str, int] | None = None
    regions: list[str] = []
    supported_features: list[str]
    supported_sampling_parameters: list[str]


SAMPLING = ("temperature", "top_p", "max_tokens", "stop", "seed", "presence_penalty", "frequency_penalty", "logit_bias")
"""What every model takes, as far as its providers do."""

FEATURES = ("tools", "logprobs", "regex")
"""Capabilities that Nebius' list has words for: their own."""


class ModelList(msgspec.Struct, frozen=True):
    """OpenAI's list of models."""

    data: list[Any]
    object: str = "list"


class Catalogues(msgspec.Struct, frozen=True):
    """Who asks for models, and what there is: the current catalogue, and the caller's key. Raises `GatewayError`."""

    current: Callable[[], Catalogue]
    authenticate: Authenticate

    async def caller(self, request: Request[Any, Any, Any]) -> tuple[Catalogue, Key]:
        """Return what there is, and whose request it is."""
        catalogue = self.current()
        address = request.client.host if request.client else None
        found = self.authenticate(catalogue, list(request.scope["headers"]), address)
        principal = found if isinstance(found, Principal) else await found
        return catalogue, principal.key


def card(name: str, model: Model, contract: Contract, *, verbose: bool) -> ModelCard:
    """Return one entry of the list."""
    price = at(model.price, int(time() * 1000))
    if contract is DEEPINFRA:
        about = Metadata(context_length=model.context_window, max_tokens=model.max_output_tokens, pricing=rates(price))
        return DeepInfraCard(id=name, root=name, metadata=about)
    return nebius_card(name, model, price) if contract is NEBIUS and verbose else ModelCard(id=name)


def nebius_card(name: str, model: Model, price: Price | None) -> NebiusCard:
    """Return one entry of Nebius' verbose list."""
    can = model.capabilities
    return NebiusCard(
        id=name,
        name=name,
        context_length=model.context_window,
        architecture=Architecture(modality="text+image->text" if can.vision else "text->text"),
        pricing=pricing(price),
        supported_features=[feature for feature in FEATURES if getattr(can, feature)],
        supported_sampling_parameters=[*SAMPLING, *(["logprobs", "top_logprobs"] if can.logprobs else [])],
    )


def is_verbose(request: Request[Any, Any, Any]) -> bool:
    """Return whether more is asked for, in any of the words for it that FastAPI takes."""
    return request.query_params.get("verbose", "").lower() in ("true", "1", "yes", "on")


def rates(price: Price | None) -> Rates | None:
    """Return a price as DeepInfra states it."""
    if price is None:
        return None
    cached = None if price.cached_input is None else float(price.cached_input / PER_MILLION)
    return Rates(
        input_tokens=float(price.input / PER_MILLION), output_tokens=float(price.output / PER_MILLION), cache_read_tokens=cached
    )


def pricing(price: Price | None) -> Pricing | None:
    """Return a price as Nebius states it."""
    if price is None:
        return None
    return Pricing(prompt=in_usd(price.input), completion=in_usd(price.output))


def in_usd(nano_usd: Exact) -> str:
    """Return an exact amount in USD, as a decimal."""
    return f"{Decimal(nano_usd.numerator) / nano_usd.denominator * NANO_USD:f}"


def model_routes(prefix: str, contract: Contract, catalogues: Catalogues) -> tuple[HTTPRouteHandler, ...]:
    """Return the list and the single model below one prefix."""

    @get(f"{prefix}/models")
    async def list_models(request: Request[Any, Any, Any]) -> ModelList:
        """List what the caller's key may use, aliases too."""
        catalogue, key = await catalogues.caller(request)
        verbose = is_verbose(request)
        allowed = ((name, model) for name, model in catalogue.names.items() if may_use(key, model))
        return ModelList([card(name, model, contract, verbose=verbose) for name, model in allowed])

    @get(f"{prefix}/models/{{name:path}}")
    async def show_model(request: Request[Any, Any, Any], name: FromPath[str]) -> ModelCard:
        """Show one model; its id may hold slashes, raw or escaped."""
        catalogue, key = await catalogues.caller(request)
        asked = name.removeprefix("/")
        return card(asked, find_model(asked, key, catalogue.names), contract, verbose=is_verbose(request))

    return list_models, show_model
