"""The supervisor: what starts before what, what is kept running, and what ends after what.

Up: ports, Valkey, a look at the database, workers, operations port. Down: readiness, the delay in which load balancers notice,
workers, operations port, Valkey. It serves no request itself and never loads the application. Times are seconds.
"""

import asyncio
import contextlib
import os
import pkgutil
import shutil
import signal
import sys
import tempfile
from collections.abc import Awaitable, Callable, Iterator
from contextlib import AbstractAsyncContextManager, AsyncExitStack
from pathlib import Path
from socket import socket
from typing import Protocol

import msgspec
import structlog
from msgspec.structs import replace

from gateway.config import Config, ConfigErrors, Edition
from gateway.config.certificates import Certificate, Certificates, Contexts, UnusableError, certificates_of
from gateway.embedded.child import Unavailable
from gateway.embedded.valkey import Valkey
from gateway.processes.assignment import Assignment
from gateway.processes.departure import Departure
from gateway.processes.fleet import Fleet
from gateway.processes.identity import fresh
from gateway.processes.listening import address, listen
from gateway.processes.pepper import pepper_of
from gateway.processes.server import Asgi, Server, Times
from gateway.processes.source import Source
from gateway.tasks import Owned
from gateway.telemetry.logs import configure
from gateway.telemetry.reloads import Standing
from gateway.telemetry.spans import MISSING, is_installed

log = structlog.get_logger("gateway.supervisor")


class Reloading(Protocol):
    """The configuration that is in force, and what becomes of those that come after it."""

    @property
    def config(self) -> Config:
        """Return what is in force."""
        ...

    @property
    def standing(self) -> Standing:
        """Return how it stands with it."""
        ...

    @property
    def shown(self) -> Certificates:
        """Return what the listeners show."""
        ...

    def ask(self) -> None:
        """Have the file read again soon."""
        ...

    async def watch(self) -> None:
        """Read the file again whenever there is a reason to."""
        ...


Operations = Callable[["Supervisor", Config], AbstractAsyncContextManager[Asgi]]
Admit = Callable[[Config, Path], Awaitable[None]]
Reload = Callable[[Source, Config, bytes, Fleet, Callable[[Config], Awaitable[None]]], Reloading]


class Parts(msgspec.Struct, frozen=True, kw_only=True):
    """What the supervisor runs without loading it at start, by name.

    The module that a worker is, the operations port, what refuses to start on the database, and what reads the file again.
    """

    worker: str = "gateway.processes.worker"
    operations: str = "gateway.processes.operations:operations"
    database: str = "gateway.processes.database:admit"
    reloading: str = "gateway.processes.reloading:Reloading"


class Addresses(msgspec.Struct, frozen=True, kw_only=True):
    """Where the gateway listens, each as it goes into a URL, and what it shows there over TLS."""

    api: str
    ops: str
    shown: Certificates = Certificates()


