"""A configuration of LiteLLM's proxy as one of ours: read, told field by field, and written."""

import datetime
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import msgspec

from gateway.importing import fallbacks, settings
from gateway.importing.accounts import Accounts
from gateway.importing.budgets import Carried
from gateway.importing.entries import Entry, Reading, entry, groups_of
from gateway.importing.fields import Fields
from gateway.importing.findings import Findings
from gateway.importing.models import asked_at, model
from gateway.importing.notations import is_model_name
from gateway.importing.prices import of_base, priced
from gateway.importing.reasons import SECTIONS
from gateway.importing.references import References
from gateway.importing.settings import Settings
from gateway.importing.source import Source
from gateway.importing.vendors import VENDORS, split
from gateway.importing.writing import write
from gateway.policy.strategy import Strategy

Known = Mapping[str, Sequence[str]]
"""Names of models at each preset's vendor, which a wildcard stands for."""

HEAD = (
    "Imported from a configuration of LiteLLM's proxy. What differs from it is said where it is written;",
    "what was left out, and why, is what the import printed. Every field: config/README.md of Tiergate.",
)
_READ = ("model_list", "router_settings", "litellm_settings", "general_settings", "environment_variables", "credential_list")
OWN_DATABASE = "TIERGATE_DATABASE_URL"
"""The variable that stands in the file for the URL of a Postgres."""

_FOR_PRICES = "only what has a price may be asked for under a budget: {} left out"
BASE = "the catalogue's price of what it is at heart"
BASE_KNOWN = "the model has a price without it"
BASE_UNKNOWN = "the catalogue has no such model: write the model's price"
_MODELS, _ATTEMPTS = 4, 6
"""The file format's own `fallback.max_models` and `max_attempts`."""


class Names(msgspec.Struct, frozen=True):
    """What keys may be allowed by name: models, their aliases, access groups; and the models that have a price.

    `everybodys` is a budget of everybody's together, which is that of the org `default`.
    """

    models: tuple[str, ...]
    aliases: Mapping[str, str]
    groups: Mapping[str, frozenset[str]]
    priced: frozenset[str]
    ips: tuple[str, ...] = ()
    everybodys: Carried | None = None


class Translation(msgspec.Struct, frozen=True):
    """Our file, what became of theirs, and the names that its keys go by."""

    document: Mapping[str, Any]
    findings: Findings
    names: Names
    database_url: str | None

    def text(self, database_url: str | None = None) -> str:
        """Return our file; a database of ours is written down, by a variable where its URL may have a password."""
        document = dict(self.document)
        if database_url is not None:
            is_file = database_url.startswith("sqlite:")
            document = {"database": {"url": database_url if is_file else f"${{{OWN_DATABASE}}}"}} | document
        return write(document, self.findings.remarks, HEAD)


def translate(source: Source, known: Known, month_ends: str) -> Translation:
    """Return our file for theirs. `month_ends` is the day on which the running month is over."""
    findings, values = Findings(), source.values
    file = Fields(values, (), findings)
    references = References(file.mapping("environment_variables"))
    for place in range(len(source.included)):
        findings.exact(("include", place), ())
    _tell_variables(file, findings)
    found = settings.read(values, references, findings)
    reading = Reading(Accounts(references, _credentials(file, findings), findings), findings, found.by_tags)
    groups: dict[str, list[Entry]] = {}
    for each in _entries(file, reading, known, found):
        groups.setdefault(each.model, []).append(each)
    _leave_out_unserved(groups, reading, found)
    names = _named(groups, found, findings)
    models = _models(groups, names, reading, found)
    names = msgspec.structs.replace(names, priced=_priced(groups, models, reading))
    for name in values:
        if name not in _READ:
            findings.ignored((name,), SECTIONS.get(name, "not known to this import"))
    document = _document(models, names, reading, found, month_ends)
    return Translation(document, findings, names, found.database_url)


