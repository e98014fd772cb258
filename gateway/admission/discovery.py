"""Which server is the store now: always the same, the primary that sentinels name, or the owner of a cell's slot in a cluster.

Asked anew for every connection and never remembered: the answer of a moment ago is what failed. One node after the other is
asked, each time beginning with another, so that one which is behind the times costs an attempt. Durations are seconds.
"""

import ssl
from collections import deque
from collections.abc import Awaitable, Callable, Iterable
from typing import Any

from msgspec.structs import replace
from redis.crc import key_slot
from redis.exceptions import RedisError

from gateway.admission.endpoint import Endpoint, Kind, Locate, parse_store
from gateway.admission.redis_client import open_client

ASK_S = 0.5
"""How long one node may take to answer."""


class NotFoundError(ConnectionError):
    """No node told where the store is."""


def locator(url: str, *, cell: str = "c0", ca_file: str | None = None) -> Locate:
    """Return what tells where the store of a URL is; in a cluster, where a cell's keys are.

    Raises ValueError, as `parse_store` does, and OSError for a `ca_file` that cannot be read.
    """
    store = parse_store(url)
    tls = ssl.create_default_context(cafile=ca_file) if store.tls else None
    entry, nodes = replace(store.entry, tls=tls), [replace(node, tls=tls) for node in store.nodes]
    if store.kind is Kind.SENTINEL:
        return Sentinels(nodes, store.primary, entry)
    if store.kind is Kind.CLUSTER:
        return Cluster(nodes, key_slot(cell.encode()))
    return fixed(nodes[0])


def fixed(endpoint: Endpoint) -> Locate:
    """Return what always names one server."""

    async def locate() -> Endpoint:
        return endpoint

    return locate


class Sentinels:
    """Finds the primary as Redis' guideline for clients says: ask a sentinel for the address, and the server for its role."""

    def __init__(self, sentinels: Iterable[Endpoint], primary: str, entry: Endpoint) -> None:
        self._sentinels = deque(sentinels)
        self._primary = primary
        self._entry = entry

    async def __call__(self) -> Endpoint:
        """Return the primary. Raises NotFoundError."""
        return await _first(self._sentinels, self._ask)

    async def _ask(self, sentinel: Endpoint) -> Endpoint:
        address = await ask(sentinel, "SENTINEL", "GET-MASTER-ADDR-BY-NAME", self._primary)
        if address is None:
            raise NotFoundError("it watches no primary of that name")
        named = replace(self._entry, host=address[0].decode(), port=int(address[1]))
        role, *_ = await ask(named, "ROLE")
        if role != b"master":
            raise NotFoundError(f"{named.place}, which it names, is no primary")
        return named


class Cluster:
    """Finds the owner of a slot. Nodes that the cluster has come to have are asked as well as those that were named."""

    def __init__(self, seeds: Iterable[Endpoint], slot: int) -> None:
        self._seeds = tuple(seeds)
        self._nodes = deque(self._seeds)
        self._slot = slot

    async def __call__(self) -> Endpoint:
        """Return the owner. Raises NotFoundError."""
        return await _first(self._nodes, self._ask)

    async def _ask(self, node: Endpoint) -> Endpoint:
        owner = None
        met: list[Endpoint] = []
        for first, last, *holders in await ask(node, "CLUSTER", "SLOTS"):
            # A node that does not know its own name leaves it out: it is the one that was asked.
            found = [replace(node, host=(host or b"").decode() or node.host, port=port) for host, port, *_ in holders]
            met += found
            if first <= self._slot <= last:
                owner = found[0]
        if owner is None:
            raise NotFoundError(f"it knows no owner of slot {self._slot}")
        known = {*met, *self._seeds}
        self._nodes = deque(each for each in dict.fromkeys((*self._nodes, *met)) if each in known)
        return owner


async def ask(node: Endpoint, *command: str) -> Any:
    """Return a node's reply, over a connection of its own. Raises RedisError."""
    async with open_client(fixed(node), timeout_s=ASK_S) as client:
        return await client.execute_command(*command)  # type: ignore[no-untyped-call] # of any type, as its replies are


async def _first(nodes: deque[Endpoint], tell: Callable[[Endpoint], Awaitable[Endpoint]]) -> Endpoint:
    """Return what the first node tells that can tell; the next search begins with the node after the one this began with."""
    in_turn = (*nodes,)
    nodes.rotate(-1)
    faults = []
    for node in in_turn:
        try:
            return await tell(node)
        except (RedisError, OSError) as error:
            faults.append(f"{node.place}: {error}")
    raise NotFoundError("; ".join(faults))
