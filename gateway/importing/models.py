"""Models: all entries of one `model_name` as one model with its deployments, price, bounds and timers."""

from collections.abc import Iterable, Mapping, Sequence
from decimal import ROUND_CEILING, Decimal
from typing import Any

import msgspec

from gateway.config.presets import presets
from gateway.config.problems import Where
from gateway.config.scalars import UsdPerMillion
from gateway.importing.deployments import deployments
from gateway.importing.entries import PRICES, Entry
from gateway.importing.features import lacking
from gateway.importing.findings import Findings
from gateway.importing.notations import reads
from gateway.importing.numbers import duration

_FINEST = (Decimal("0.000001"), Decimal("0.001"))
_NEEDED = ("input", "output")
_STANDS_IN = {"cached_input": "input", "cache_write": "input", "reasoning": "output"}
"""What a price that is not named is."""

ONE_FOR_ALL = "one for all deployments of a model here, the {} of theirs"
DEAREST = "one price for all deployments of a model here, the dearest of theirs"
FINER = "finer than money is counted here, rounded up"
HALF = "a price has both input and output here, so this one is left out"
WINDOW = "the bound of prompt and answer together here"
SILENCE = "the longest wait for the first content and between two events"


class Defaults(msgspec.Struct, frozen=True, kw_only=True):
    """What holds for models that say nothing themselves.

    `bounds_hold` where rates of deployments are bounds there too; `endpoints` are all that the proxy serves, if it says so.
    """

    bounds_hold: bool = False
    endpoints: frozenset[str] | None = None
    timeout_s: float | None = None
    stream_timeout_s: float | None = None


def model(
    name: str, entries: Sequence[Entry], providers: Mapping[str, Any], defaults: Defaults, findings: Findings
) -> dict[str, Any]:
    """Return a model as the file has it."""
    into: Where = ("models", name)
    bounds = {
        ours: _least(entries, ours, theirs, (*into, ours), findings)
        for ours, theirs in (
            ("context_window", ("max_input_tokens",)),
            ("max_output_tokens", ("max_output_tokens", "max_tokens")),
        )
    }
    written: dict[str, Any] = {ours: bound for ours, bound in bounds.items() if bound is not None}
    capabilities = _capabilities(entries, providers, into, findings)
    if defaults.endpoints is not None:
        capabilities["endpoints"] = asked_at(entries, providers, defaults.endpoints)
    if capabilities:
        written["capabilities"] = capabilities
    written["deployments"] = deployments(name, entries, findings, bounds_hold=defaults.bounds_hold)
    written |= _priced(entries, written["deployments"], into, findings)
    if timers := _timers(entries, into, defaults, findings):
        written["timeouts"] = timers
    for entry in entries:
        if "access_groups" in entry.places:
            findings.approximate(entry.places["access_groups"], (), "keys that name the group get its models' names")
        if "custom_llm_provider" in entry.places:
            findings.exact(entry.places["custom_llm_provider"], ("providers", entry.provider))
    return written


def _least(entries: Sequence[Entry], ours: str, theirs: Iterable[str], into: Where, findings: Findings) -> int | None:
    given = [bound for each in entries if (bound := getattr(each, ours)) is not None]
    for each in entries:
        for name in theirs:
            if name not in each.places:
                continue
            if ours == "context_window":
                findings.approximate(each.places[name], into, WINDOW)
            elif getattr(each, ours) != min(given):
                findings.approximate(each.places[name], into, ONE_FOR_ALL.format("least"))
            else:
                findings.exact(each.places[name], into)
    return min(given, default=None)


def _capabilities(entries: Sequence[Entry], providers: Mapping[str, Any], into: Where, findings: Findings) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for theirs, ours in (("supports_function_calling", "tools"), ("supports_vision", "vision")):
        if any(each.capabilities.get(ours) is False for each in entries):
            found[ours] = False
        for each in entries:
            if theirs in each.places:
                findings.exact(each.places[theirs], (*into, "capabilities", ours))
    if _embeds(entries, providers, into, findings):
        found["endpoints"] = ["embeddings"]
    return found


def _embeds(entries: Sequence[Entry], providers: Mapping[str, Any], into: Where, findings: Findings) -> bool:
    """Return whether a model is for embeddings alone, and has a provider that has them."""
    served = {endpoint for each in entries for endpoint in _endpoints(providers[each.provider])}
    embeds = "embeddings" in served and all(each.endpoint == "embeddings" for each in entries)
    for each in entries:
        if "mode" in each.places and embeds:
            findings.exact(each.places["mode"], (*into, "capabilities", "endpoints"))
        elif "mode" in each.places:
            findings.ignored(each.places["mode"], "all that its providers serve may be asked for")
    return embeds