def _tell_variables(file: Fields, findings: Findings) -> None:
    for name in file.mapping("environment_variables"):
        findings.approximate(
            ("environment_variables", str(name)), (), "written where the file refers to it; nothing else sees it"
        )


def _credentials(file: Fields, findings: Findings) -> dict[str, Mapping[str, Any]]:
    found = {}
    for place, each in enumerate(file.list("credential_list")):
        if isinstance(each, Mapping) and isinstance(each.get("credential_values"), Mapping):
            found[str(each.get("credential_name"))] = each["credential_values"]
            findings.exact(("credential_list", place), ("providers",))
        else:
            findings.ignored(("credential_list", place), "has no credential_values")
    return found


def _entries(file: Fields, reading: Reading, known: Known, found: Settings) -> Iterator[Entry]:
    """Yield the deployments, wildcards as all that is known of them; what an alias hides is nobody's."""
    listed = file.list("model_list")
    names = {str(each.get("model_name")) for each in listed if isinstance(each, Mapping)}
    for place, each in enumerate(listed):
        where = ("model_list", place)
        name = str(each.get("model_name")) if isinstance(each, Mapping) else ""
        if name in found.aliases:
            reading.findings.ignored(where, "an alias has the same name, and holds before it")
        elif "*" in name:
            yield from _expanded(each, where, reading, {vendor: [*models] for vendor, models in known.items()}, names)
        elif not is_model_name(name):
            reading.findings.ignored(where, "not importable: its name has characters that no model's name has here")
        elif (one := entry(reading, each, where)) is not None:
            yield one


def _expanded(
    values: Mapping[str, Any], where: tuple[str | int, ...], reading: Reading, known: Known, taken: set[str]
) -> Iterator[Entry]:
    """Yield a deployment for each model that a wildcard stands for, but for those that have entries of their own."""
    given = values.get("litellm_params")
    params: Mapping[str, Any] = given if isinstance(given, Mapping) else {}
    pattern, target = str(values["model_name"]), str(params.get("model") or "")
    prefix, upstream = split(target, None)
    vendor = VENDORS.get(prefix or "")
    models = known.get(vendor.preset or "", ()) if vendor is not None else ()
    if upstream != "*" or pattern.count("*") != 1 or not models:
        reading.findings.ignored(where, "not importable: nothing tells here which models the wildcard stands for")
        return
    for name in models:
        public = pattern.replace("*", name)
        if public not in taken and is_model_name(public):
            one = entry(
                reading, {**values, "model_name": public, "litellm_params": {**params, "model": f"{prefix}/{name}"}}, where
            )
            if one is not None:
                yield one
    note = "stands for the models that the price catalogue knows; new ones are added by hand"
    reading.findings.approximate((*where, "model_name"), (), note)


def _leave_out_unserved(groups: dict[str, list[Entry]], reading: Reading, found: Settings) -> None:
    """Leave out each model that none of the routes is for that the proxy has."""
    allowed = found.defaults.endpoints
    if allowed is None:
        return
    for name, entries in [*groups.items()]:
        if not asked_at(entries, reading.accounts.providers, allowed):
            del groups[name]
            for each in entries:
                reading.findings.left_out(each.where, "not importable: none of the proxy's allowed_routes is for it")


def _named(groups: Mapping[str, list[Entry]], found: Settings, findings: Findings) -> Names:
    aliases: dict[str, str] = {}
    for alias, (target, where) in found.aliases.items():
        model_name = found.aliases[target][0] if target in found.aliases else target
        if model_name not in groups:
            findings.ignored(where, "stands for no model that was imported")
        elif not is_model_name(alias):
            findings.ignored(where, "has characters that no model's name has here")
        else:
            aliases[alias] = model_name
            findings.exact(where, ("models", model_name, "aliases"))
    return Names(
        models=tuple(groups),
        aliases=aliases,
        groups={group: frozenset(models) for group, models in groups_of(groups).items()},
        priced=frozenset(),
        ips=found.ips,
        everybodys=found.everybodys,
    )


