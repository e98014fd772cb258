"""Word of attempts that go on, for the store: what was said in one turn of the event loop leaves in one call.

A word that is lost costs little: the end of the attempt says most of it again.
"""

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
        """Send a report soon: before whatever is sent from now on, since the end of an attempt leaves nothing to report on."""
        if not self._told:
            self._owned.detach(self._send(), name="admission-report")
        self._told.append(report)

    async def _send(self) -> None:
        told, self._told = self._told, []
        try:
            await self._admission.report(told)
        except AdmissionUnavailable:
            self.lost += len(told)
