"""Whether the names in a configuration lead somewhere: providers, models, tiers, plans, orgs, projects.

A reference to a model is its name; aliases are for clients alone.
"""

from collections.abc import Iterable, Iterator
from fnmatch import fnmatchcase

from gateway.config.parse import Parsed
from gateway.config.problems import Problem, Where, did_you_mean
from gateway.config.rights import BUILT_IN
from gateway.config.structs.tenancy import Key, OrgLimits
from gateway.policy.catalogue import Tier


def check(parsed: Parsed) -> Iterator[Problem]:
    """Yield each name that leads nowhere, twice or in a circle."""
    yield from _models(parsed)
    yield from _aliases(parsed)
    yield from _loops(parsed)
    yield from _tiers(parsed)
    yield from _tenants(parsed)
    yield from _keys(parsed)
    for index, name in enumerate(parsed.config.telemetry.propagate):
        yield from _unknown(parsed, ("telemetry", "propagate", index), "provider", name)


def warn(parsed: Parsed) -> Iterator[Problem]:
    """Yield each pattern that fits nothing, and each provider that nothing uses."""
    config = parsed.config
    used = {deployment.provider for model in config.models.values() for deployment in model.deployments}
    for name in config.providers.keys() - used:
        yield parsed.problem(("providers", name), "no model uses this provider")
    holders: list[tuple[Where, tuple[str, ...] | None, tuple[str, ...] | None]] = [
        *((("plans", name), plan.models, plan.providers) for name, plan in config.plans.items()),
        *((("keys", index), key.models, key.providers) for index, key in enumerate(config.keys)),
    ]
    for where, models, providers in holders:
        yield from _idle_patterns(parsed, (*where, "models"), models or (), parsed.names("models"))
        yield from _idle_patterns(parsed, (*where, "providers"), providers or (), parsed.names("providers"))


def _idle_patterns(parsed: Parsed, where: Where, patterns: Iterable[str], names: frozenset[str]) -> Iterator[Problem]:
    for index, pattern in enumerate(patterns):
        if not any(fnmatchcase(name, pattern) for name in names):
            yield parsed.problem((*where, index), f"'{pattern}' fits no name{did_you_mean(pattern, names)}")


def _unknown(parsed: Parsed, where: Where, kind: str, name: str) -> Iterator[Problem]:
    """Yield a problem unless the section of that kind has the name."""
    known = parsed.names(f"{kind}s")
    if name not in known:
        yield parsed.problem(where, f"unknown {kind} '{name}'{did_you_mean(name, known)}")


def _models(parsed: Parsed) -> Iterator[Problem]:
    for name, model in parsed.config.models.items():
        seen: set[tuple[str, str]] = set()
        for index, deployment in enumerate(model.deployments):
            where = ("models", name, "deployments", index)
            yield from _unknown(parsed, (*where, "provider"), "provider", deployment.provider)
            if (deployment.provider, deployment.model) in seen:
                yield parsed.problem(where, f"'{deployment.model}' at '{deployment.provider}' is deployed here already")
            seen.add((deployment.provider, deployment.model))
        for index, fallback in enumerate(model.fallbacks):
            yield from _unknown_model(parsed, ("models", name, "fallbacks", index), fallback)


def _unknown_model(parsed: Parsed, where: Where, name: str) -> Iterator[Problem]:
    owner = next((owner for owner, model in parsed.config.models.items() if name in model.aliases), None)
    if owner is not None and name not in parsed.names("models"):
        yield parsed.problem(where, f"'{name}' is an alias: write the model's name, '{owner}'")
    else:
        yield from _unknown(parsed, where, "model", name)


def _aliases(parsed: Parsed) -> Iterator[Problem]:
    owners = {name: name for name in parsed.names("models")}
    for name, model in parsed.config.models.items():
        for index, alias in enumerate(model.aliases):
            if alias in owners:
                taken = "the name of a model" if owners[alias] == alias else f"an alias of '{owners[alias]}'"
                yield parsed.problem(("models", name, "aliases", index), f"'{alias}' is already {taken}")
            else:
                owners[alias] = name


