"""One worker's life: take the assignment, serve, and leave in order when told to or when the supervisor is gone."""

import asyncio
import contextlib
import gc
from collections.abc import Callable
from socket import socket
from typing import Protocol

import uvloop

from gateway.config.certificates import Certificate, Contexts
from gateway.embedded.lifeline import Lifeline
from gateway.processes.assignment import Assignment, decode
from gateway.processes.departure import Departure
from gateway.processes.server import Asgi, Server

GC_THRESHOLDS = (10_000, 20, 20)
"""A request makes few cycles and many objects: the default would collect several times a request."""


ORPHAN_DRAIN_S = 1.0
"""What requests under way get of the lifeline's grace when the supervisor is gone: enough to be told that it is over."""


class Gateway(Protocol):
    """What a worker serves: `api` to clients, `control` (GET /status, GET /metrics, POST /config) to the supervisor."""

    @property
    def api(self) -> Asgi:
        """Return the application for clients."""

    @property
    def control(self) -> Asgi:
        """Return the application for the supervisor."""

    @property
    def certificate(self) -> Certificate | None:
        """Return what `api` shows to new connections, None where it speaks plain HTTP."""

    async def start(self) -> None:
        """Connect what the first request needs."""

    async def drain(self, timeout_s: float) -> None:
        """Refuse new requests and let those under way end, up to the timeout."""

    async def stop(self) -> None:
        """Settle and flush everything."""


Build = Callable[[Assignment], Gateway]


def main(build: Build) -> int:
    """Live one worker's life. Return its exit code."""
    lifeline = Lifeline()
    assignment = decode(lifeline.assignment())
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        return runner.run(Worker(assignment, lifeline).live(build))


class Worker:
    """One life, from the assignment to the exit code."""

    def __init__(self, assignment: Assignment, lifeline: Lifeline) -> None:
        self._assignment = assignment
        self._lifeline = lifeline
        self._departure = Departure(insistent=False)
        self._orphaned = asyncio.Event()

    async def live(self, build: Build) -> int:
        """Serve until a signal, or the supervisor's end, asks to leave."""
        loop = asyncio.get_running_loop()

        def parent_gone() -> None:
            loop.call_soon_threadsafe(self._departure.ask)
            loop.call_soon_threadsafe(self._orphaned.set)

        self._lifeline.watch(parent_gone)
        return await self._departure.watch(self._serve(build))

    async def _serve(self, build: Build) -> int:
        """Serve one gateway, then take it down in the order in which its parts need each other."""
        assignment = self._assignment
        gateway = build(assignment)
        await gateway.start()
        api = Server(gateway.api, assignment.times, tls=Contexts.of(lambda: gateway.certificate))
        await api.open(socket(fileno=assignment.api_fd))
        settle_memory()
        self._departure.be_patient()
        control = Server(gateway.control, unix_path=assignment.control_path)
        await control.open()  # last: whoever gets an answer there knows that the worker serves
        await self._departure.asked.wait()
        await self._retire(api)
        drain_s = assignment.times.drain_s
        await gateway.drain(min(drain_s, ORPHAN_DRAIN_S) if self._lifeline.severed else drain_s)
        await api.close()
        await gateway.stop()
        await control.close()
        self._clear()
        return 0

    async def _retire(self, api: Server) -> None:
        """Serve on while load balancers notice that this gateway is not ready any more, then take no more in."""
        api.retire()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(self._assignment.times.delay_s):
                await self._orphaned.wait()
        api.leave()

    def _clear(self) -> None:
        """Remove what this worker has in the run directory, and the directory where no supervisor is left to do it."""
        socket_path = self._assignment.control_path
        socket_path.unlink(missing_ok=True)
        if self._lifeline.severed:
            with contextlib.suppress(OSError):  # another orphan is still in it, and will be the last
                socket_path.parent.rmdir()


def settle_memory() -> None:
    """Keep what start-up built out of every later collection: it lives as long as the process."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(*GC_THRESHOLDS)
