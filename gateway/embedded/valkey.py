"""The embedded Valkey: one server on a unix socket, append-only on disk, private to one gateway and never outliving it.

State lies in `state_dir`: the append-only files, `valkey.log` and two locks. `gateway.lock` belongs to the gateway and
refuses a second one; `valkey.lock` is inherited by the server itself, so that a server left behind by a killed gateway is
noticed, ended and waited for before another touches its files. Times are seconds.
"""

import asyncio
import contextlib
import os
import time
from asyncio.subprocess import Process
from pathlib import Path
from types import TracebackType
from typing import Self

from gateway.embedded.binary import find_server
from gateway.embedded.child import Child, Unavailable, spawn_program
from gateway.embedded.locks import Lock

READY_S = 60.0
"""Longest start: a server answers PING only when it has read its whole append-only file."""
STOP_S = 10.0
"""Longest stop: the last write and fsync of the append-only file."""
ASK_S = 2.0
"""Longest wait for one answer; a server that hangs is treated as one that is gone."""
POLL_S = 0.01
MAX_SOCKET_PATH_BYTES = 100
"""The kernel's `sun_path` holds 108 bytes on Linux, 104 on macOS."""
MAX_MEMORY_MIB = 256

LOCK = "valkey.lock"
"""Held by the server; it says where the server listens."""


def server_options(state_dir: Path, socket_path: Path) -> list[str]:
    """Return the server's command line: a private socket, every write on disk within a second, and nothing ever evicted."""
    options = {
        "port": "0",
        "unixsocket": str(socket_path),
        "unixsocketperm": "700",
        "dir": str(state_dir),
        "appendonly": "yes",
        "appendfsync": "everysec",
        "save": "",
        "maxmemory": f"{MAX_MEMORY_MIB}mb",
        "maxmemory-policy": "noeviction",
    }
    return [word for name, value in options.items() for word in (f"--{name}", value)]


def url_of_running(state_dir: Path) -> str:
    """Return where the server of the gateway on this state directory listens, or of the last one there.

    Raises Unavailable where none ever ran.
    """
    try:
        return f"unix://{(state_dir / LOCK).read_text()}"
    except FileNotFoundError:
        raise Unavailable(f"no gateway runs on state_dir '{state_dir}'") from None


class Valkey:
    """The server, as an async context manager: ready on entry, its files complete on exit, restarted if it ends between.

    `state_dir` and `run_dir` exist; the socket is made in `run_dir`, whose path is short.
    """

    def __init__(self, state_dir: Path, run_dir: Path) -> None:
        self._state_dir = state_dir.resolve()
        self._socket_path = run_dir / "valkey.sock"
        self._server = Child("valkey", self._spawn)
        self._gateway_lock: Lock | None = None

    @property
    def url(self) -> str:
        """Return what clients connect to; the same across restarts of the server."""
        return f"unix://{self._socket_path}"

    @property
    def pid(self) -> int | None:
        """Return the server's process id, or None while it is being restarted."""
        return self._server.pid

    async def __aenter__(self) -> Self:
        """Start the server and wait until it answers.

        Raises Unavailable, in one line, where it cannot be started.
        """
        if len(os.fsencode(self._socket_path)) > MAX_SOCKET_PATH_BYTES:
            raise Unavailable(f"the path of the embedded Valkey's socket is too long: {self._socket_path}")
        self._gateway_lock = Lock.take(self._state_dir / "gateway.lock")
        if self._gateway_lock is None:
            raise Unavailable(
                f"another gateway runs on state_dir '{self._state_dir}'; with redis.url 'embedded' there can be one. "
                "Set redis.url to a server that both can reach, or another state_dir"
            )
        try:
            await self._end_orphan()
            await self._server.start()
            await self._ready()
        except BaseException:
            await self.__aexit__(None, None, None)
            raise
        return self

    async def __aexit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        """Stop the server, which writes and syncs its append-only file when told to, and give the state directory back."""
        await self._server.stop(STOP_S)
        if self._gateway_lock is not None:
            self._gateway_lock.close()
            self._gateway_lock = None

    async def _spawn(self) -> Process:
        lock_path = self._state_dir / LOCK
        lock = await Lock.wait(lock_path, STOP_S)
        if lock is None:
            raise Unavailable(f"a process of the last Valkey server still holds {lock_path}")
        output = os.open(self._state_dir / "valkey.log", os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
        try:
            lock.write(str(self._socket_path))
            options = server_options(self._state_dir, self._socket_path)
            return await spawn_program(find_server(), options, output=output, fds=[lock.fd])
        finally:
            os.close(output)
            lock.close()

    async def _end_orphan(self) -> None:
        """Tell a server that a killed gateway left behind to end, until it has.

        It may still be reading its files, when nobody listens, or be on its way out, when nobody answers.
        """
        lock_path = self._state_dir / LOCK
        deadline_s = time.monotonic() + STOP_S
        while (lock := Lock.take(lock_path)) is None and time.monotonic() < deadline_s:
            with contextlib.suppress(OSError):
                await self._ask(Path(lock_path.read_text()), b"SHUTDOWN")
            await asyncio.sleep(POLL_S)
        if lock is None:
            raise Unavailable(f"a Valkey server of an earlier run holds {lock_path} and does not end; end it and start again")
        lock.close()

    async def _ready(self) -> None:
        deadline_s = time.monotonic() + READY_S
        while not await self._answers():
            if self._server.exit_code is not None:
                raise Unavailable(f"the embedded Valkey did not start: {self._last_words()}")
            if time.monotonic() >= deadline_s:
                raise Unavailable(f"the embedded Valkey was not ready in {READY_S:.0f} s: {self._last_words()}")
            await asyncio.sleep(POLL_S)

    async def _answers(self) -> bool:
        try:
            return await self._ask(self._socket_path, b"PING") == b"+PONG\r\n"
        except OSError:
            return False

    @staticmethod
    async def _ask(socket_path: Path, command: bytes) -> bytes:
        """Return the first line of the answer. Raises OSError, which a timeout is too."""
        async with asyncio.timeout(ASK_S):
            reader, writer = await asyncio.open_unix_connection(socket_path)
            try:
                writer.write(command + b"\r\n")
                return await reader.readline()
            finally:
                writer.close()

    def _last_words(self) -> str:
        log_path = self._state_dir / "valkey.log"
        said = log_path.read_text(errors="replace").strip() if log_path.exists() else ""
        last = said.rpartition("\n")[2]
        return f"{last or 'it said nothing'} ({log_path})"
