"""The lowest floor: `python -m tests.bench.pipe PORT` passes bytes both ways between a client and a connection to PORT.

It reads nothing of what it passes. No proxy in Python with one event loop can cost less.
"""

import asyncio
import sys
from functools import partial
from typing import cast

from gateway.tasks import Owned
from tests.bench.serving import serve


class Side(asyncio.Protocol):
    """One end; what it receives leaves at the other."""

    transport: asyncio.Transport
    other: asyncio.Transport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast(asyncio.Transport, transport)

    def data_received(self, data: bytes) -> None:
        if self.other is not None:
            self.other.write(data)

    def connection_lost(self, exc: Exception | None) -> None:
        if self.other is not None:
            self.other.close()


class Client(Side):
    """The end that a client opened; what it says before the upstream is reached waits."""

    def __init__(self, upstream_port: int, owned: Owned) -> None:
        self._upstream_port = upstream_port
        self._owned = owned
        self._early = b""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        super().connection_made(transport)
        self._owned.detach(self._reach(), name="reach the upstream")

    def data_received(self, data: bytes) -> None:
        if self.other is None:
            self._early += data
        else:
            self.other.write(data)

    async def _reach(self) -> None:
        loop = asyncio.get_running_loop()
        self.other, upstream = await loop.create_connection(Side, "127.0.0.1", self._upstream_port)
        upstream.other = self.transport
        self.other.write(self._early)


if __name__ == "__main__":
    serve(partial(Client, int(sys.argv[1]), Owned()))
