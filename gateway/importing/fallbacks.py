"""Which models stand in for which: the other's lists, followed to their ends, as one list a model.

There a model that stands in is stood in for by its own list in turn, and lists for too long prompts and for refused content are
apart. Here a model has one list, which is not followed further, and lists make no circles.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import msgspec

from gateway.config.problems import Where
from gateway.importing.findings import Findings

ANY = "*"

CIRCLE = "would close a circle, which models make with each other nowhere here: left out"
UNKNOWN = "names no model that was imported: left out"
FOLLOWED = "followed to the lists of those that stand in, since a list is not followed here"
ALIASED = "a model has the same list under all its names here, the one of its own name before its aliases'"
OTHER_LISTS = "one list for all reasons here: what stood in for this reason alone comes behind the others"
REQUEST_CHANGES = "a model that stands in gets the same request here: what is changed of it is left out"


class Lists(msgspec.Struct, frozen=True):
    """One of the other's sections of lists: the lists by model and their places, and whether they are for one reason alone."""

    where: Where
    by_model: Mapping[str, tuple[str, ...]]
    places: Mapping[str, Where]
    is_special: bool = False


def read(values: Any, where: Where, findings: Findings, *, special: bool = False) -> Lists:
    """Return the lists of a section: a list of mappings from a model to those that stand in for it."""
    by_model: dict[str, tuple[str, ...]] = {}
    places: dict[str, Where] = {}
    for place, each in enumerate(values if isinstance(values, list) else [values]):
        if not isinstance(each, Mapping):
            findings.ignored((*where, place), "expected a mapping from a model to those that stand in for it")
            continue
        for model, names in each.items():
            listed = names if isinstance(names, list) else [names]
            at = (*where, place, str(model))
            findings.exact(at, ("models", str(model), "fallbacks"))
            if any(isinstance(name, Mapping) for name in listed):
                findings.approximate(at, ("models", str(model), "fallbacks"), REQUEST_CHANGES)
            known = (name.get("model") if isinstance(name, Mapping) else name for name in listed)
            by_model.setdefault(str(model), tuple(str(name) for name in known if name))
            places.setdefault(str(model), at)
    return Lists(where, by_model, places, special)


def chains(models: Sequence[str], lists: Sequence[Lists], resolve: Mapping[str, str], findings: Findings) -> dict[str, list[str]]:
    """Return each model's list. `resolve` has the names of all models, and of their aliases the model's."""
    general: dict[str, tuple[str, ...]] = {}
    for each in lists:
        general |= {} if each.is_special else _by_name(each, resolve)
    special = [(each, _by_name(each, resolve)) for each in lists if each.is_special]
    found: dict[str, list[str]] = {}
    for model in models:
        own = general.get(model, general.get(ANY, ()))
        followed = [name for name in _followed(own, general, [model]) if name != model]
        if followed != [name for name in own if name != model]:
            _say(lists, model, resolve, FOLLOWED, findings)
        for section, by_model in special:
            further = [name for name in by_model.get(model, by_model.get(ANY, ())) if name not in (*followed, model)]
            if further:
                findings.approximate(section.where, ("models", model, "fallbacks"), OTHER_LISTS)
            followed += further
        found[model] = followed
    _tell_unknown(lists, resolve, findings)
    _tell_aliases(lists, resolve, findings)
    return _without_circles(found, lists, resolve, findings)


def _name(model: str, resolve: Mapping[str, str]) -> str:
    return resolve.get(model, model)


def _by_name(lists: Lists, resolve: Mapping[str, str]) -> dict[str, tuple[str, ...]]:
    """Return the lists of a section with the names of models for those of aliases; a model's own list holds before theirs."""
    found = {model: _resolved(names, resolve) for model, names in lists.by_model.items() if _name(model, resolve) == model}
    for model, names in lists.by_model.items():
        found.setdefault(_name(model, resolve), _resolved(names, resolve))
    return found


def _resolved(names: Sequence[str], resolve: Mapping[str, str]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(resolve[name] for name in names if name in resolve))


def _followed(own: Sequence[str], general: Mapping[str, Sequence[str]], seen: list[str]) -> Iterator[str]:
    """Yield who is asked after a model, each with those that stand in for it behind it, nobody twice."""
    for name in own:
        if name in seen:
            continue
        seen.append(name)
        yield name
        yield from _followed(general.get(name, ()), general, seen)


def _without_circles(
    found: dict[str, list[str]], lists: Sequence[Lists], resolve: Mapping[str, str], findings: Findings
) -> dict[str, list[str]]:
    """Leave out each entry that leads back to the model that it stands in for, the later ones of the file first."""
    kept: dict[str, list[str]] = {model: [] for model in found}

    def leads(start: str, end: str) -> bool:
        return start == end or any(leads(name, end) for name in kept.get(start, ()))

    for model, names in found.items():
        for name in names:
            if leads(name, model):
                _say(lists, model, resolve, CIRCLE, findings)
            else:
                kept[model].append(name)
    return kept


def _say(lists: Sequence[Lists], model: str, resolve: Mapping[str, str], note: str, findings: Findings) -> None:
    """Note something of a model's list, wherever it comes from."""
    into = ("models", model, "fallbacks")
    for each in lists:
        for key, place in each.places.items():
            if _name(key, resolve) in (model, ANY):
                findings.approximate(place, into, note)


def _tell_unknown(lists: Sequence[Lists], resolve: Mapping[str, str], findings: Findings) -> None:
    for each in lists:
        for model, names in each.by_model.items():
            where = each.places[model]
            if model != ANY and model not in resolve:
                findings.ignored(where, "stands for no model that was imported")
            elif any(name not in resolve for name in names):
                findings.approximate(where, (), UNKNOWN)


def _tell_aliases(lists: Sequence[Lists], resolve: Mapping[str, str], findings: Findings) -> None:
    """Note each list of a model that has an alias with another list there, or with none."""
    aliases = [(alias, model) for alias, model in resolve.items() if alias != model]
    for each in lists:
        for alias, model in aliases:
            own, other = each.by_model.get(model), each.by_model.get(alias)
            if own != other:
                findings.approximate(each.places[model if own is not None else alias], (), ALIASED)
