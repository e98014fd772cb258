"""Callers that never rest while a store changes hands, and what each was told: the store is to hold exactly that in the end."""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from gateway.admission.client import Admission
from gateway.admission.connection import AdmissionUnavailable, Connection
from gateway.admission.endpoint import Locate
from gateway.policy.catalogue import Limits
from gateway.policy.claims import place_of
from gateway.tasks import Owned
from tests.integration.admission.rows import Clock, acquire, key_charges, row, settle
from tests.integration.admission.state import ask, ledger, stored
from tests.integration.processes.conditions import until

TIMEOUT_S = 0.5
LONGEST_S = 20.0
"""How long a store may take to change hands, and to be found again."""

CALLERS = 8
DAILY = key_charges(Limits(rpd=100_000))
CHARGES = {place_of(charge): charge for charge in DAILY}


class Callers:
    """Requests that are granted and settled, one after the other. One without a verdict is settled all the same, until it is."""

    def __init__(self, locate: Locate) -> None:
        self.connection = Connection(locate, Owned(), timeout_s=TIMEOUT_S)
        self.admission = Admission(self.connection, clock=Clock())
        self.served: set[str] = set()
        """Those that the store says it granted."""
        self.unanswered = 0
        """Calls without a verdict."""
        self._asked = 0

    async def call(self) -> None:
        """Make one request."""
        self._asked += 1
        lease_id = f"r{self._asked}"
        granted = True
        try:
            await self.admission.acquire(acquire(lease_id, row(DAILY)))
        except AdmissionUnavailable:
            granted = False
            self.unanswered += 1
        if await self._settled(lease_id, certain=granted):
            self.served.add(lease_id)
        else:
            assert not granted

    async def _settled(self, lease_id: str, *, certain: bool) -> bool:
        while True:
            try:
                return (await self.admission.settle(settle(lease_id, certain=certain))).opened
            except AdmissionUnavailable:
                self.unanswered += 1
                await asyncio.sleep(0.01)

    @asynccontextmanager
    async def calling(self) -> AsyncIterator[None]:
        """Let several callers make requests until the block has ended."""
        leaving = asyncio.Event()

        async def caller() -> None:
            while not leaving.is_set():
                await self.call()

        callers = [asyncio.create_task(caller()) for _ in range(CALLERS)]
        try:
            yield
        finally:
            leaving.set()
            async with asyncio.timeout(LONGEST_S):
                await asyncio.gather(*callers)

    async def more(self, count: int = 50) -> None:
        """Wait until so many more requests have been served."""
        goal = len(self.served) + count

        async def reached() -> bool:
            return len(self.served) >= goal

        await until(reached, within_s=LONGEST_S)

    async def where(self) -> int:
        """Return the port of the server that the scripts run on."""
        await self.connection.ready()
        return int((await ask(self.connection, "CONFIG", "GET", "port"))[1])

    async def assert_kept(self) -> None:
        """Every request that was served has one opening, one closing and one place in the day's count, and no other has any."""
        once = {(kind, lease_id): 1 for kind in ("open", "close") for lease_id in self.served}
        assert Counter(await ledger(self.connection)) == once
        so_far = await self._posted()
        await self.call()
        assert so_far == (len(self.served) - 1) * (await self._posted() - so_far)

    async def _posted(self) -> int:
        """Return what stands in the day's count, where nothing may be held any more."""
        state = await stored(self.connection, CHARGES, Clock().now_ms)
        ((debt, held),) = state.buckets.values()
        assert (state.leases, held) == ({}, 0)
        return debt


@asynccontextmanager
async def callers_of(locate: Locate) -> AsyncIterator[Callers]:
    """Connect to a store and leave it at the end; nothing may have failed where only the event loop hears of it."""
    unheard: list[dict[str, Any]] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, context: unheard.append(context))
    callers = Callers(locate)
    assert await callers.connection.open(), callers.connection.fault
    try:
        yield callers
    finally:
        await callers.connection.close()
    assert unheard == []
