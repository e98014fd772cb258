"""Prices as the file and the catalogue write them, as those that requests are charged by.

A price in the file holds as it is written, whole: what it does not say is not filled in from anywhere. Where there is none, or
none yet, the catalogue's holds.
"""

from collections.abc import Iterable, Sequence
from datetime import UTC, date, datetime, time
from decimal import Decimal
from fractions import Fraction
from hashlib import sha256

import msgspec
from msgspec.structs import replace

from gateway.config.price_list import PriceList
from gateway.config.structs.supply import Deployment, Model, PartRates, Price, Prices, PriceStep, Provider, TierPrice
from gateway.policy import prices as policy
from gateway.policy.prices import Exact, Stepped

PER_TOKEN = 1_000
"""Nano-USD a token that 1 USD per million tokens is."""

PER_USD = 1_000_000_000

RATES = PartRates.__struct_fields__

Written = Price | PartRates


class Pricing(msgspec.Struct, frozen=True):
    """What prices are made of: the catalogue, the providers of the file, and the time, before which no price matters any more."""

    listed: PriceList
    providers: dict[str, Provider]
    now_unix_ms: int

    def of_model(self, model: Model) -> policy.Price | None:
        """Return what the org is charged: the file's price, else the catalogue's of the first deployment that has one."""
        known = next((eras for each in model.deployments if (eras := self._catalogue(each))), ())
        return self._chained(known, model.price, "the model's price")

    def of_deployment(self, deployment: Deployment) -> policy.Price | None:
        """Return what the operator pays; a tier has a cost of its own only where the provider is asked for it."""
        price = self._chained(self._catalogue(deployment), deployment.cost, "the deployment's cost")
        return None if price is None else _only_tiers(price, frozenset(map(str, self.providers[deployment.provider].tiers)))

    def _catalogue(self, deployment: Deployment) -> tuple[policy.Price, ...]:
        provider = self.providers.get(deployment.provider)
        found = None if provider is None else self.listed.find(provider, deployment.model)
        if found is None:
            return ()
        name, model = found
        source = f"the catalogue's price of {name}/{model.id}"
        first, *later = (replace(compiled(each), source=source, version=self.listed.version) for each in model.prices)
        return (replace(first, since_unix_ms=0), *later)

    def _chained(self, known: Sequence[policy.Price], written: Prices | None, source: str) -> policy.Price | None:
        own = [replace(compiled(each), source=source, version=version(each)) for each in listed(written)]
        eras = [era for era in known if not own or era.since_unix_ms < own[0].since_unix_ms] + own
        chain: policy.Price | None = None
        for era in reversed(eras):
            if chain is None or chain.since_unix_ms > self.now_unix_ms:
                chain = replace(era, later=chain)
        return chain


def listed(written: Prices | None) -> tuple[Price, ...]:
    """Return the prices that a file writes, in their order."""
    if written is None:
        return ()
    return (written,) if isinstance(written, Price) else written


def version(price: Price) -> str:
    """Return what the ledger knows a price of the file by: equal prices are one, in whichever file."""
    return f"config-{sha256(msgspec.json.encode(compiled(price), enc_hook=str, order='sorted')).hexdigest()[:8]}"


def compiled(price: Price) -> policy.Price:
    """Return one price, with its steps and tiers written out."""
    whole = stepped(price, None)
    return policy.Price(
        **{name: getattr(whole, name) for name in Stepped.__struct_fields__},
        tiers={str(tier): stepped(price, part) for tier, part in price.tiers.items()},
        since_unix_ms=0 if price.from_date is None else _unix_ms(price.from_date),
    )


def stepped(price: Price, part: TierPrice | None) -> Stepped:
    """Return the rates of a price, or of one of its tiers, with every step in full.

    What a tier says replaces what the price and its steps say of the same thing.
    """
    layers: list[tuple[Written, tuple[PriceStep, ...]]] = [(price, price.steps)]
    if part is not None:
        layers.insert(0, (part, part.steps))
    rates = _rates(layers, 0)
    steps: list[policy.Step] = []
    for above in sorted({step.above for _, among in layers for step in among}):
        found = _rates(layers, above)
        if found != (_rates(layers, steps[-1].above) if steps else rates):
            steps.append(policy.Step(**found, above=above))
    return Stepped(**rates, steps=tuple(steps))


def _rates(layers: Iterable[tuple[Written, tuple[PriceStep, ...]]], above: int) -> dict[str, Exact]:
    found: dict[str, Exact] = {}
    for name in RATES:
        amount = next((amount for written, steps in layers if (amount := _amount(name, written, steps, above)) is not None), None)
        if amount is not None:
            found[name] = _exact(amount * (PER_USD if name == "per_request" else PER_TOKEN))
    return found


def _amount(name: str, written: Written, steps: tuple[PriceStep, ...], above: int) -> Decimal | None:
    """Return what is written of one rate: in the highest step that is reached and says it, else outside of all steps."""
    reached = sorted((step for step in steps if step.above <= above), key=lambda step: step.above, reverse=True)
    amounts: Iterable[Decimal | None] = (getattr(each, name) for each in (*reached, written))
    return next((amount for amount in amounts if amount is not None), None)


def _exact(amount: Decimal) -> Exact:
    found = Fraction(amount)
    return found.numerator if found.denominator == 1 else found


def _only_tiers(price: policy.Price, tiers: frozenset[str]) -> policy.Price:
    later = None if price.later is None else _only_tiers(price.later, tiers)
    return replace(price, tiers={name: rates for name, rates in price.tiers.items() if name in tiers}, later=later)


def _unix_ms(day: date) -> int:
    return int(datetime.combine(day, time(), UTC).timestamp() * 1000)
