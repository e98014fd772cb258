"""Whether the values of a configuration can work: addresses, listeners, stores, limits.

Names are `naming`'s to check, secrets `secrecy`'s; the bounds of one value alone are in its type.
"""

import re
from collections.abc import Iterator

import msgspec

from gateway.admission.endpoint import parse_store
from gateway.config.addresses import collector_problem, is_public_http, url_problem
from gateway.config.parse import Parsed
from gateway.config.problems import Problem, Where
from gateway.config.rights import enforced, rights
from gateway.config.structs.supply import Provider, Quirks
from gateway.config.structs.tenancy import KeyLimits, Limits, OrgLimits
from gateway.policy.charges import Charge, Reach
from gateway.policy.lacking import NEEDED
from gateway.policy.limits import charges
from gateway.providers import NATURES
from gateway.wire.request import Endpoint

USUAL_TOKENS = 1024
"""What one ordinary request holds: a page of prompt and an answer of a few hundred tokens."""

NO_QUIRKS = Quirks()

LEAST_RETENTION_S = 33 * 86_400
"""The longest period of a budget, and a day for what began before it and ended in it."""

DATABASE = re.compile(r"(sqlite:///|postgres(ql)?://[^/]*/)[^?]")
"""What names a file or a database."""

_RATES = ("rpm", "tpm", "tpm_in", "tpm_out", "rpd")
_RESERVED_HEADERS = frozenset({"host", "content-length", "transfer-encoding", "connection", "content-type", "authorization"})


def check(parsed: Parsed) -> Iterator[Problem]:
    """Yield each value that cannot work."""
    yield from _listeners(parsed)
    yield from _stores(parsed)
    yield from _ledger(parsed)
    yield from _providers(parsed)
    for where, limits in _all_limits(parsed):
        yield from _limits(parsed, where, limits)
    for where, choice in _over_limits(parsed):
        if choice is True:
            yield parsed.problem(where, "true sets no bounds: write them, such as {rpm: 600, concurrency: 32}")
    over_limit = parsed.config.tiers.over_limit
    if over_limit is not None and over_limit.queue_s:
        yield parsed.problem(("tiers", "over-limit", "queue"), "must be 0s: service over the limit never waits")
    wrong = collector_problem(parsed.config.telemetry.otlp_endpoint)
    if wrong is not None:
        yield parsed.problem(("telemetry", "otlp_endpoint"), wrong)
    if not parsed.names("models"):
        yield parsed.problem(("models",), "at least one model is needed")


def warn(parsed: Parsed) -> Iterator[Problem]:
    """Yield each value that works, but hardly as it was meant."""
    for name, provider in parsed.config.providers.items():
        if is_public_http(provider.base_url):
            yield parsed.problem(("providers", name, "base_url"), "the credential and all prompts cross the network in clear")
    yield from _trust(parsed)
    yield from _logged(parsed)
    yield from _models(parsed)
    for where, limits in _all_limits(parsed):
        yield from _tight(parsed, where, limits)
    yield from _default_tiers(parsed)


def _trust(parsed: Parsed) -> Iterator[Problem]:
    for listener, proxies in (("api", parsed.config.api.trusted_proxies), ("ops", parsed.config.ops.trusted_proxies)):
        for index, network in enumerate(proxies):
            if network.endswith("/0"):
                yield parsed.problem(
                    (listener, "trusted_proxies", index), "believes everybody: clients can say that they are anywhere"
                )


def _logged(parsed: Parsed) -> Iterator[Problem]:
    telemetry = parsed.config.telemetry
    if telemetry.log_bodies and telemetry.level in ("debug", "info"):
        yield parsed.problem(("telemetry", "log_bodies"), "prompts and answers are written to the log, for whoever reads it")
    elif telemetry.log_bodies:
        message = f"writes nothing at level {telemetry.level}: bodies are logged at info"
        yield parsed.problem(("telemetry", "log_bodies"), message)


