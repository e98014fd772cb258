"""Binds the gateway's ports, once and before anything else starts.

The workers accept on one shared socket. With a socket each (SO_REUSEPORT) the kernel would spread connections more evenly, but
those that wait in the queue of a worker that is killed would be reset; on a shared queue the next worker takes them.
"""

import os
import socket

from gateway.embedded.child import Unavailable
from gateway.processes.server import BACKLOG


def listen(name: str, host: str, port: int) -> socket.socket:
    """Return a listening socket for the listener of this name.

    Raises Unavailable, in one line, where the address cannot be had.
    """
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        listener = socket.create_server((host, port), family=family, backlog=BACKLOG, dualstack_ipv6=host == "::")
    except OSError as error:  # a name that resolves to nothing comes as one too, with the resolver's negative number
        number = error.errno or 0
        reason = os.strerror(number).lower() if number > 0 else "no address of that name"
        raise Unavailable(f"cannot listen on {host}:{port} for {name}: {reason}") from None
    # What it accepts inherits this. asyncio asks for it of no socket that did not name its protocol: the end of an answer would
    # then wait until the client has acknowledged its beginning, which clients put off for 40 ms.
    listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return listener


def address(listener: socket.socket) -> str:
    """Return the listener's address as it goes into a URL."""
    host, port, *_ = listener.getsockname()
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
