"""The sections on who may use what: plans, orgs with their projects, keys. Rates are per minute unless they say otherwise."""

from typing import Annotated, Literal

import msgspec
from msgspec import field

from gateway.config.scalars import Duration, Factor, Instant, ModelName, Name, Network, Period
from gateway.config.structs.base import Count, Section, Share
from gateway.policy.catalogue import Secret

RequestableTier = Literal["priority", "default", "flex", "no-limit"]
DefaultTier = Literal["auto", "priority", "default", "flex", "no-limit"]
AutoPolicy = Literal["overflow", "priority", "project"]
OnUnsupportedTier = Literal["downgrade", "reject"]
Glob = Annotated[str, msgspec.Meta(min_length=1)]


class Limits(Section, frozen=True, kw_only=True):
    """What a scope may use: requests, tokens (all, in, out) a minute, requests a UTC day, requests at once.

    The burst is `burst_ratio` times the minute's quota (default 1.0). `strict` picks burst and rate so that no minute passes
    the quota (default false). On a key, what is absent is the plan's. `shadow`: they are counted and refuse nothing (default
    false; in `per_model`, what the limits around it say).
    """

    rpm: Count | None = None
    tpm: Count | None = None
    tpm_in: Count | None = None
    tpm_out: Count | None = None
    rpd: Count | None = None
    concurrency: Count | None = None
    burst_ratio: Annotated[float, msgspec.Meta(gt=0, le=100)] | None = None
    strict: bool | None = None
    shadow: bool | None = None


class OrgLimits(Limits, frozen=True, kw_only=True):
    """Limits that all keys of an org share; `per_model` holds for one model beside them."""

    per_model: dict[ModelName, Limits] = {}


class Dynamic(Section, frozen=True, kw_only=True):
    """A quota that grows with steady use, up to `ceiling` times what is written, looking back over `window`."""

    window_s: Annotated[Duration, msgspec.Meta(ge=1)] = field(name="window", default=900.0)
    ceiling: Annotated[float, msgspec.Meta(gt=1, le=1000)] = 20.0


class KeyLimits(OrgLimits, frozen=True, kw_only=True):
    """Limits of each key by itself; `per_model` and `concurrency_per_model` bound a key and a model together."""

    concurrency_per_model: Count | None = None
    dynamic: Dynamic | None = None


class Guards(Section, frozen=True, kw_only=True):
    """The bounds of service that spends no rate credits."""

    rpm: Count | None = None
    tpm: Count | None = None
    concurrency: Count | None = None


class FlexGuards(Section, frozen=True, kw_only=True):
    """The bounds of flex, which spends no rate credits."""

    rpm: Count | None = None
    concurrency: Count | None = None


class Budget(Section, frozen=True, kw_only=True):
    """What may be spent in one calendar UTC period; `alert` is the share at which the operator hears of it."""

    usd: Factor | None = None
    tokens: Count | None = None
    period: Literal["day", "week", "month"] = "month"
    alert: Share = 0.8


class Plan(Section, frozen=True, kw_only=True):
    """The rights and limits of every key that has this plan.

    `tiers` may be asked for by name; `auto` always may. `default_tier` is an absent `service_tier`'s meaning; unset, it is
    auto on chat and default elsewhere. `auto` unset is overflow, unless a route prefix says priority. `over_limit`
    false: `auto` never serves over the limit. `models` and `providers` are glob patterns. `max_prompts` bounds a
    completion's list of prompts. `explain` lets clients ask what became of a request.
    """

    limits: KeyLimits = KeyLimits()
    tiers: tuple[RequestableTier, ...] = ("default",)
    default_tier: DefaultTier | None = None
    flex: FlexGuards | None = None
    models: tuple[Glob, ...] = ("*",)
    providers: tuple[Glob, ...] = ("*",)
    auto: AutoPolicy | None = None
    over_limit: bool | Guards = False
    on_unsupported_tier: OnUnsupportedTier = "downgrade"
    max_prompts: Count = 32
    max_n: Count | None = None
    keepalive: Literal["off"] | Period = "off"
    budget: Budget | None = None
    user_hash: bool = False
    explain: bool = False


class Project(Section, frozen=True, kw_only=True):
    """A part of an org. `tier` is what `auto: project` means for its requests."""

    tier: RequestableTier = "default"
    budget: Budget | None = None
    limits: Limits = Limits()


class Org(Section, frozen=True, kw_only=True):
    """A customer. `plan` is the default plan of its keys; `limits` and `budget` are shared by all of them."""

    plan: Name | None = None
    limits: OrgLimits = OrgLimits()
    budget: Budget | None = None
    projects: dict[Name, Project] = {}


class Key(Section, frozen=True, kw_only=True):
    """A key that lives in the file, by `secret` or by `digest`.

    Its plan is `plan`, else its org's, else the built-in one without limits. Every field of a plan may be set here again and
    then holds instead; in `limits` and `flex`, field by field. `projects` absent: all of its org's. `ips` absent: any address.
    """

    name: Name
    org: Name = "default"
    plan: Name | None = None
    secret: Secret | None = None
    digest: str | None = None
    expires_s: Instant | None = field(name="expires", default=None)
    projects: tuple[Name, ...] | None = None
    default_project: Name | None = None
    ips: tuple[Network, ...] = ()
    allow_no_limit: bool = False
    limits: KeyLimits = KeyLimits()
    tiers: tuple[RequestableTier, ...] | None = None
    default_tier: DefaultTier | None = None
    flex: FlexGuards | None = None
    models: tuple[Glob, ...] | None = None
    providers: tuple[Glob, ...] | None = None
    auto: AutoPolicy | None = None
    over_limit: bool | Guards | None = None
    on_unsupported_tier: OnUnsupportedTier | None = None
    max_prompts: Count | None = None
    max_n: Count | None = None
    keepalive: Literal["off"] | Period | None = None
    budget: Budget | None = None
    user_hash: bool | None = None
    explain: bool | None = None