def asked_at(entries: Sequence[Entry], providers: Mapping[str, Any], endpoints: frozenset[str]) -> list[str]:
    """Return at which of these endpoints a model can be asked for: some need a provider that has them."""
    served = {endpoint for each in entries for endpoint in _endpoints(providers[each.provider])}
    if all(each.endpoint == "embeddings" for each in entries):
        endpoints &= {"embeddings"}
    return [endpoint for endpoint in sorted(endpoints) if endpoint not in ("embeddings", "responses") or endpoint in served]


def _endpoints(provider: Mapping[str, Any]) -> Sequence[str]:
    if "endpoints" in provider or "preset" not in provider:
        return tuple(provider.get("endpoints", ("chat",)))
    return presets()[provider["preset"]].endpoints


def _priced(entries: Sequence[Entry], written: list[dict[str, Any]], into: Where, findings: Findings) -> dict[str, Any]:
    """Return the model's price: the dearest that any deployment has, so that nobody's budget reaches further than it did."""
    prices = [_whole(each, findings) for each in entries]
    known = [price for price in prices if price]
    if not known:
        return {}
    price = {
        field: max(each.get(field, each[_STANDS_IN.get(field, field)]) for each in known)
        for field in PRICES.values()
        if any(field in each for each in known) and not lacking(f"models.*.price.{field}")
    }
    alike = all(each == known[0] for each in known) and len(known) == len(entries)
    for each in entries:
        _tell_price(each, frozenset(price), into, findings, alike=alike)
    if not alike and not lacking("models.*.deployments.*.cost"):
        _cost(entries, prices, written)
    return {"price": {field: _plain(value) for field, value in price.items()}}


def _whole(entry: Entry, findings: Findings) -> dict[str, Decimal]:
    """Return an entry's price, nothing where a part of it is missing."""
    if entry.price and entry.endpoint == "embeddings":
        entry.price.setdefault("output", Decimal(0))
    if entry.price and not all(field in entry.price for field in _NEEDED):
        for theirs in PRICES:
            if theirs in entry.places:
                findings.ignored(entry.places[theirs], HALF)
        entry.price = {}
    return {field: _expressible(value) for field, value in entry.price.items()}


def _tell_price(entry: Entry, carried: frozenset[str], into: Where, findings: Findings, *, alike: bool) -> None:
    for theirs, ours in PRICES.items():
        if theirs not in entry.places or ours not in entry.price:
            continue
        where, place = (*into, "price", ours), entry.places[theirs]
        if ours not in carried:
            findings.ignored(place, "this kind of price is not in this release")
        elif not alike:
            findings.approximate(place, where, DEAREST)
        elif _expressible(entry.price[ours]) != entry.price[ours]:
            findings.approximate(place, where, FINER)
        else:
            findings.exact(place, where)


def _cost(entries: Sequence[Entry], prices: Sequence[dict[str, Decimal]], written: list[dict[str, Any]]) -> None:
    for each, price in zip(entries, prices, strict=True):
        for deployment in written:
            if price and (deployment["provider"], deployment["model"]) == (each.provider, each.upstream):
                deployment["cost"] = {field: _plain(value) for field, value in price.items()}


def _expressible(price: Decimal) -> Decimal:
    """Return a price that the file format can say: the same, or the next above it."""
    candidates = (price, *(price.quantize(finest, rounding=ROUND_CEILING) for finest in _FINEST))
    return next((each for each in candidates if reads(UsdPerMillion, str(_plain(each)))), candidates[-1])


def _plain(price: Decimal) -> Decimal:
    """Return a price without an exponent and without zeros at its end."""
    whole = price.normalize()
    return whole.quantize(Decimal(1)) if whole == whole.to_integral() else whole


def _timers(entries: Sequence[Entry], into: Where, defaults: Defaults, findings: Findings) -> dict[str, Any]:
    total = [each.timeout_s if each.timeout_s is not None else defaults.timeout_s for each in entries]
    silence = [each.stream_timeout_s if each.stream_timeout_s is not None else defaults.stream_timeout_s for each in entries]
    longest = max((each for each in total if each), default=None)
    silent = max((each for each in silence if each), default=None)
    where = (*into, "timeouts")
    for each in entries:
        if "timeout" in each.places and each.timeout_s == longest and len({*total}) == 1:
            findings.exact(each.places["timeout"], (*where, "total"))
        elif "timeout" in each.places:
            findings.approximate(each.places["timeout"], (*where, "total"), ONE_FOR_ALL.format("longest"))
        if "stream_timeout" in each.places:
            findings.approximate(each.places["stream_timeout"], where, SILENCE)
    timers: dict[str, str] = {}
    if silent is not None:
        silent = silent if longest is None else min(silent, longest)
        timers |= {"first_content": duration(silent), "idle": duration(silent)}
    return timers | ({} if longest is None else {"total": duration(longest)})
