"""A gateway at rest as it looks from inside: nothing busy, nothing held, nobody waited for. And what it has noted on the way."""

import asyncio
import time
from collections import Counter
from collections.abc import Mapping

import msgspec

from gateway.policy.record import Outcome
from gateway.telemetry.access import AccessLog, as_json
from tests.running import Running


class Noted(msgspec.Struct, frozen=True):
    """What a test reads of an access line."""

    request_id: str
    opened: bool
    outcome: Outcome
    status: int
    settled_ms: int | None


class Notes:
    """Takes the access lines of a running gateway from now on."""

    def __init__(self, run: Running) -> None:
        self._written: list[bytes] = []
        soon = asyncio.get_running_loop().call_soon
        run.gateway._observer._access = AccessLog(self._written.append, soon, as_json)

    @property
    def lines(self) -> list[Noted]:
        """Return all lines, oldest first."""
        decode = msgspec.json.Decoder(Noted).decode
        return [decode(line) for block in self._written for line in block.splitlines()]

    def opened(self) -> Counter[str]:
        """Return how often each request that was admitted was noted."""
        return Counter(line.request_id for line in self.lines if line.opened)


async def unrest(run: Running) -> Mapping[str, int]:
    """Return what is still going on in a gateway, by its name; empty at rest."""
    gateway = run.gateway
    figures = gateway._corridor.snapshot.figures
    occupied = [transport.occupancy() for transport in gateway._corridor.snapshot.transports.values()]
    found = {
        "requests": len(gateway._sweep),
        "settlements": len(gateway._corridor.tasks),
        "read on": len(gateway._corridor.remainders),
        "watchers": len(gateway._floor.watchers),
        "buffered bytes": gateway._floor.buffered.held_bytes,
        "leases kept alive": len(gateway._leases),
        "leases in the store": await run.leases(),
        "busy connections": sum(each.busy for each in occupied),
        "waiting for a connection": sum(each.waiting for each in occupied),
        "counted at a deployment": 0 if figures is None else len(figures),
    }
    return {name: count for name, count in found.items() if count}


async def comes_to_rest(run: Running, *, within_s: float = 2.0) -> None:
    """Wait for rest; fail with what is still going on at the deadline."""
    give_up_s = time.monotonic() + within_s
    while found := await unrest(run):
        assert time.monotonic() < give_up_s, found
        await asyncio.sleep(0.002)


def idle(run: Running) -> int:
    """Return how many connections to upstreams are kept for reuse."""
    return sum(transport.occupancy().idle for transport in run.gateway._corridor.snapshot.transports.values())