def _models(parsed: Parsed) -> Iterator[Problem]:
    for name, model in parsed.config.models.items():
        if model.timeouts.first_content_s > model.timeouts.total_s:
            yield parsed.problem(
                ("models", name, "timeouts", "first_content"), "is longer than total, which ends the request first"
            )


def _listeners(parsed: Parsed) -> Iterator[Problem]:
    api, ops = parsed.config.api, parsed.config.ops
    if api.port == ops.port != 0:
        yield parsed.problem(("ops", "port"), f"{ops.port} is the API's port: the two listeners are never one")
    if parsed.config.leases.heartbeat_s * 2 > parsed.config.leases.ttl_s:
        yield parsed.problem(("leases", "heartbeat"), "must be at most half of ttl, or one late renewal ends a running request")


def _stores(parsed: Parsed) -> Iterator[Problem]:
    redis, database = parsed.config.redis, parsed.config.database
    if not redis.embedded:
        try:
            parse_store(redis.url.reveal())
        except ValueError as error:
            yield parsed.problem(("redis", "url"), f"expected embedded, or the URL of a store: {error}")
    kept_in_sqlite = database.url.reveal().startswith("sqlite:///")
    if DATABASE.match(database.url.reveal()) is None:
        yield parsed.problem(("database", "url"), "expected sqlite:///var/tiergate.db or postgresql://user:password@host/name")
    if kept_in_sqlite and not redis.embedded and not database.single_host:
        message = "SQLite with a Redis of its own is for one host: every replica must open the same file; say single_host: true"
        yield parsed.problem(("database", "url"), message)


def _ledger(parsed: Parsed) -> Iterator[Problem]:
    if parsed.config.ledger.retention_s < LEAST_RETENTION_S:
        message = "at least 33d: what a budget of a month has spent is read from its requests where Redis has lost it"
        yield parsed.problem(("ledger", "retention"), message)


def _providers(parsed: Parsed) -> Iterator[Problem]:
    for name, provider in parsed.config.providers.items():
        where = ("providers", name)
        yield from _address(parsed, where, provider)
        yield from _dialect(parsed, where, provider)
        yield from _lacks(parsed, where, provider)
        if provider.proxy is not None and provider.transport != "httpx":
            yield parsed.problem((*where, "proxy"), "needs transport: httpx")
        for header, value in provider.headers.items():
            if header.lower() in _RESERVED_HEADERS or not _is_token(header):
                yield parsed.problem((*where, "headers", header), "cannot be set: it is no header name, or the gateway writes it")
            if not (value.reveal().isascii() and value.reveal().isprintable()):
                yield parsed.problem((*where, "headers", header), "must be printable ASCII")


def _address(parsed: Parsed, where: Where, provider: Provider) -> Iterator[Problem]:
    if provider.base_url:
        wrong = url_problem(provider.base_url, allow_http=provider.allow_http)
        if wrong is not None:
            yield parsed.problem((*where, "base_url"), wrong)
    elif provider.preset is not None:
        yield parsed.problem(
            (*where, "base_url"), f"is missing: the preset {provider.preset} has none, yours is where you run it"
        )
    elif not {(*where, "base_url"), (*where, "preset")} & parsed.settings.keys():
        yield parsed.problem((*where, "base_url"), "is missing: write it, or name a preset that has one")


def _dialect(parsed: Parsed, where: Where, provider: Provider) -> Iterator[Problem]:
    nature = NATURES[provider.dialect]
    lacking = [endpoint for endpoint in provider.endpoints if endpoint not in nature.endpoints]
    if lacking:
        yield parsed.problem((*where, "endpoints"), f"the dialect {provider.dialect} has no {', '.join(lacking)}")
    # Who is asked for Messages as they are gets back what it thought as it told it.
    idle = (*nature.idle_quirks, "reasoning_back") if Endpoint.MESSAGES in nature.endpoints else nature.idle_quirks
    for quirk in idle:
        if getattr(provider.quirks, quirk) != getattr(NO_QUIRKS, quirk):
            yield parsed.problem((*where, "quirks", quirk), f"means nothing in the dialect {provider.dialect}")
    if Endpoint.MESSAGES not in nature.endpoints and provider.betas is not None:
        yield parsed.problem((*where, "betas"), f"means nothing in the dialect {provider.dialect}")
    if not provider.base_url:
        return
    is_classic = provider.dialect == "azure" and not provider.base_url.rstrip("/").endswith("/v1")
    if is_classic and provider.api_version is None:
        yield parsed.problem((*where, "api_version"), "is missing: only a base URL that ends in /openai/v1 goes without")
    if provider.api_version is not None and not is_classic:
        yield parsed.problem((*where, "api_version"), "is for dialect: azure, and a base URL that does not end in /v1")


