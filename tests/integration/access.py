"""The access lines of a gateway that runs in a test's own process."""

import asyncio
from typing import Any

import msgspec

from gateway.telemetry.access import AccessLog, as_json
from tests.running import Running


class Access:
    """The access lines of a running gateway from now on."""

    def __init__(self, run: Running) -> None:
        self._written: list[bytes] = []
        self._run = run
        run.gateway._observer._access = AccessLog(self._written.append, asyncio.get_running_loop().call_soon, as_json)

    async def only(self) -> dict[str, Any]:
        """Return the one line of the one request."""
        await self._run.settled()
        await asyncio.sleep(0)
        [line] = b"".join(self._written).splitlines()
        found: dict[str, Any] = msgspec.json.decode(line)
        return found
