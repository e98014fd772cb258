"""A `Config` to the `Catalogue` that requests are decided by: names resolved, plans applied to keys, prices in nano-USD.

Takes a configuration that `check` found sound.
"""

from datetime import UTC, datetime

from msgspec.structs import asdict, replace

from gateway.config.price_list import price_list
from gateway.config.prices import Pricing
from gateway.config.rights import enforced, enforced_on_models, plan_name, rights
from gateway.config.structs import Config
from gateway.config.structs.capabilities import Capabilities, DeploymentCapabilities
from gateway.config.structs.serving import Breaker
from gateway.config.structs.supply import CapacityLimits, Deployment, Model, ModelLimits, Provider
from gateway.config.structs.tenancy import Budget, FlexGuards, Guards, Key, Org
from gateway.policy import breaker as policy
from gateway.policy import catalogue, means
from gateway.policy.catalogue import Catalogue, Secret, Tier
from gateway.policy.credentials import digest, parse_digest
from gateway.policy.fallback import Fallback
from gateway.providers import NATURES
from gateway.wire.betas import USUAL
from gateway.wire.contracts import NAMED, PREFIXES

_MILLION = 1_000_000

_NANO_USD = 1_000_000_000


def compile_catalogue(config: Config, pepper: bytes) -> Catalogue:
    """Return the snapshot that this configuration means. `pepper` is what the digests of keys are made with."""
    priced = config.tiers.priced()
    providers = {name: _provider(name, provider, config) for name, provider in config.providers.items()}
    pricing = Pricing(price_list(), config.providers, int(datetime.now(UTC).timestamp() * 1000))
    models = {name: _model(name, model, providers, frozenset(priced)) for name, model in config.models.items()}
    models = {name: _priced(model, config.models[name], pricing) for name, model in models.items()}
    return Catalogue(
        models=models,
        names=models | {alias: model for model in models.values() for alias in model.aliases},
        orgs={name: compile_org(name, org) for name, org in config.orgs.items()},
        keys={_known_by(key, pepper): compile_key(config, key) for key in config.keys},
        tiers={
            tier: catalogue.TierTerms(price=float(terms.price), headroom=terms.headroom, queue_s=terms.queue_s)
            for tier, terms in priced.items()
        },
        fallback=Fallback(
            on=frozenset(config.fallback.on),
            max_models=config.fallback.max_models,
            max_attempts=config.fallback.max_attempts,
            retry_budget=config.fallback.retry_budget,
        ),
        breaker=_breaker(config.breaker),
        prefixes={**PREFIXES, **{prefix: NAMED[name] for prefix, name in config.dialects.items()}},
        hide_providers=config.api.hide_providers,
    )


def _breaker(breaker: Breaker) -> policy.Breaker:
    return policy.Breaker(
        failures=breaker.failures,
        ratio_ppm=round(breaker.ratio * _MILLION),
        window_ms=round(breaker.window_s * 1000),
        open_ms=round(breaker.open_s * 1000),
        max_open_ms=round(breaker.max_open_s * 1000),
        cooldown_max_ms=round(breaker.cooldown_max_s * 1000),
    )


def _provider(name: str, provider: Provider, config: Config) -> catalogue.Provider:
    quirks, nature = provider.quirks, NATURES[provider.dialect]
    keys = provider.api_keys or (provider.api_key or Secret(""),)
    return catalogue.Provider(
        name=name,
        dialect=provider.dialect,
        nature=nature if provider.allow_store else nature.without_store(),
        base_url=provider.base_url.rstrip("/"),
        api_version=provider.api_version,
        api_key=keys[0],
        further_keys=keys[1:],
        tiers=provider.tiers,
        endpoints=nature.served(provider.endpoints),
        headers={header: value.reveal() for header, value in provider.headers.items()},
        quirks=catalogue.Quirks(
            fail_fast=quirks.fail_fast,
            stream_options=quirks.stream_options,
            max_tokens_field=quirks.max_tokens_field,
            embeddings_base64=quirks.embeddings_base64,
            adaptive_thinking=quirks.adaptive_thinking,
            reasoning_outside=quirks.reasoning_outside,
            reasoning_back=quirks.reasoning_back,
            continuous_usage=quirks.continuous_usage,
            finish_chunk_usage=quirks.finish_chunk_usage,
            offset_past_prompt=quirks.text_offset == "openai",
        ),
        betas=USUAL if provider.betas is None else provider.betas,
        forward_unknown_fields=provider.unknown_fields == "forward",
        lacks=frozenset(provider.lacks),
        allow_store=provider.allow_store,
        hears_out=provider.on_disconnect == "drain",
        names_tier_always=provider.tier_echo == "always",
        propagates=name in config.telemetry.propagate,
        transport=provider.transport,
        ca_file=provider.ca_file,
        proxy=None if provider.proxy is None else provider.proxy.reveal(),
        most_event_bytes=config.limits.sse_event_bytes,
    )


