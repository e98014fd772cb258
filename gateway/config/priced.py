"""Whether prices can be charged by: which models have one, and that one price follows another."""

from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime

from gateway.config.parse import Parsed
from gateway.config.price_list import price_list
from gateway.config.prices import Pricing, listed
from gateway.config.problems import Problem, Where
from gateway.config.structs import Config
from gateway.config.structs.supply import Price, Prices, PriceStep
from gateway.policy.prices import at


def check(parsed: Parsed) -> Iterator[Problem]:
    """Yield each price that begins when another one does, and each step that is written twice."""
    for where, prices in _written(parsed.config):
        yield from _in_turn(parsed, where, prices)


def warn(parsed: Parsed) -> Iterator[Problem]:
    """Yield each model of which nobody knows what it costs."""
    for name, why in unpriced(parsed.config).items():
        yield parsed.problem(("models", name, "price"), f"{why}: what this model costs is recorded as unknown")


def unpriced(config: Config) -> Mapping[str, str]:
    """Return the models that have no price today, neither in the file nor in the catalogue, and why."""
    now_unix_ms = int(datetime.now(UTC).timestamp() * 1000)
    pricing = Pricing(price_list(), config.providers, now_unix_ms)
    lacking = (name for name, model in config.models.items() if at(pricing.of_model(model), now_unix_ms) is None)
    return {name: _why(listed(config.models[name].price)) for name in lacking}


def _why(eras: Sequence[Price]) -> str:
    return f"begins on {eras[0].from_date} only" if eras else "is missing"


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
