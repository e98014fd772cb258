"""The deployments of one model: who is tried before whom, and who gets how much of what is alike."""

from collections.abc import Sequence
from typing import Any

from gateway.config.problems import Where
from gateway.importing.entries import Entry
from gateway.importing.findings import Findings

_METRICS = ("weight", "rpm", "tpm")
MOST_ORDERS = 100

RATE = "a bound here, where it was a share of the traffic alone"
TWICE = "the same model at the same account twice: one deployment here, with the sum of both"
UNORDERED = "has no order beside some that have: tried last"
UNWEIGHTED = "has no weight beside some that have: gets nothing while those can serve, as there"


def ranked(entries: Sequence[Entry]) -> list[tuple[Entry, int, float]]:
    """Return each entry with its order, from 1 without gaps, and its weight inside that."""
    levels: list[list[tuple[Entry, float]]] = []
    orders = sorted({each.order for each in entries if each.order is not None})
    for order in (*orders, None):
        levels.extend(_levels([each for each in entries if each.order == order]))
    return [(each, min(rank, MOST_ORDERS), weight) for rank, level in enumerate(levels, 1) for each, weight in level]


def _levels(alike: list[Entry]) -> list[list[tuple[Entry, float]]]:
    """Split entries of one order: those with a weight share what comes, and the others get it only when those cannot."""
    if not alike:
        return []
    metric = next((place for place in range(len(_METRICS)) if any(each.weights[place] for each in alike)), None)
    if metric is None:
        return [[(each, 1.0) for each in alike]]
    sharing = [each for each in alike if each.weights[metric]]
    least = min(each.weights[metric] for each in sharing)
    level = [(each, round(each.weights[metric] / least, 3)) for each in sharing]
    return [level, *_levels([each for each in alike if not each.weights[metric]])]


def deployments(model: str, entries: Sequence[Entry], findings: Findings, *, bounds_hold: bool) -> list[dict[str, Any]]:
    """Return the deployments as the file has them, each once. With `bounds_hold`, rates are bounds there too."""
    written: list[dict[str, Any]] = []
    places: dict[tuple[str, str], int] = {}
    has_orders = any(each.order is not None for each in entries)
    in_order = sorted(ranked(entries), key=lambda found: found[1])
    for each, order, weight in in_order:
        known = places.get((each.provider, each.upstream))
        if known is not None:
            findings.approximate(each.where, ("models", model, "deployments", known), TWICE)
            _add(written[known], each, order, weight)
            continue
        into = ("models", model, "deployments", len(written))
        places[(each.provider, each.upstream)] = len(written)
        written.append(_deployment(each, order, weight))
        _tell(each, findings, into, bounds_hold=bounds_hold)
        if has_orders and each.order is None:
            findings.approximate(each.where, into, UNORDERED)
    return written


def _deployment(entry: Entry, order: int, weight: float) -> dict[str, Any]:
    limits = {name: value for name, value in (("rpm", entry.rpm), ("tpm", entry.tpm)) if value is not None}
    return {
        "provider": entry.provider,
        "model": entry.upstream,
        **({} if entry.max_concurrency is None else {"max_concurrency": entry.max_concurrency}),
        **({} if weight == 1 else {"weight": int(weight) if weight == int(weight) else weight}),
        **({} if order == 1 else {"order": order}),
        **({"limits": limits} if limits else {}),
    }


def _add(known: dict[str, Any], entry: Entry, order: int, weight: float) -> None:
    """Add an entry to the deployment that it repeats; a bound that one of both lacks bounds neither there."""
    if known.get("order", 1) == order:
        total = known.get("weight", 1) + weight
        known["weight"] = int(total) if total == int(total) else round(total, 3)
    own = {"rpm": entry.rpm, "tpm": entry.tpm}
    limits = {name: known.get("limits", {}).get(name, 0) + value for name, value in own.items() if value is not None}
    known["limits"] = {name: value for name, value in limits.items() if name in known.get("limits", {})}
    if "max_concurrency" in known and entry.max_concurrency is not None:
        known["max_concurrency"] += entry.max_concurrency
    else:
        known.pop("max_concurrency", None)
    if not known["limits"]:
        del known["limits"]


def _tell(entry: Entry, findings: Findings, into: Where, *, bounds_hold: bool) -> None:
    for theirs, ours in (("order", "order"), ("weight", "weight"), ("max_parallel_requests", "max_concurrency")):
        if theirs in entry.places:
            findings.exact(entry.places[theirs], (*into, ours))
    for name in ("rpm", "tpm"):
        if name in entry.places and bounds_hold:
            findings.exact(entry.places[name], (*into, "limits", name))
        elif name in entry.places:
            findings.approximate(entry.places[name], (*into, "limits", name), RATE)
    if "weight" in entry.places and not entry.weights[0]:
        findings.approximate(entry.places["weight"], into, UNWEIGHTED)
