"""Word of attempts that go on, for the store: what was said in one turn of the event loop leaves in one call.

A word that is lost costs little: the end of the attempt says most of it again.
"""

import asyncio

from gateway.admission.connection import AdmissionUnavailable
from gateway.admission.failover import Failover
from gateway.policy.admission import Report
from gateway.tasks import Owned


class Reports:
    """Collects reports and sends them."""

    def __init__(self, admission: Failover, owned: Owned) -> None:
        self._admission = admission
        self._owned = owned
        self._told: list[Report] = []
        self.lost = 0
        """Reports that the store did not answer."""

    def tell(self, report: Report) -> None:
        """Send a report soon."""
        if not self._told:
            asyncio.get_running_loop().call_soon(self._leave)
        self._told.append(report)

    def _leave(self) -> None:
        told, self._told = self._told, []
        self._owned.detach(self._send(told), name="admission-report")

    async def _send(self, told: list[Report]) -> None:
        try:
            await self._admission.report(told)
        except AdmissionUnavailable:
            self.lost += len(told)
