"""Which models a list of LiteLLM's allows, as names of ours: models, their aliases, access groups, patterns and its own words."""

from collections.abc import Collection, Iterable, Mapping
from fnmatch import fnmatchcase
from typing import Any

from gateway.importing.translation import Names

ALL = ("*", "all-proxy-models")
TEAMS = "all-team-models"
SPECIAL = frozenset({*ALL, TEAMS, "no-default-models"})
"""Words that are no model's; the last one allows nothing by itself."""

Models = frozenset[str] | None
"""None: all of them, and those that are yet to come."""


class Groups:
    """Groups of models that the tables have, by their ids."""

    def __init__(self, rows: Iterable[Mapping[str, Any]]) -> None:
        self._models = {str(row["access_group_id"]): [str(name) for name in row.get("access_model_names") or ()] for row in rows}

    def models(self, ids: Collection[Any]) -> list[str]:
        """Return the names that groups allow. One that is not there allows nothing."""
        return [name for each in ids for name in self._models.get(str(each), ())]


def allowed(row: Mapping[str, Any], names: Names, groups: Groups, *, in_team: bool = False) -> Models:
    """Return what a row allows by its `models` and its groups; an empty list allows everything, unless groups say what."""
    ids = row.get("access_group_ids") or ()
    listed = [str(name) for name in row.get("models") or ()]
    if not listed and not ids:
        return None
    if any(name in ALL for name in listed) or (in_team and TEAMS in listed):
        return None
    return frozenset(model for name in (*listed, *groups.models(ids)) for model in meant(name, names))


def meant(name: str, names: Names) -> frozenset[str]:
    """Return the models that one name of a list means; none, where it is nobody's here."""
    if name in names.groups:
        return names.groups[name]
    if name in names.models:
        return frozenset((name,))
    if name in names.aliases:
        return frozenset((names.aliases[name],))
    if "*" not in name:
        return frozenset()
    pattern = name.replace("[", "[[]").replace("?", "[?]")
    return frozenset(model for model in names.models if fnmatchcase(model, pattern))


def both(one: Models, other: Models) -> Models:
    """Return what two lists allow together."""
    if one is None or other is None:
        return other if one is None else one
    return one & other
