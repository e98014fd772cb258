"""The other's sections of settings: what they say of routing, of timers, of money and of the operator's own access."""

from collections.abc import Mapping
from decimal import Decimal, InvalidOperation
from typing import Any

import msgspec

from gateway.importing.accounts import NotImportableError
from gateway.importing.budgets import FOR_EVER, Carried, budget
from gateway.importing.fallbacks import Lists
from gateway.importing.fallbacks import read as read_lists
from gateway.importing.fields import Fields
from gateway.importing.findings import Findings
from gateway.importing.models import Defaults
from gateway.importing.numbers import duration, number
from gateway.importing.reasons import GENERAL, ROUTER, SETTINGS
from gateway.importing.references import References, UnwritableError, is_reference
from gateway.importing.routes import endpoints
from gateway.policy.credentials import is_secret
from gateway.policy.strategy import Strategy

STRATEGIES = {
    "least-busy": (
        Strategy.LEAST_BUSY,
        "each worker goes by its own requests here, as a share of max_concurrency or by weight",
    ),
    "latency-based-routing": (
        Strategy.LATENCY,
        "each worker goes by its own figures here, and looks elsewhere with one request in fifty",
    ),
}
"""Those that there are here too, with what is different about them."""

_SHUFFLE = "simple-shuffle"
_BOUNDED = ("usage-based-routing", "usage-based-routing-v2")
_ENFORCED = "enforce_model_rate_limits"

_LISTS = {"fallbacks": False, "context_window_fallbacks": True, "content_policy_fallbacks": True}

MASTER = "master"
"""The name of the key that the master key is."""

NOBODY = "0.0.0.0/32"
"""An address that no client has: an empty list lets nobody in there, and anybody here."""

CALENDAR = "counted in calendar periods here, UTC, with what was spent there left out"
IN_A_ROW = "faults in a row here, where it was faults a minute"
SOONER = "one probe at a time first, and longer at each that fails"
PER_WORKER = "a bound of each worker here"


class Settings(msgspec.Struct, kw_only=True):
    """What the sections came to. `sections` are ours, by name; `lists` are of models that stand in."""

    strategy: Strategy = Strategy.WEIGHTED
    defaults: Defaults = Defaults()
    by_tags: bool = False
    max_fallbacks: int | None = None
    lists: tuple[Lists, ...] = ()
    aliases: dict[str, tuple[str, tuple[str | int, ...]]] = {}
    sections: dict[str, Any] = {}
    keys: list[dict[str, Any]] = []
    database_url: str | None = None
    ips: tuple[str, ...] = ()
    everybodys: Carried | None = None


def read(values: Mapping[str, Any], references: References, findings: Findings) -> Settings:
    """Return what `router_settings`, `litellm_settings` and `general_settings` say."""
    router = Fields(values.get("router_settings"), ("router_settings",), findings)
    settings = Fields(values.get("litellm_settings"), ("litellm_settings",), findings)
    general = Fields(values.get("general_settings"), ("general_settings",), findings)
    found = Settings(sections={}, keys=[], aliases={})
    _strategy(router, found, findings)
    _timers(router, settings, found)
    _breaker(router, settings, found)
    _lists(router, settings, found, findings)
    _access(general, references, found, findings)
    _bounds(general, found)
    _reach(general, found, findings)
    _money(settings, found, findings)
    router.ignore_rest(ROUTER, "nothing here goes by it")
    settings.ignore_rest(SETTINGS, "nothing here goes by it")
    general.ignore_rest(GENERAL, "nothing here goes by it")
    return found


def _strategy(router: Fields, found: Settings, findings: Findings) -> None:
    given = router.take("routing_strategy")
    if given is not None:
        where, into = router.at("routing_strategy"), ("models", "*", "strategy")
        if str(given) in STRATEGIES:
            found.strategy, note = STRATEGIES[str(given)]
            findings.approximate(where, into, note)
            findings.remarks.setdefault(("models",), []).append(f"{found.strategy}: {note}")
        elif given == _SHUFFLE:
            findings.exact(where, into)
        else:
            findings.approximate(where, (), f"{given} is not a strategy here: deployments of one order share by weight")
    checks = router.take("optional_pre_call_checks")
    is_enforced = isinstance(checks, list) and _ENFORCED in checks
    found.defaults = msgspec.structs.replace(found.defaults, bounds_hold=is_enforced or given in _BOUNDED)
    if isinstance(checks, list) and set(checks) == {_ENFORCED}:
        findings.exact(router.at("optional_pre_call_checks"), ("models", "*", "deployments", "*", "limits"))
    elif checks is not None:
        findings.ignored(router.at("optional_pre_call_checks"), ROUTER["optional_pre_call_checks"])
    found.by_tags = bool(router.take("enable_tag_filtering"))
    if router.take("enable_tag_filtering") is not None:
        findings.ignored(router.at("enable_tag_filtering"), ROUTER["enable_tag_filtering"])


def _timers(router: Fields, settings: Fields, found: Settings) -> None:
    total = _number(router, "timeout")
    if total is not None:
        router.approximate("timeout", (), "the whole answer's time at one deployment here: models.*.timeouts.total")
    whole = _number(settings, "request_timeout")
    if whole is not None:
        settings.approximate("request_timeout", (), "the whole answer's time at one deployment here: models.*.timeouts.total")
    silent = _number(router, "stream_timeout")
    if silent is not None:
        router.approximate("stream_timeout", (), "the longest wait for the first content and between two events")
    found.defaults = msgspec.structs.replace(
        found.defaults, timeout_s=total if total is not None else whole, stream_timeout_s=silent
    )
    most = _number(router, "max_fallbacks")
    if most is not None:
        found.max_fallbacks = int(most)
        router.approximate("max_fallbacks", ("fallback", "max_models"), "of models in all here, where it was of lists of lists")


