"""A real cluster on the loopback: three primaries, and one replica that goes where a failover is wanted.

Slots move in one step, as Valkey 9 moves them. What is done is done when the nodes that live agree on it.
"""

import asyncio
import shutil
import tempfile
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from redis.crc import key_slot

from tests.integration.processes.conditions import until
from tests.nodes import Node, free_ports

SLOTS = ((0, 5460), (5461, 10922), (10923, 16383))
"""What each primary begins with."""

SLOT = key_slot(b"c0")
"""Where a cell's keys are."""

NODE_TIMEOUT_MS = 1_500
"""How long a node is silent before the others hold it for dead: on a busy machine a living one is late, too."""

WITHIN_S = 20.0


class Cluster:
    """One cluster for the length of an `async with` block."""

    def __init__(self) -> None:
        self._dir = Path(tempfile.mkdtemp(prefix="tgc", dir="/tmp"))
        count = len(SLOTS) + 1
        ports = free_ports(2 * count)
        self._buses = dict(zip(ports[:count], ports[count:], strict=True))
        self.nodes = [self._node(port, bus) for port, bus in self._buses.items()]

    def _node(self, port: int, bus: int) -> Node:
        directory = self._dir / f"{port}"
        directory.mkdir()
        options = ["--cluster-enabled", "yes", "--cluster-port", f"{bus}", "--cluster-node-timeout", f"{NODE_TIMEOUT_MS}"]
        return Node(directory, port, *options, "--save", "", "--repl-diskless-sync-delay", "0")

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
        """Return the cluster as a URL."""
        return f"redis+cluster://{','.join(node.place for node in self.nodes)}"

    async def start(self) -> None:
        """Start the nodes, introduce them to each other and share out the slots."""
        await asyncio.gather(*(node.start() for node in self.nodes))
        first, *others = self.nodes
        for epoch, node in enumerate(self.nodes, start=1):
            await node.ask("CLUSTER", "SET-CONFIG-EPOCH", epoch)
        for node, slots in zip(self.nodes, SLOTS, strict=False):
            await node.ask("CLUSTER", "ADDSLOTSRANGE", *slots)
        for node in others:
            await first.ask("CLUSTER", "MEET", "127.0.0.1", node.port, self._buses[node.port])
        await until(self._is_whole, within_s=WITHIN_S)
        await self.replicate(SLOT)

    def stop(self) -> None:
        """End all nodes; what they held is gone."""
        for node in self.nodes:
            node.kill()
        shutil.rmtree(self._dir)

    async def owner_of(self, slot: int) -> Node:
        """Return the node that serves a slot."""
        for node in self._living():
            if await self._named_by(node, slot) == node.port:
                return node
        raise LookupError(f"nobody serves slot {slot}")

    async def move_slot(self, slot: int, to: Node) -> None:
        """Move a slot with its keys to another node, in one step."""
        owner, target = await self.owner_of(slot), await to.ask("CLUSTER", "MYID")
        await owner.ask("CLUSTER", "MIGRATESLOTS", "SLOTSRANGE", slot, slot, "NODE", target.decode())
        await self._agreed(slot, to)

    async def replicate(self, slot: int) -> Node:
        """Let the replica be a slot's owner's, and have what the owner has. Return it."""
        owner, (spare,) = await self.owner_of(slot), await until(self._spare, within_s=WITHIN_S)
        await spare.ask("CLUSTER", "REPLICATE", (await owner.ask("CLUSTER", "MYID")).decode())

        async def follows() -> bool:
            return await spare.is_replica_of(owner)

        await until(follows, within_s=WITHIN_S)
        return spare

    async def fail_over(self, slot: int = SLOT) -> Node:
        """Hand a slot's owner's part over to the replica, with nothing lost. Return the new owner."""
        replica = await self.replicate(slot)
        await replica.ask("CLUSTER", "FAILOVER")
        await self._agreed(slot, replica)
        return replica

    async def kill_owner(self, slot: int = SLOT) -> Node:
        """Kill a slot's owner, whose replica will find out. Return the dead node; started again, it becomes the replica."""
        await self.replicate(slot)
        owner = await self.owner_of(slot)
        owner.kill()
        return owner

    async def revive(self) -> None:
        """Start the nodes that are dead, and wait until the cluster is as it was."""
        for node in self.nodes:
            if not node.alive:
                await node.start()
        await until(self._is_whole, within_s=WITHIN_S)
        await self.replicate(SLOT)

    def _living(self) -> list[Node]:
        return [node for node in self.nodes if node.alive]

    async def _spare(self) -> list[Node]:
        """Return the node that serves no slot, if all agree that it is one."""
        serving: set[int] = set()
        for node in self._living():
            serving |= {holders[0][1] for _, _, *holders in await node.ask("CLUSTER", "SLOTS")}
        return [node for node in self._living() if node.port not in serving]

    async def _named_by(self, node: Node, slot: int) -> int:
        """Return the port of a slot's owner as a node has it, or 0."""
        slots: list[Any] = await node.ask("CLUSTER", "SLOTS")
        return next((holders[0][1] for first, last, *holders in slots if first <= slot <= last), 0)

    async def _agreed(self, slot: int, owner: Node) -> None:
        async def agreed() -> bool:
            return {await self._named_by(node, slot) for node in self._living()} == {owner.port} and await self._is_whole()

        await until(agreed, within_s=WITHIN_S)

    async def _is_whole(self) -> bool:
        """Return whether every node that lives knows all the others, and serves."""
        for node in self._living():
            facts = (await node.ask("CLUSTER", "INFO")).decode().split()
            if not {"cluster_state:ok", f"cluster_known_nodes:{len(self.nodes)}"} <= set(facts):
                return False
        return True