def _model(name: str, model: Model, providers: dict[str, catalogue.Provider], priced: frozenset[Tier]) -> catalogue.Model:
    timeouts = model.timeouts
    return catalogue.Model(
        name=name,
        aliases=model.aliases,
        context_window=model.context_window,
        max_output_tokens=model.max_output_tokens,
        max_n=model.max_n,
        tiers=priced if model.tiers is None else frozenset(model.tiers),
        deployments=tuple(_deployment(name, model, each, providers[each.provider]) for each in model.deployments),
        fallbacks=model.fallbacks,
        timeouts=catalogue.Timeouts(**{name: getattr(timeouts, name) for name in catalogue.Timeouts.__struct_fields__}),
        limits=_capacity(model.limits),
        strategy=model.strategy,
        queue=catalogue.Queue(max_waiters=model.queue.max_waiters, per_org=model.queue.per_org),
        capabilities=_capabilities(model.capabilities),
    )


def _deployment(name: str, model: Model, deployment: Deployment, provider: catalogue.Provider) -> catalogue.Deployment:
    own, whole = deployment.capabilities or DeploymentCapabilities(), model.capabilities
    known = {name: value for name, value in provider.nature.known_of(deployment.model).items() if getattr(whole, name) is None}
    written = {name: value for name, value in asdict(own).items() if value is not None}
    can = replace(whole, **{**known, **written})
    return catalogue.Deployment(
        id=f"{name}/{deployment.provider}/{deployment.model}",
        provider=provider,
        upstream_model=deployment.model,
        max_concurrency=deployment.max_concurrency,
        weight=deployment.weight,
        order=deployment.order,
        limits=_capacity(deployment.limits),
        capabilities=None if _capabilities(can) == _capabilities(whole) else _capabilities(can),
        takes_priority=can.priority_field and "priority_field" not in provider.nature.idle_capabilities,
        thinking=can.thinking or "budget",
    )


def _capabilities(can: Capabilities) -> means.Capabilities:
    said = {name: value for name, value in asdict(can).items() if value is not None}
    known = {name: said[name] for name in means.Capabilities.__struct_fields__ if name in said}
    return means.Capabilities(**known, thinking_off=can.thinking != "always")


def _priced(model: catalogue.Model, written: Model, pricing: Pricing) -> catalogue.Model:
    """Return a model with its price, and its deployments with what they cost the operator."""
    costs = map(pricing.of_deployment, written.deployments)
    deployments = tuple(replace(each, cost=cost) for each, cost in zip(model.deployments, costs, strict=True))
    return replace(model, price=pricing.of_model(written), deployments=deployments)


def _capacity(limits: CapacityLimits) -> catalogue.Limits:
    shadow = isinstance(limits, ModelLimits) and limits.shadow
    return catalogue.Limits(rpm=limits.rpm, tpm=limits.tpm, concurrency=limits.concurrency, shadow=shadow)


def compile_org(name: str, org: Org) -> catalogue.Org:
    """Return what all keys of an org share."""
    per_model = enforced_on_models(org.limits)
    return catalogue.Org(name=name, limits=enforced(org.limits), per_model=per_model, budget=_budget(org.budget))


def _budget(budget: Budget | None) -> catalogue.Budget | None:
    if budget is None:
        return None
    return catalogue.Budget(
        nano_usd=None if budget.usd is None else int(budget.usd * _NANO_USD),
        tokens=budget.tokens,
        period=budget.period,
        alert_ppm=round(budget.alert * _MILLION),
    )


def _known_by(key: Key, pepper: bytes) -> bytes:
    return parse_digest(key.digest or "") if key.secret is None else digest(pepper, key.secret.reveal())


def compile_key(config: Config, key: Key) -> catalogue.Key:
    """Return a key with its plan applied."""
    plan = rights(config, key)
    projects = config.orgs.get(key.org, Org()).projects
    return catalogue.Key(
        id=key.name,
        name=key.name,
        org=key.org,
        project=key.default_project,
        projects=None if key.projects is None else frozenset(key.projects),
        project_tiers={name: Tier(project.tier) for name, project in projects.items()},
        project_budgets={name: budget for name, project in projects.items() if (budget := _budget(project.budget)) is not None},
        project_limits={name: enforced(project.limits) for name, project in projects.items()},
        plan=plan_name(config, key),
        limits=enforced(plan.limits),
        per_model=enforced_on_models(plan.limits),
        concurrency_per_model=plan.limits.concurrency_per_model,
        budget=_budget(plan.budget),
        tiers=frozenset(Tier(tier) for tier in plan.tiers),
        default_tier=plan.default_tier,
        auto=plan.auto,
        flex=None if plan.flex is None else _guards(plan.flex),
        over_limit=_guards(plan.over_limit) if isinstance(plan.over_limit, Guards) else None,
        allow_no_limit=key.allow_no_limit,
        reject_unsupported_tier=plan.on_unsupported_tier == "reject",
        models=plan.models,
        providers=plan.providers,
        max_n=plan.max_n,
        max_prompts=plan.max_prompts,
        keepalive_s=None if plan.keepalive == "off" else plan.keepalive,
        expires_at_s=key.expires_s,
        ips=key.ips,
        explain=plan.explain,
        user_hash=plan.user_hash,
    )


def _guards(guards: Guards | FlexGuards) -> catalogue.Guards:
    return catalogue.Guards(
        rpm=guards.rpm, tpm=guards.tpm if isinstance(guards, Guards) else None, concurrency=guards.concurrency
    )
