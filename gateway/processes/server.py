"""uvicorn as this gateway runs it: httptools, no headers or log lines of its own, idle without a timer, told when to leave."""

import asyncio
import contextlib
import math
from collections.abc import Callable, Generator
from pathlib import Path
from socket import socket
from typing import Any

import uvicorn

from gateway.processes.protocol import Http1
from gateway.tasks import Owned

Asgi = Callable[..., Any]

KEEP_ALIVE_S = 75
"""Longer than the 60 s after which common load balancers close an idle connection: whoever closes last meets no reset."""
BACKLOG = 2048
CLOSE_S = 2.0
"""How long connections may take to close once their answers are complete."""


class Server(uvicorn.Server):
    """One application on one listener."""

    def __init__(self, app: Asgi, *, drain_s: float = 0.0, unix_path: Path | None = None) -> None:
        super().__init__(
            uvicorn.Config(
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
                timeout_keep_alive=KEEP_ALIVE_S,
                timeout_graceful_shutdown=math.ceil(drain_s + CLOSE_S),
            )
        )
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

    def leave(self) -> None:
        """Stop accepting; answers under way go on, up to the drain."""
        self.should_exit = True
        self._leaving.set()

    async def close(self) -> None:
        """Stop accepting and wait for the answers under way."""
        self.leave()
        if self._serving is not None:
            await self._serving

    async def startup(self, sockets: list[socket] | None = None) -> None:
        """Listen, and say so."""
        await super().startup(sockets)
        self._accepting.set()

    async def main_loop(self) -> None:
        """Wait to be told to leave: a tick ten times a second would only refresh a Date header that is not sent."""
        await self._leaving.wait()

    @contextlib.contextmanager
    def capture_signals(self) -> Generator[None, None, None]:
        """Leave signals to the process, which knows the order in which things end."""
        yield
