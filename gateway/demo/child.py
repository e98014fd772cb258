"""One demo provider as a process of its own: `python -m gateway.demo.child`, told what to be on its stdin."""

import asyncio
import signal
import socket

import msgspec

from gateway.demo.provider import Provider
from gateway.demo.serving import Server
from gateway.embedded.lifeline import Lifeline


class Place(msgspec.Struct, frozen=True, kw_only=True):
    """Who this provider is, and the listening socket that it has from its parent."""

    name: str
    key: str
    listener_fd: int


def main() -> None:
    """Serve one provider until told to stop, or until the parent is gone."""
    lifeline = Lifeline()
    place = msgspec.json.decode(lifeline.assignment(), type=Place)
    server = Server(Provider(place.name, key=place.key))
    lifeline.watch(server.leave)
    asyncio.run(serve(server, place.listener_fd))


async def serve(server: Server, listener_fd: int) -> None:
    """Serve on the inherited socket until told to stop."""
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, server.leave)
    await server.serve([socket.socket(fileno=listener_fd)])


if __name__ == "__main__":
    main()