def _lacks(parsed: Parsed, where: Where, provider: Provider) -> Iterator[Problem]:
    for index, field in enumerate(provider.lacks):
        if field in NEEDED:
            yield parsed.problem((*where, "lacks", index), "cannot be left out: it is the gateway's to send or to obey")
    if provider.lacks and not NATURES[provider.dialect].passes_fields:
        yield parsed.problem((*where, "lacks"), f"means nothing in the dialect {provider.dialect}")


def _is_token(name: str) -> bool:
    return name.isascii() and name.replace("-", "").replace("_", "").isalnum()


def _all_limits(parsed: Parsed) -> Iterator[tuple[Where, Limits]]:
    """Yield every set of limits as it holds (a key's with its plan's), and where the file writes it."""
    config = parsed.config
    scopes: list[tuple[Where, OrgLimits]] = [
        *((("plans", name), plan.limits) for name, plan in config.plans.items()),
        *((("orgs", name), org.limits) for name, org in config.orgs.items()),
        *((("keys", index), rights(config, key).limits) for index, key in enumerate(config.keys) if key.limits != KeyLimits()),
    ]
    for owner, limits in scopes:
        yield (*owner, "limits"), limits
        for model, narrower in limits.per_model.items():
            yield (*owner, "limits", "per_model", model), narrower
    for name, org in config.orgs.items():
        for project, found in org.projects.items():
            yield ("orgs", name, "projects", project, "limits"), found.limits


def _limits(parsed: Parsed, where: Where, limits: Limits) -> Iterator[Problem]:
    for dimension in _RATES:
        try:
            _bucket(limits, dimension)
        except ValueError as error:
            yield parsed.problem((*where, dimension), str(error))


def _tight(parsed: Parsed, where: Where, limits: Limits) -> Iterator[Problem]:
    for dimension in ("tpm", "tpm_in", "tpm_out") if limits.strict else ():
        for bucket in _bucket(limits, dimension):
            if bucket.capacity < USUAL_TOKENS:
                message = f"strict leaves {bucket.capacity} tokens at once: less than one usual request ({USUAL_TOKENS})"
                yield parsed.problem((*where, dimension), message)


def _bucket(limits: Limits, dimension: str) -> tuple[Charge, ...]:
    """Return the bucket that one limit makes, if it is set. Raises ValueError for one that cannot be counted."""
    alone = msgspec.structs.replace(enforced(limits), **{other: None for other in _RATES if other != dimension}, concurrency=None)
    return charges("", alone, reach=Reach.REQUEST, tenant=True)


def _over_limits(parsed: Parsed) -> Iterator[tuple[Where, object]]:
    for name, plan in parsed.config.plans.items():
        yield ("plans", name, "over_limit"), plan.over_limit
    for index, key in enumerate(parsed.config.keys):
        yield ("keys", index, "over_limit"), key.over_limit


def _default_tiers(parsed: Parsed) -> Iterator[Problem]:
    for index, key in enumerate(parsed.config.keys):
        plan = rights(parsed.config, key)
        allowed = {"auto", *plan.tiers, *(["no-limit"] if key.allow_no_limit else [])}
        if plan.default_tier is not None and plan.default_tier not in allowed:
            message = f"its default tier '{plan.default_tier}' is none of its tiers, so it gets 'default'"
            yield parsed.problem(("keys", index), message)
