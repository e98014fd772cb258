"""What the admin API only shows: budgets, the audit, and the configuration that is running."""

from collections.abc import Awaitable, Callable, Sequence
from typing import Annotated, Any

import msgspec
from litestar import get
from litestar.params import QueryParameter

from gateway.policy.treasury import BudgetState
from gateway.stores.audit import Sought
from gateway.stores.tenancy import AuditRow
from gateway.telemetry.reloads import Standing
from gateway.web.told import errors

MOST_ROWS = 1_000
"""Of one page."""


class BudgetsWanted(msgspec.Struct, frozen=True, kw_only=True):
    """Which budgets: of one org and its keys where it is given, from behind an owner on, and about how many."""

    org: str | None = None
    after: str | None = None
    limit: int = 100


class BudgetPage(msgspec.Struct, frozen=True):
    """Budgets; `next` is the `after` of the page behind it, null on the last one."""

    data: list[BudgetState]
    next: str | None


class AuditPage(msgspec.Struct, frozen=True):
    """Changes, the newest first; `next` is the `before` of the page behind it, null on the last one."""

    data: list[AuditRow]
    next: int | None


class Configuration(Standing, frozen=True, kw_only=True):
    """The configuration that is in force, how it stands with it, and every field with its default, secrets and digests hidden."""

    document: dict[str, Any]


Budgets = Callable[[BudgetsWanted], Awaitable[BudgetPage]]
"""Tells how budgets are. Raises LimiterUnavailable."""

Audit = Callable[[Sought], Awaitable[list[AuditRow]]]
"""Tells what was changed, the newest first."""


class Views(msgspec.Struct, frozen=True):
    """Who tells it."""

    budgets: Budgets
    audit: Audit
    configuration: Callable[[], Configuration]


def view_routes(views: Views) -> Sequence[Any]:
    """Return the routes."""

    @get("/budgets", summary="What is left of each budget?", responses=errors())
    async def list_budgets(
        *,
        org: Annotated[str | None, QueryParameter(description="Of this org, its projects and its keys alone")] = None,
        after: Annotated[str | None, QueryParameter(description="From behind this owner on, as `next` names it")] = None,
        limit: Annotated[int, QueryParameter(ge=1, le=MOST_ROWS, description="About so many")] = 100,
    ) -> BudgetPage:
        """Return budgets of orgs and projects, of the file's keys, of the database's: their limit, what is spent and held."""
        return await views.budgets(BudgetsWanted(org=org, after=after, limit=limit))

    @get("/audit", summary="What was changed, by whom?", responses=errors())
    async def list_changes(
        *,
        before: Annotated[int | None, QueryParameter(description="Of the changes before this one", ge=1, le=2**53)] = None,
        subject: Annotated[str | None, QueryParameter(description="Of this one alone: key:ID, org:NAME, plan:NAME")] = None,
        actor: Annotated[str | None, QueryParameter(description="By this one alone")] = None,
        action: Annotated[str | None, QueryParameter(description="Of this kind alone, such as key.revoke")] = None,
        limit: Annotated[int, QueryParameter(ge=1, le=MOST_ROWS)] = 100,
    ) -> AuditPage:
        """Return changes of keys, orgs, plans and projects, the newest first."""
        sought = Sought(before=before, subject=subject, actor=actor, action=action, limit=limit + 1)
        found = await views.audit(sought)
        return AuditPage(found[:limit], found[limit - 1].id if len(found) > limit else None)

    @get("/config", summary="Which configuration is running?", responses=errors(), sync_to_thread=False)
    def show_configuration() -> Configuration:
        """Return it, with where it came from and when it was read."""
        return views.configuration()

    return list_budgets, list_changes, show_configuration
