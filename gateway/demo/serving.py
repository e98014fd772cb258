"""Serves a demo provider over HTTP: in a child process of the demo command, or in the process of a test."""

import contextlib
import socket
from collections.abc import AsyncIterator, Generator

import uvicorn

from gateway.demo.provider import Provider
from gateway.tasks import Owned

STOP_S = 1


class Server(uvicorn.Server):
    """uvicorn without a log, told to leave by its owner and not by a signal."""

    def __init__(self, provider: Provider) -> None:
        super().__init__(
            uvicorn.Config(
                provider,
                http="httptools",
                ws="none",
                lifespan="off",
                interface="asgi3",
                log_config=None,
                log_level="critical",  # a broken answer is the script, not a fault to log
                access_log=False,
                timeout_graceful_shutdown=STOP_S,
            )
        )

    def leave(self) -> None:
        """Stop accepting, and soon stop."""
        self.should_exit = True

    @contextlib.contextmanager
    def capture_signals(self) -> Generator[None, None, None]:
        """Leave signals to the process."""
        yield


@contextlib.asynccontextmanager
async def serving(provider: Provider) -> AsyncIterator[str]:
    """Serve a provider on a free port of the loopback interface. The value is its base URL."""
    tasks, server = Owned(), Server(provider)
    with listener() as sock:
        served = tasks.spawn(server.serve([sock]), name=f"demo provider {provider.name}")
        try:
            yield base_url(sock)
        finally:
            server.leave()
            await served


def listener() -> socket.socket:
    """Return a listening socket on a free port of the loopback interface."""
    return socket.create_server(("127.0.0.1", 0))


def base_url(sock: socket.socket) -> str:
    """Return the base URL of a provider that serves on this socket."""
    return f"http://127.0.0.1:{sock.getsockname()[1]}/v1"
