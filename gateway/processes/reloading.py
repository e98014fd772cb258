"""The configuration of a running gateway: read again on a signal, and when a file that it is made of has changed.

The supervisor reads and checks it, once for all workers; what they are told they only have to take. A file that cannot be used
changes nothing but what is said of it. Seconds, but for Unix milliseconds where a name says so.
"""

import asyncio
import contextlib
import time
from collections.abc import Awaitable, Callable

import msgspec
import structlog
from msgspec.structs import replace

from gateway.config import Config, ConfigErrors, Edition, Files, compile_catalogue, load
from gateway.config.carried import fingerprint
from gateway.config.certificates import Certificates, UnusableError, certificates_of
from gateway.config.restarts import kept
from gateway.embedded.child import Unavailable
from gateway.processes.fleet import Fleet
from gateway.processes.source import Source
from gateway.telemetry.reloads import Standing
from gateway.upstream.origin import tls_context
from gateway.web.workers import tell

POLL_S = 1.0
"""How often the files are looked at."""

REST_S = 0.2
"""How long files must have been as they are before they are read: whoever writes one does not do it in one stroke."""

MOST_RESTS = 25
"""After so many they are read all the same: some are written all the time."""

Admit = Callable[[Config], Awaitable[None]]
"""Raises ConfigErrors and Unavailable for a configuration that the database forbids."""

log = structlog.get_logger("gateway.supervisor")


class Read(msgspec.Struct, frozen=True):
    """A configuration that can be used: what is new of it, what waits for a restart, and what deserves a look."""

    config: Config
    waiting: tuple[str, ...]
    findings: tuple[str, ...]
    hash: str = ""
    shown: Certificates = Certificates()


class Reloading:
    """The configuration that is in force, and those that come after it."""

    def __init__(self, source: Source, running: Config, pepper: bytes, fleet: Fleet, admit: Admit) -> None:
        self.config = running
        """What is in force."""
        self.shown = source.shown
        """What the listeners show."""
        self._source = source
        self._pepper = pepper
        self._fleet = fleet
        self._admit = admit
        self._files = source.files
        self._asked = asyncio.Event()
        now_ms = unix_ms()
        self.standing = Standing(
            generation=1,
            hash=fingerprint(running, pepper),
            path=str(source.path),
            since_unix_ms=now_ms,
            findings=source.findings,
            read_unix_ms=now_ms,
        )

    def ask(self) -> None:
        """Have the file read again soon."""
        self._asked.set()

    async def watch(self) -> None:
        """Read the file again whenever there is a reason to."""
        while True:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(POLL_S):
                    await self._asked.wait()
            if self._asked.is_set() or await asyncio.to_thread(self._files.changed):
                self._asked.clear()
                await self._rest()
                await self.reload()
            elif self.standing.behind:
                await self._tell()

    async def reload(self) -> None:
        """Read the file, and have the gateway go by it if it can be used and says something new."""
        try:
            read = await self._read()
        except ConfigErrors as errors:
            self._refuse(errors.lines)
        except Unavailable as error:
            self._refuse((str(error),))
        else:
            await self._take(read)

    async def _rest(self) -> None:
        before = await asyncio.to_thread(lambda: self._files.state)
        for _ in range(MOST_RESTS):
            await asyncio.sleep(REST_S)
            now = await asyncio.to_thread(lambda: self._files.state)
            if now == before:
                return
            before = now

    async def _read(self) -> Read:
        """Raises ConfigErrors and Unavailable."""
        # Files of a reading that cannot be used are looked at all the same: one of them may be what is wrong.
        self._files, before = Files(), self._files
        try:
            loaded = await asyncio.to_thread(load, self._source.path, self._source.environ, self._files)
        except ConfigErrors:
            self._files.watch_all(before)
            raise
        config, waiting = kept(self.config, self._source.overrides.over(loaded.config))
        await self._admit(config)
        return await asyncio.to_thread(self._checked, Read(config, waiting, loaded.warnings))

    def _checked(self, read: Read) -> Read:
        """Do what every worker will do, so that none of them fails at it. Raises Unavailable."""
        try:
            found = fingerprint(read.config, self._pepper)
            if found != self.standing.hash:
                compile_catalogue(read.config, self._pepper)
                for name in {provider.ca_file for provider in read.config.providers.values()} - {None}:
                    tls_context(name)
        except OSError as error:
            raise Unavailable(f"{self._source.path}: a ca_file cannot be used: {error}") from None
        except ValueError as error:
            raise Unavailable(f"{self._source.path}: cannot be used: {error}") from error
        return replace(read, hash=found, shown=self._renewed(read.config))

    def _renewed(self, config: Config) -> Certificates:
        """Return what the listeners show from now on: other files behind the paths that they were opened with.

        Those paths may be none of the file's any more, which waits for a restart; then nothing is held up by what is behind them.
        """
        try:
            return certificates_of(config, self._files)
        except UnusableError as error:
            log.warning("certificate_kept", problem=error.problem.describe(str(self._source.path)))
            return self.shown

    def _refuse(self, lines: tuple[str, ...]) -> None:
        self.standing = replace(self.standing, errors=lines)
        for line in lines:
            log.error("config_refused", problem=line, generation=self.standing.generation)

    async def _take(self, read: Read) -> None:
        before, now_ms = self.standing, unix_ms()
        self.standing = replace(before, findings=read.findings, waiting=read.waiting, read_unix_ms=now_ms, errors=())
        for line in read.findings:
            log.warning("config_finding", finding=line)
        if read.waiting:
            log.warning("config_needs_restart", changed=read.waiting)
        if read.hash == before.hash and read.shown == self.shown:
            log.info("config_unchanged", generation=before.generation)
            return
        number = before.generation + 1
        self.config, self.shown = read.config, read.shown
        self.standing = replace(self.standing, generation=number, hash=read.hash, since_unix_ms=now_ms)
        self._fleet.begin_with(Edition(number, read.config, read.shown.api))
        log.info("config_reloaded", generation=number, hash=read.hash)
        await self._tell()

    async def _tell(self) -> None:
        """Tell all workers what is in force; those that have it know."""
        number = self.standing.generation
        behind = await self._fleet.tell(Edition(number, self.config, self.shown.api), tell)
        if behind != self.standing.behind:
            for name, reason in behind.items():
                log.warning("config_worker_behind", worker=name, generation=number, reason=reason)
            self.standing = replace(self.standing, behind=behind)
        if not behind:
            log.info("config_in_force", generation=number)


def unix_ms() -> int:
    """Return the wall clock in Unix milliseconds."""
    return time.time_ns() // 1_000_000