class Supervisor:
    """One gateway on this machine."""

    def __init__(self, config: Config, source: Source, parts: Parts | None = None) -> None:
        self._start = config
        self._reloading: Reloading | None = None
        self.draining = False
        self.redis_url = ""
        """Where the store is, once it is there."""
        self._source = source
        self._parts = parts or Parts()
        self._state_dir = Path(config.state_dir).resolve()
        self._departure = Departure(insistent=True)
        self._fleet = Fleet(self._parts.worker, [])
        self._tasks = Owned()
        self._started = asyncio.Event()
        self._addresses = Addresses(api="", ops="")

    @property
    def config(self) -> Config:
        """Return the configuration that is in force."""
        return self._start if self._reloading is None else self._reloading.config

    @property
    def standing(self) -> Standing:
        """Return how it stands with the configuration; there is no operations port before there is one."""
        if self._reloading is None:
            raise RuntimeError("asked before the workers were started")
        return self._reloading.standing

    def control_sockets(self) -> list[str]:
        """Return where each worker answers GET /status and GET /metrics."""
        return self._fleet.control_sockets()

    async def addresses(self) -> Addresses:
        """Return where the gateway listens, once everything is started; the workers may not be ready yet."""
        await self._started.wait()
        return self._addresses

    async def run(self) -> int:
        """Run the gateway until a signal. Return the exit code.

        It is 0 after a whole drain, 1 where a worker did not end by itself, 128 and the signal's number when cut short.

        Raises Unavailable, in one line, where something that it stands on cannot be had, and ConfigErrors.
        """
        configure(self.config.telemetry.log, self.config.telemetry.level, sys.stdout.buffer)
        if self.config.telemetry.log_bodies:
            log.warning("bodies_logged", told="prompts and answers are written to this log: telemetry.log_bodies")
        if self.config.telemetry.otlp_endpoint and not is_installed():
            raise Unavailable(MISSING)
        return await self._departure.watch(self._live())

    async def _live(self) -> int:
        asyncio.get_running_loop().add_signal_handler(signal.SIGHUP, self._reload)
        async with AsyncExitStack() as stack:
            api = stack.enter_context(listen("api", self.config.api.host, self.config.api.port))
            ops = stack.enter_context(listen("ops", self.config.ops.host, self.config.ops.port))
            self._source = self._with_certificates()
            run_dir = stack.enter_context(run_directory())
            self._make_state_dir()
            self.redis_url = await self._redis(stack, run_dir)
            await self._admit_database()
            pepper = pepper_of(self.config, self._state_dir)
            self._fleet = Fleet(self._parts.worker, self._assignments(api, run_dir, pepper))
            stack.push_async_callback(self._fleet.kill)
            await self._fleet.start()
            watching = self._watch_config(pepper)
            stack.callback(watching.cancel)
            await self._open_operations(stack, ops)
            self._departure.be_patient()
            self._addresses = Addresses(api=address(api), ops=address(ops), shown=self._source.shown)
            self._started.set()
            log.info("started", api=address(api), ops=address(ops), workers=self.config.workers)
            await self._departure.asked.wait()
            watching.cancel()
            whole = await self._leave(api)
        log.info("stopped", whole=whole)
        return 0 if whole else 1

    def _with_certificates(self) -> Source:
        try:
            return replace(self._source, shown=certificates_of(self.config, self._source.files))
        except UnusableError as error:
            raise ConfigErrors(str(self._source.path), [error.problem]) from None

    async def _admit_database(self) -> None:
        admit: Admit = pkgutil.resolve_name(self._parts.database)
        await admit(self.config, self._source.path)

    def _watch_config(self, pepper: bytes) -> asyncio.Task[None]:
        reload: Reload = pkgutil.resolve_name(self._parts.reloading)
        admit: Admit = pkgutil.resolve_name(self._parts.database)
        path = self._source.path
        self._reloading = reload(self._source, self.config, pepper, self._fleet, lambda config: admit(config, path))
        watching = self._tasks.spawn(self._reloading.watch(), name="config")
        watching.add_done_callback(tell_of_failure)
        return watching

    def _reload(self) -> None:
        if self._reloading is not None:  # before that, the file is about to be read anyway
            self._reloading.ask()

    async def _open_operations(self, stack: AsyncExitStack, ops: socket) -> None:
        operations: Operations = pkgutil.resolve_name(self._parts.operations)
        app = await stack.enter_async_context(operations(self, self.config))
        server = Server(app, tls=Contexts.of(self._shown_by_ops))
        await server.open(ops)
        stack.push_async_callback(server.close)

    def _shown_by_ops(self) -> Certificate | None:
        return None if self._reloading is None else self._reloading.shown.ops

    async def _leave(self, api: socket) -> bool:
        self.draining = True
        shutdown = self.config.shutdown
        log.info("draining", delay_s=shutdown.delay_s, drain_s=shutdown.drain_s)
        # A listener that one process keeps open goes on taking connections that nobody will accept.
        asyncio.get_running_loop().call_later(shutdown.delay_s, api.close)
        return await self._fleet.drain(shutdown.delay_s + shutdown.drain_s)

    def _make_state_dir(self) -> None:
        try:
            self._state_dir.mkdir(mode=0o700, parents=True, exist_ok=True)
        except OSError as error:
            raise Unavailable(f"cannot make state_dir '{self._state_dir}': {error.strerror}") from None
        if not os.access(self._state_dir, os.R_OK | os.W_OK | os.X_OK):
            raise Unavailable(f"state_dir '{self._state_dir}' may not be written by this user")

    async def _redis(self, stack: AsyncExitStack, run_dir: Path) -> str:
        if not self.config.redis.embedded:
            return self.config.redis.url.reveal()
        valkey = await stack.enter_async_context(Valkey(self._state_dir, run_dir))
        return valkey.url

    def _assignments(self, api: socket, run_dir: Path, pepper: bytes) -> list[Assignment]:
        api_port, shutdown = self.config.api, self.config.shutdown
        times = Times(
            keep_alive_s=api_port.keep_alive_s,
            receipt_s=api_port.receipt_s,
            delay_s=shutdown.delay_s,
            drain_s=shutdown.drain_s,
        )
        gateway = fresh()
        return [
            Assignment(
                gateway=gateway,
                name=f"w{number}",
                edition=Edition(1, self.config, self._source.shown.api),
                api_fd=api.fileno(),
                control_path=run_dir / f"w{number}.sock",
                redis_url=self.redis_url,
                state_dir=self._state_dir,
                pepper=pepper,
                times=times,
            )
            for number in range(self.config.workers)
        ]


def tell_of_failure(watching: asyncio.Task[None]) -> None:
    """Log what ended a watch that was to go on: nobody waits for it, and no change would be noticed any more."""
    if not watching.cancelled() and (error := watching.exception()) is not None:
        log.error("config_watch_ended", exc_info=error)


@contextlib.contextmanager
def run_directory() -> Iterator[Path]:
    """Make a private directory for this run's sockets, short enough for the kernel's limit on their paths."""
    path = Path(tempfile.mkdtemp(prefix="tiergate-"))
    try:
        yield path
    finally:
        shutil.rmtree(path, ignore_errors=True)
