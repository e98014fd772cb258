"""A real primary and its replica on the loopback, watched by sentinels. What is done is done when all agree on it."""

import asyncio
import shutil
import tempfile
from pathlib import Path
from types import TracebackType
from typing import Self

from redis.exceptions import ResponseError

from tests.integration.processes.conditions import until
from tests.nodes import Node, free_ports

NAME = "tiergate"
"""What the sentinels call the primary."""

DOWN_AFTER_MS = 1_000
"""How long a server is silent before a sentinel holds it for dead."""

CONFIGURATION = f"""
sentinel monitor {NAME} 127.0.0.1 {{port}} {{quorum}}
sentinel down-after-milliseconds {NAME} {DOWN_AFTER_MS}
sentinel failover-timeout {NAME} 3000
"""

PERIODS = ("INFO-PERIOD", 200, "PUBLISH-PERIOD", 200, "ASK-PERIOD", 200, "PING-PERIOD", 200)
"""Milliseconds between a sentinel's looks at the others; they are seconds by default."""

WITHIN_S = 45.0


class Watched:
    """One such store for the length of an `async with` block."""

    def __init__(self, *, sentinels: int = 1) -> None:
        self._dir = Path(tempfile.mkdtemp(prefix="tgs", dir="/tmp"))
        self._quorum = sentinels // 2 + 1
        first, second, *ports = free_ports(2 + sentinels)
        self.servers = [self._server(first), self._server(second)]
        self.sentinels = [self._sentinel(port, watched=first) for port in ports]

    def _server(self, port: int, *options: str) -> Node:
        directory = self._dir / f"{port}"
        directory.mkdir()
        return Node(directory, port, *options, "--save", "", "--repl-diskless-sync-delay", "0")

    def _sentinel(self, port: int, *, watched: int) -> Node:
        directory = self._dir / f"{port}"
        directory.mkdir()
        path = directory / "sentinel.conf"
        path.write_text(CONFIGURATION.format(port=watched, quorum=self._quorum))
        return Node(directory, port, str(path), "--sentinel")

    async def __aenter__(self) -> Self:
        try:
            await self.start()
        except BaseException:
            self.stop()
            raise
        return self

    async def __aexit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.stop()

    @property
    def url(self) -> str:
        """Return the store as a URL."""
        return f"redis+sentinel://{','.join(each.place for each in self.sentinels)}/{NAME}"

    async def start(self) -> None:
        """Start the servers, then the sentinels, and wait until these know both servers and each other."""
        await asyncio.gather(*(server.start() for server in self.servers))
        primary, replica = self.servers
        await replica.ask("REPLICAOF", "127.0.0.1", primary.port)
        await self.follows(replica, primary)
        await asyncio.gather(*(sentinel.start() for sentinel in self.sentinels))
        for sentinel in self.sentinels:
            await sentinel.ask("SENTINEL", "DEBUG", *PERIODS)
        await until(self._know_all, within_s=WITHIN_S)

    def stop(self) -> None:
        """End all; what was held is gone."""
        for node in (*self.sentinels, *self.servers):
            node.kill()
        shutil.rmtree(self._dir)

    async def primary(self) -> Node:
        """Return the server that the sentinels name."""
        _, port = await self.sentinels[0].ask("SENTINEL", "GET-MASTER-ADDR-BY-NAME", NAME)
        return next(server for server in self.servers if server.port == int(port))

    async def fail_over(self, *, coordinated: bool) -> Node:
        """Make the replica the primary. Return it. Unless the two coordinate it, the last writes may be lost."""
        old = await self.primary()
        new = self._other(old)

        command = ("SENTINEL", "FAILOVER", NAME, *(["COORDINATED"] if coordinated else []))

        async def promoted() -> bool:
            if await self.primary() is new:
                return await new.is_primary()
            try:
                await self.sentinels[0].ask(*command)
            except ResponseError:  # it is under way, or the last one has not ended yet
                return False
            return False

        await until(promoted, within_s=WITHIN_S)
        await self.follows(old, new)
        return new

    async def kill_primary(self) -> Node:
        """Kill the primary, which the sentinels will find out. Return it; started again, it becomes the replica."""
        primary = await self.primary()
        primary.kill()
        return primary

    async def follows(self, replica: Node, primary: Node) -> None:
        """Wait until one server has all of the other."""

        async def so() -> bool:
            return await replica.is_replica_of(primary)

        await until(so, within_s=WITHIN_S)

    def _other(self, server: Node) -> Node:
        return next(other for other in self.servers if other is not server)

    async def _know_all(self) -> bool:
        for sentinel in self.sentinels:
            flat = await sentinel.ask("SENTINEL", "MASTER", NAME)
            facts = flat if isinstance(flat, dict) else dict(zip(flat[::2], flat[1::2], strict=True))
            found = tuple(facts[name] for name in (b"flags", b"num-slaves", b"num-other-sentinels"))
            if found != (b"master", b"1", b"%d" % (len(self.sentinels) - 1)):
                return False
        return True