def _loops(parsed: Parsed) -> Iterator[Problem]:
    """Yield each circle of fallbacks once, at the model of the circle that comes first."""
    models = parsed.config.models
    done: set[str] = set()
    for start in models:
        path: list[str] = []
        yield from _circles(parsed, start, path, done)


def _circles(parsed: Parsed, name: str, path: list[str], done: set[str]) -> Iterator[Problem]:
    if name in path:
        circle = [*path[path.index(name) :], name]
        yield parsed.problem(("models", circle[-2], "fallbacks"), f"fallbacks go in a circle: {' -> '.join(circle)}")
    elif name not in done and name in parsed.config.models:
        path.append(name)
        for fallback in parsed.config.models[name].fallbacks:
            yield from _circles(parsed, fallback, path, done)
        path.pop()
        done.add(name)


def _tiers(parsed: Parsed) -> Iterator[Problem]:
    config = parsed.config
    priced = config.tiers.priced()
    if Tier.DEFAULT not in priced:
        yield parsed.problem(("tiers", "default"), "has no price: every downgrade ends at this tier")
    listed: list[tuple[Where, Iterable[str]]] = [
        *((("models", name, "tiers"), model.tiers or ()) for name, model in config.models.items()),
        *((("plans", name, "tiers"), plan.tiers) for name, plan in config.plans.items()),
        *((("keys", index, "tiers"), key.tiers or ()) for index, key in enumerate(config.keys)),
    ]
    for where, tiers in listed:
        for index, tier in enumerate(tiers):
            if tier not in priced and where in parsed.settings:
                yield parsed.problem((*where, index), f"nobody prices the tier '{tier}': add it to tiers")
    for name, model in config.models.items():
        if model.tiers is not None and Tier.DEFAULT not in model.tiers:
            yield parsed.problem(("models", name, "tiers"), "must hold 'default': every downgrade ends at this tier")


def _tenants(parsed: Parsed) -> Iterator[Problem]:
    for name, org in parsed.config.orgs.items():
        yield from _plan(parsed, ("orgs", name, "plan"), org.plan)
        yield from _limited_models(parsed, ("orgs", name), org.limits)
    for name, plan in parsed.config.plans.items():
        yield from _limited_models(parsed, ("plans", name), plan.limits)
    for index, key in enumerate(parsed.config.keys):
        yield from _limited_models(parsed, ("keys", index), key.limits)


def _plan(parsed: Parsed, where: Where, name: str | None) -> Iterator[Problem]:
    if name not in (None, BUILT_IN):
        yield from _unknown(parsed, where, "plan", str(name))


def _limited_models(parsed: Parsed, where: Where, limits: OrgLimits) -> Iterator[Problem]:
    for name in limits.per_model:
        yield from _unknown_model(parsed, (*where, "limits", "per_model", name), name)


def _keys(parsed: Parsed) -> Iterator[Problem]:
    for index, key in enumerate(parsed.config.keys):
        where = ("keys", index)
        yield from _plan(parsed, (*where, "plan"), key.plan)
        if key.org != BUILT_IN:
            yield from _unknown(parsed, (*where, "org"), "org", key.org)
        yield from _projects(parsed, where, key)


def _projects(parsed: Parsed, where: Where, key: Key) -> Iterator[Problem]:
    known = parsed.names("orgs", key.org, "projects")
    for index, project in enumerate(key.projects or ()):
        if project not in known:
            yield parsed.problem(
                (*where, "projects", index), f"org '{key.org}' has no project '{project}'{did_you_mean(project, known)}"
            )
    allowed = known if key.projects is None else key.projects
    if key.default_project is not None and key.default_project not in allowed:
        yield parsed.problem((*where, "default_project"), f"'{key.default_project}' is none of the key's projects")
