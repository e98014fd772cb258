"""The admin API's view of deployments: how each is doing, and what an operator may say of it."""

from collections.abc import Awaitable, Callable
from functools import partial
from typing import Annotated

import msgspec
from litestar import Router, get, post
from litestar.params import JSONBody

from gateway.admission.connection import AdmissionUnavailable
from gateway.admission.desk import Desk
from gateway.errors import LimiterUnavailable
from gateway.policy.admission import Word
from gateway.policy.standing import Standing
from gateway.stores.audit import Act, ordered
from gateway.web.gate import Asked
from gateway.web.told import errors

STORE_WAIT_MS = 1_000


class Change(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A word on deployments, each by its id, `model/provider/upstream model`: `disable`, `enable`, or `reset`, which forgets."""

    action: Word
    deployments: Annotated[list[str], msgspec.Meta(min_length=1)]


Standings = tuple[Standing, ...]
Audited = Callable[[Act, Callable[[], Awaitable[Standings]]], Awaitable[Standings]]
"""Does something that is to have its row in the audit."""


def upstreams_router(desk: Desk, audited: Audited) -> Router:
    """Return the routes under /admin/upstreams."""

    @get("/", summary="How is each deployment doing?", responses=errors())
    async def standings() -> tuple[Standing, ...]:
        """Return all deployments of the configuration."""
        try:
            return await desk.standings()
        except AdmissionUnavailable as lost:
            raise away() from lost

    @post("/", summary="Disable, enable or reset deployments", status_code=200, responses=errors(changes=True))
    async def change(request: Asked, data: JSONBody[Change]) -> tuple[Standing, ...]:
        """Do as told, for every gateway on the store, and return how these deployments are doing then."""
        try:
            act = ordered(request.user.name, data.action.value, data.deployments)
            return await audited(act, partial(desk.say, data.action, data.deployments))
        except AdmissionUnavailable as lost:
            raise away() from lost

    return Router("/upstreams", route_handlers=[standings, change])


def away() -> LimiterUnavailable:
    """Return the answer while the store is away."""
    return LimiterUnavailable("The admission store cannot be reached at the moment", retry_after_ms=STORE_WAIT_MS)
