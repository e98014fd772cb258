"""What a key may do: its plan, with what the key itself says in its place."""

from typing import TypeVar

import msgspec

from gateway.config.structs import Config
from gateway.config.structs.base import Section
from gateway.config.structs.tenancy import Dynamic, Key, KeyLimits, Limits, Org, OrgLimits, Plan
from gateway.policy import catalogue

BUILT_IN = "default"
"""The org of a key that names none, and the plan of one where neither it nor its org does. A file may define both."""

_Section = TypeVar("_Section", bound=Section)
_FIELD_BY_FIELD = frozenset({"limits", "flex"})


def plan_name(config: Config, key: Key) -> str:
    """Return the name of the plan that a key has."""
    return key.plan or config.orgs.get(key.org, Org()).plan or BUILT_IN


def rights(config: Config, key: Key) -> Plan:
    """Return the key's effective plan. One that the file does not define is the built-in one: `check` names it."""
    plan = config.plans.get(plan_name(config, key), Plan())
    own = {name: getattr(key, name) for name in Plan.__struct_fields__ if name not in _FIELD_BY_FIELD}
    flex = key.flex if plan.flex is None or key.flex is None else over(plan.flex, key.flex)
    return msgspec.structs.replace(
        plan,
        **{name: value for name, value in own.items() if value is not None},
        limits=_limits(plan.limits, key.limits),
        flex=flex or plan.flex,
    )


def over(base: _Section, own: _Section) -> _Section:
    """Return `base` with each field that `own` sets."""
    return msgspec.structs.replace(
        base, **{name: value for name in own.__struct_fields__ if (value := getattr(own, name)) is not None}
    )


def enforced(limits: Limits) -> catalogue.Limits:
    """Return limits as requests meet them, with what the file left open at its default."""
    return catalogue.Limits(
        rpm=limits.rpm,
        tpm=limits.tpm,
        tpm_in=limits.tpm_in,
        tpm_out=limits.tpm_out,
        rpd=limits.rpd,
        concurrency=limits.concurrency,
        burst_ratio=1.0 if limits.burst_ratio is None else limits.burst_ratio,
        strict=bool(limits.strict),
        dynamic=_dynamic(limits.dynamic) if isinstance(limits, KeyLimits) else None,
        shadow=bool(limits.shadow),
    )


def enforced_on_models(limits: OrgLimits) -> dict[str, catalogue.Limits]:
    """Return what limits say of single models; they are shadows with the limits around them unless they say so themselves."""
    around = Limits(shadow=limits.shadow)
    return {model: enforced(over(around, narrower)) for model, narrower in limits.per_model.items()}


def _dynamic(dynamic: Dynamic | None) -> catalogue.Dynamic | None:
    if dynamic is None:
        return None
    return catalogue.Dynamic(window_ms=round(dynamic.window_s * 1000), ceiling_milli=round(dynamic.ceiling * 1000))


def _limits(base: KeyLimits, own: KeyLimits) -> KeyLimits:
    per_model = base.per_model | {
        model: over(base.per_model.get(model, Limits()), limits) for model, limits in own.per_model.items()
    }
    return msgspec.structs.replace(over(base, own), per_model=per_model)
