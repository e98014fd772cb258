"""Whether prices can be charged by: which models have one, and that one price follows another."""

from collections.abc import Iterator, Mapping
from datetime import UTC, datetime

from gateway.config.parse import Parsed
from gateway.config.price_list import price_list
from gateway.config.prices import Pricing, listed
from gateway.config.problems import Problem, Where
from gateway.config.structs import Config
from gateway.config.structs.supply import Prices, PriceStep
from gateway.policy.prices import at


def check(parsed: Parsed) -> Iterator[Problem]:
    """Yield each price that begins when another one does, and each step that is written twice."""
    for where, prices in _written(parsed.config):
        yield from _in_turn(parsed, where, prices)


def warn(parsed: Parsed) -> Iterator[Problem]:
    """Yield each model of which nobody knows what it costs."""
    for name, known in priced(parsed.config).items():
        if not known:
            yield parsed.problem(("models", name, "price"), "is missing: what this model costs is recorded as unknown")


def priced(config: Config) -> Mapping[str, bool]:
    """Return of each model whether there is a price for it today, in the file or in the catalogue."""
    now_unix_ms = int(datetime.now(UTC).timestamp() * 1000)
    pricing = Pricing(price_list(), config.providers, now_unix_ms)
    return {name: at(pricing.of_model(model), now_unix_ms) is not None for name, model in config.models.items()}


def _written(config: Config) -> Iterator[tuple[Where, Prices | None]]:
    for name, model in config.models.items():
        yield ("models", name, "price"), model.price
        for index, deployment in enumerate(model.deployments):
            yield ("models", name, "deployments", index, "cost"), deployment.cost


def _in_turn(parsed: Parsed, where: Where, prices: Prices | None) -> Iterator[Problem]:
    eras = listed(prices)
    for index, price in enumerate(eras):
        place = where if prices is price else (*where, index)
        if index and price.from_date is None:
            yield parsed.problem((*place, "from"), "is missing: of several prices only the first one may go without")
        before = eras[index - 1].from_date if index else None
        if before is not None and price.from_date is not None and price.from_date <= before:
            yield parsed.problem((*place, "from"), f"must be after {before}, when the price before it begins")
        yield from _steps(parsed, place, price.steps)
        for tier, own in price.tiers.items():
            yield from _steps(parsed, (*place, "tiers", tier), own.steps)


def _steps(parsed: Parsed, where: Where, steps: tuple[PriceStep, ...]) -> Iterator[Problem]:
    seen: set[int] = set()
    for index, step in enumerate(steps):
        if step.above in seen:
            yield parsed.problem((*where, "steps", index, "above"), f"{step.above} is there already: two steps cannot both hold")
        seen.add(step.above)
