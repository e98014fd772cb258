"""The demo providers of the demo command: each a process of its own, restarted if it ends, gone when the command is."""

import contextlib
from asyncio.subprocess import Process
from collections.abc import AsyncIterator, Mapping
from functools import partial
from socket import socket

import msgspec

from gateway.demo.child import Place
from gateway.embedded.child import Child, spawn_python

STOP_S = 3.0


@contextlib.asynccontextmanager
async def children(listeners: Mapping[str, socket], key: str) -> AsyncIterator[None]:
    """Run a provider of each name on its listening socket; all of them take the same key."""
    async with contextlib.AsyncExitStack() as stack:
        for name, listener in listeners.items():
            place = Place(name=name, key=key, listener_fd=listener.fileno())
            provider = Child(f"provider {name}", partial(_spawn, place))
            await provider.start()
            stack.push_async_callback(provider.stop, STOP_S)
        yield


async def _spawn(place: Place) -> Process:
    return await spawn_python("gateway.demo.child", msgspec.json.encode(place), fds=[place.listener_fd])