def _breaker(router: Fields, settings: Fields, found: Settings) -> None:
    """The last word is the router's."""
    breaker: dict[str, Any] = {}
    for fields in (settings, router):
        fails, cooldown = _number(fields, "allowed_fails"), _number(fields, "cooldown_time")
        if fails is not None:
            breaker["failures"] = int(fails) + 1
            fields.approximate("allowed_fails", ("breaker", "failures"), IN_A_ROW)
        if cooldown:
            breaker["open"] = duration(cooldown)
            fields.approximate("cooldown_time", ("breaker", "open"), SOONER)
    if breaker:
        found.sections["breaker"] = breaker


def _lists(router: Fields, settings: Fields, found: Settings, findings: Findings) -> None:
    lists = []
    for fields in (settings, router):
        for name, special in _LISTS.items():
            if (given := fields.take(name)) is not None:
                lists.append(read_lists(given, fields.at(name), findings, special=special))
        anybody = fields.take("default_fallbacks")
        if anybody is not None:
            lists.insert(0, read_lists([{"*": anybody}], fields.at("default_fallbacks"), findings))
            findings.exact(fields.at("default_fallbacks"), ("models", "*", "fallbacks"))
        for name in ("model_group_alias", "model_alias_map"):
            for alias, target in fields.mapping(name).items():
                model = target.get("model") if isinstance(target, Mapping) else target
                found.aliases[str(alias)] = (str(model), (*fields.at(name), str(alias)))
                if isinstance(target, Mapping) and target.get("hidden"):
                    findings.approximate((*fields.at(name), str(alias)), (), "aliases are listed here")
    found.lists = tuple(lists)


def _access(general: Fields, references: References, found: Settings, findings: Findings) -> None:
    given = general.take("master_key")
    url = general.take("database_url")
    if url is not None:
        found.database_url = str(url)
        findings.ignored(general.at("database_url"), "its keys are imported with --database URL; ours is another")
    if given is None:
        findings.approximate(general.at("master_key"), (), "absent: there everybody may call, here nobody without a key")
        return
    try:
        secret = references.text(given)
    except UnwritableError as error:
        findings.ignored(general.at("master_key"), f"it {error}")
        return
    if not is_reference(secret) and not is_secret(secret):
        note = "too short to be a secret here, which takes 16 characters: choose another for callers, and one for ops.admin_token"
        findings.ignored(general.at("master_key"), note)
        return
    found.keys.append({"name": MASTER, "secret": secret})
    # Who administers has another secret here, which no request of a model can give away: `ops.admin_token`, to be chosen.
    findings.exact(general.at("master_key"), ("keys", MASTER, "secret"))


def _bounds(general: Fields, found: Settings) -> None:
    body = _number(general, "max_request_size_mb")
    if body:
        found.sections.setdefault("limits", {})["body"] = f"{int(body)}MiB"
        general.exact("max_request_size_mb", ("limits", "body"))
    at_once = _number(general, "global_max_parallel_requests")
    if at_once:
        found.sections.setdefault("limits", {})["inflight"] = int(at_once)
        general.approximate("global_max_parallel_requests", ("limits", "inflight"), PER_WORKER)
    own = _number(general, "max_parallel_requests")
    if own:
        found.sections["plans"] = {"default": {"limits": {"concurrency": int(own)}}}
        general.exact("max_parallel_requests", ("plans", "default", "limits", "concurrency"))


def _reach(general: Fields, found: Settings, findings: Findings) -> None:
    """Take in what may be called, and from where."""
    routes = _listed(general.take("allowed_routes"))
    if routes is not None:
        found.defaults = msgspec.structs.replace(found.defaults, endpoints=endpoints(routes))
        findings.exact(general.at("allowed_routes"), ("models", "*", "capabilities", "endpoints"))
    ips = _listed(general.take("allowed_ips"))
    if ips is not None:
        found.ips = tuple(map(str, ips)) or (NOBODY,)
        for key in found.keys:
            key["ips"] = list(found.ips)
        findings.exact(general.at("allowed_ips"), ("keys", "*", "ips"))


def _money(settings: Fields, found: Settings, findings: Findings) -> None:
    amount, period = settings.take("max_budget"), settings.take("budget_duration")
    if amount is None:
        return
    try:
        usd = Decimal(str(amount))
    except InvalidOperation:
        findings.ignored(settings.at("max_budget"), "no number")
        return
    carried = budget(usd, None if period is None else str(period))
    found.sections["orgs"] = {"default": {"budget": {"usd": carried.usd, "period": carried.period}}}
    found.everybodys = carried
    into = ("orgs", "default", "budget")
    findings.approximate(settings.at("max_budget"), into, FOR_EVER if carried.ends else CALENDAR)
    if period is not None:
        findings.approximate(settings.at("budget_duration"), into, carried.note)


def _listed(value: Any) -> list[Any] | None:
    """Return a list that bounds: what is none bounds all the same, and does not work rather than not bind."""
    return value if value is None or isinstance(value, list) else [value]


def _number(fields: Fields, name: str) -> float | None:
    """Return a number, or None after telling that it is none."""
    try:
        return number(fields, name)
    except NotImportableError as error:
        fields.ignore(name, str(error))
        return None
