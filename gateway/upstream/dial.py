"""Make one connection to an origin: resolve the name, refuse what no upstream may be, connect, shake hands. Times are seconds.

The addresses are connected to as they were checked, so a name that resolves differently the second time changes nothing.
"""

import asyncio
import os
import socket
import ssl
from collections.abc import Callable
from typing import TypeVar

from gateway.faults import Fault
from gateway.upstream.origin import Origin
from gateway.upstream.transport import TransportError

P = TypeVar("P", bound=asyncio.Protocol)


async def dial(origin: Origin, tls: ssl.SSLContext | None, connect_s: float, protocol: Callable[[], P]) -> P:
    """Return the protocol of a new connection, within `connect_s` in all. Raises `TransportError` (`CONNECT`, `TLS`)."""
    try:
        async with asyncio.timeout(connect_s):
            return await _reach_any(origin, tls, connect_s, protocol)
    except TimeoutError as error:
        raise _unreachable(f"no connection within {connect_s:g} s") from error


async def _reach_any(origin: Origin, tls: ssl.SSLContext | None, connect_s: float, protocol: Callable[[], P]) -> P:
    addresses = await _resolve(origin)
    failure = _unreachable("the name has no address")
    for address in addresses:
        # One address that swallows packets may use up its own share only.
        try:
            async with asyncio.timeout(connect_s / len(addresses)):
                return await _reach(origin, address, tls, protocol)
        except TimeoutError:
            failure = _unreachable("the peer does not answer")
        except TransportError as error:
            failure = error
    raise failure


async def _resolve(origin: Origin) -> list[str]:
    loop = asyncio.get_running_loop()
    try:
        found = await loop.getaddrinfo(origin.host, origin.port, type=socket.SOCK_STREAM)
    except (OSError, UnicodeError) as error:
        raise _unreachable("the name cannot be resolved") from error
    addresses = list(dict.fromkeys(str(entry[4][0]) for entry in found))
    if any(origin.forbids(address) for address in addresses):
        raise _unreachable("the address is link-local or a metadata service")
    return addresses


async def _reach(origin: Origin, address: str, tls: ssl.SSLContext | None, protocol: Callable[[], P]) -> P:
    loop = asyncio.get_running_loop()
    name = origin.host if tls is not None else None
    try:
        _, made = await loop.create_connection(protocol, address, origin.port, ssl=tls, server_hostname=name)
    except TimeoutError as error:
        raise _unreachable("the peer does not answer") from error
    except ssl.SSLError as error:
        raise TransportError(Fault.TLS, f"no TLS: {error.reason or 'the handshake failed'}", sent=False) from error
    except OSError as error:
        raise _unreachable(os.strerror(error.errno) if error.errno else "the connection failed") from error
    return made


def _unreachable(reason: str) -> TransportError:
    return TransportError(Fault.CONNECT, f"cannot connect: {reason}", sent=False)