def _models(groups: Mapping[str, list[Entry]], names: Names, reading: Reading, found: Settings) -> dict[str, dict[str, Any]]:
    resolve = {**{name: name for name in groups}, **names.aliases}
    stand_ins = fallbacks.chains(tuple(groups), found.lists, resolve, reading.findings)
    models: dict[str, dict[str, Any]] = {}
    for name, entries in groups.items():
        aliases = [alias for alias, target in names.aliases.items() if target == name]
        written = model(name, entries, reading.accounts.providers, found.defaults, reading.findings)
        if stand_ins[name]:
            written["fallbacks"] = stand_ins[name]
        if found.strategy is not Strategy.WEIGHTED:
            written["strategy"] = str(found.strategy)
        models[name] = ({"aliases": aliases} if aliases else {}) | written
    return models


def _priced(groups: Mapping[str, list[Entry]], models: dict[str, dict[str, Any]], reading: Reading) -> frozenset[str]:
    """Return the models that have a price, after writing one for those that are known by another name alone."""
    known = priced(reading.accounts.providers, models)
    today = datetime.datetime.now(datetime.UTC).date()
    for name, entries in groups.items():
        for each in entries:
            if each.base_model is None:
                continue
            price = None if name in known else of_base(VENDORS[each.prefix].preset, each.base_model, today)
            if price is None:
                reading.findings.ignored(each.places["base_model"], BASE_KNOWN if name in known else BASE_UNKNOWN)
                continue
            models[name] = {**models[name], "price": price}
            known |= {name}
            reading.findings.approximate(each.places["base_model"], ("models", name, "price"), BASE)
    return known


def _document(
    models: dict[str, dict[str, Any]], names: Names, reading: Reading, found: Settings, month_ends: str
) -> dict[str, Any]:
    findings = reading.findings
    sections = dict(found.sections)
    document: dict[str, Any] = {name: sections.pop(name) for name in ("ops",) if name in sections}
    used = {each["provider"] for written in models.values() for each in written["deployments"]}
    document["providers"] = {name: provider for name, provider in reading.accounts.providers.items() if name in used}
    document["models"] = models
    if rules := _rules(models, found, findings):
        document["fallback"] = rules
    if found.everybodys is not None:
        _within_budget(names, found, findings, month_ends)
    if found.keys:
        sections["keys"] = found.keys
    return document | sections


def _rules(models: Mapping[str, Mapping[str, Any]], found: Settings, findings: Findings) -> dict[str, Any]:
    longest = max((len(written.get("fallbacks", ())) for written in models.values()), default=0)
    if not longest:
        return {}
    note = "any failure leads on there; here a model's limits, faults, refusals of the prompt's length and of its content do"
    findings.remarks.setdefault(("fallback", "on"), []).append(note)
    most = longest if found.max_fallbacks is None else min(longest, found.max_fallbacks)
    attempts = max(
        sum(len(models[name]["deployments"]) for name in (one, *written.get("fallbacks", ()))) for one, written in models.items()
    )
    return {
        "on": ["capacity", "unavailable", "context_length", "content_filter"],
        **({} if most < _MODELS and found.max_fallbacks is None else {"max_models": 1 + most}),
        **({"max_attempts": attempts} if attempts > _ATTEMPTS else {}),
    }


def _within_budget(names: Names, found: Settings, findings: Findings, month_ends: str) -> None:
    """Keep the file's keys inside its budget: only what has a price is asked for under one, and one for ever ends."""
    unpriced = [name for name in names.models if name not in names.priced]
    for key in found.keys:
        if unpriced:
            key["models"] = [name for name in names.models if name in names.priced]
            findings.remarks.setdefault(("keys",), []).append(_FOR_PRICES.format(", ".join(unpriced)))
        if found.everybodys is not None and found.everybodys.ends:
            key["expires"] = month_ends
