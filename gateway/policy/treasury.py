"""Every budget as operators see it: whose it is, what is spent and held of it, and when it begins anew. Pure."""

from collections.abc import Iterator
from typing import Any

import msgspec

from gateway.policy.account import BudgetLine, figures
from gateway.policy.answers import Level
from gateway.policy.charges import Charge
from gateway.policy.charging import Tenant, budgets
from gateway.policy.limits import payer_of


class BudgetState(BudgetLine, frozen=True, kw_only=True):
    """One budget, of money or of tokens, and whose it is: `share` of it is spent."""

    id: str
    org: str
    project: str | None
    key_id: str | None
    share: float


class Purse(msgspec.Struct, frozen=True):
    """A budget to be looked at, and the org that it is in."""

    charge: Charge
    org: str


def of_key(tenant: Tenant) -> Iterator[Purse]:
    """Yield the budgets that are a key's alone."""
    bare = msgspec.structs.replace(tenant, key=msgspec.structs.replace(tenant.key, project=None))
    return (Purse(charge, tenant.key.org) for charge in budgets(bare) if "key_id" in payer_of(charge))


def of_org(tenant: Tenant) -> Iterator[Purse]:
    """Yield the budgets of a key's org and of all its projects."""
    for project in (None, *sorted(tenant.key.project_budgets)):
        key = msgspec.structs.replace(tenant.key, budget=None, project=project)
        for charge in budgets(msgspec.structs.replace(tenant, key=key)):
            if ("project" in payer_of(charge)) is (project is not None):
                yield Purse(charge, tenant.org.name)


def state_of(purse: Purse, level: Level, now_ms: int) -> BudgetState:
    """Return a budget as it is."""
    whose: dict[str, Any] = {"org": purse.org, "project": None, "key_id": None, **payer_of(purse.charge)}
    # A budget of nothing is spent from the first.
    share = level.level / purse.charge.capacity if purse.charge.capacity else 1.0
    return BudgetState(**figures(purse.charge, level, now_ms), **whose, id=purse.charge.scope, share=round(share, 6))
