"""The caller's own key: its limits and their levels, its budgets, its tiers and models. It costs nothing to ask (decision 50)."""

from collections.abc import Awaitable, Callable, Sequence
from typing import Any

from litestar import Request, get
from litestar.handlers import HTTPRouteHandler

from gateway.admission.connection import AdmissionUnavailable
from gateway.errors import LimiterUnavailable
from gateway.policy.access import may_use
from gateway.policy.account import Account, account, own_charges
from gateway.policy.answers import Levels
from gateway.policy.charges import Charge
from gateway.policy.charging import tenant_of
from gateway.policy.keys import for_project
from gateway.web.models import Catalogues
from gateway.wire.contracts import Contract

STORE_WAIT_MS = 1_000

Look = Callable[[Sequence[Charge]], Awaitable[Levels]]
"""Looks at buckets. Raises `AdmissionUnavailable` and `LimiterUnavailable`."""


def key_route(prefix: str, contract: Contract, catalogues: Catalogues, look: Look) -> HTTPRouteHandler:
    """Return the route of the caller's key below one prefix."""

    @get(f"{prefix}/key")
    async def show_key(request: Request[Any, Any, Any]) -> Account:
        """Show what the caller's key may do and what it has used; nothing of anybody else's."""
        catalogue, key = await catalogues.caller(request)
        key = for_project(key, request.scope["query_string"])
        tenant = tenant_of(key, catalogue.orgs)
        models = [name for name, model in catalogue.models.items() if may_use(key, model)]
        try:
            seen = await look(own_charges(tenant, models))
        except AdmissionUnavailable as lost:
            raise LimiterUnavailable("The gateway cannot check limits at the moment", retry_after_ms=STORE_WAIT_MS) from lost
        return account(tenant, models, contract, seen)

    return show_key
