"""uvicorn as this gateway runs it: httptools, no headers or log lines of its own, idle without a timer, told when to leave."""

import asyncio
import contextlib
import math
import ssl
from collections.abc import Callable, Generator
from pathlib import Path
from socket import socket
from typing import Any

import msgspec
import uvicorn

from gateway.processes.accepting import Acceptor
from gateway.processes.protocol import Http1, Listener
from gateway.tasks import Owned

Asgi = Callable[..., Any]

BACKLOG = 2048
CLOSE_S = 2.0
"""How long connections may take to close once their answers are complete."""


class Times(msgspec.Struct, frozen=True, kw_only=True):
    """How long a listener has patience, in seconds.

    `keep_alive` with a connection that is idle, `receipt` with a request from its first byte to its last. Once it is told to
    leave, `delay` goes by in which it serves on, then `drain` in which answers may end.
    """

    keep_alive_s: float = 75.0
    receipt_s: float = 60.0
    delay_s: float = 0.0
    drain_s: float = 0.0


class Server(uvicorn.Server):
    """One application on one listener. `tls` tells what a connection begins with, where it is to be encrypted."""

    def __init__(
        self,
        app: Asgi,
        times: Times | None = None,
        *,
        unix_path: Path | None = None,
        tls: Callable[[], ssl.SSLContext] | None = None,
    ) -> None:
        times = times or Times()
        self._listener = Listener(
            app,
            uds=str(unix_path) if unix_path is not None else None,
            http=Http1,
            ws="none",
            lifespan="off",
            interface="asgi3",
            log_config=None,
            log_level="warning",
            access_log=False,
            proxy_headers=False,
            server_header=False,
            date_header=False,
            backlog=BACKLOG,
            timeout_graceful_shutdown=math.ceil(times.drain_s + 2 * CLOSE_S),
        )
        # uvicorn means whole seconds, and only hands it on to the loop.
        self._listener.timeout_keep_alive = times.keep_alive_s  # type: ignore[assignment]
        self._listener.receipt_s = times.receipt_s
        super().__init__(self._listener)
        self._tls = tls
        self._acceptors: list[Acceptor] = []
        self._leaving = asyncio.Event()
        self._accepting = asyncio.Event()
        self._tasks = Owned()
        self._serving: asyncio.Task[None] | None = None

    async def open(self, listener: socket | None = None) -> None:
        """Start to accept, on the listener or on the unix path.

        Raises what kept the server from listening.
        """
        sockets = [listener] if listener is not None else None
        self._serving = serving = self._tasks.spawn(self.serve(sockets), name="server")
        accepting = self._tasks.spawn(self._accepting.wait(), name="accepting")
        await asyncio.wait({serving, accepting}, return_when=asyncio.FIRST_COMPLETED)
        accepting.cancel()
        if serving.done():
            await serving

    def retire(self) -> None:
        """Serve on, but end each connection with its next answer: clients that come back are to be taken in elsewhere."""
        self._listener.retiring = True

    def leave(self) -> None:
        """Stop accepting; answers under way go on, up to the drain."""
        self.retire()
        self.should_exit = True
        self._leaving.set()

    async def close(self) -> None:
        """Stop accepting and wait for connections to close; one whose client does not take the end of its answer is cut."""
        self.leave()
        if self._serving is not None:
            await asyncio.wait({self._serving}, timeout=CLOSE_S)
            for connection in [*self.server_state.connections]:
                connection.transport.abort()
            await self._serving

    async def startup(self, sockets: list[socket] | None = None) -> None:
        """Listen, and say so."""
        if self._tls is None or sockets is None:
            await super().startup(sockets)
        else:
            self.servers, self.started = [], True
            self._acceptors = [Acceptor(listener, self._tls, self._protocol) for listener in sockets]
            for acceptor in self._acceptors:
                acceptor.start()
        self._accepting.set()

    async def shutdown(self, sockets: list[socket] | None = None) -> None:
        """Stop listening; who has connected by then is answered like those that are here."""
        for acceptor in self._acceptors:
            await acceptor.close()
        for listener in sockets or () if self._tls is None else ():
            await self._take_in(listener)
        await super().shutdown(sockets)

    async def _take_in(self, listener: socket) -> None:
        """Accept what the kernel has accepted: it would reset those connections when the listener closes."""
        loop = asyncio.get_running_loop()
        with contextlib.suppress(BlockingIOError):  # nobody is left
            while True:
                connection, _ = listener.accept()
                await loop.connect_accepted_socket(self._protocol, connection)

    def _protocol(self) -> Http1:
        return Http1(self._listener, self.server_state, {})

    async def main_loop(self) -> None:
        """Wait to be told to leave: a tick ten times a second would only refresh a Date header that is not sent."""
        await self._leaving.wait()

    @contextlib.contextmanager
    def capture_signals(self) -> Generator[None, None, None]:
        """Leave signals to the process, which knows the order in which things end."""
        yield
