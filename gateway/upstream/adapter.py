"""Our transport presented as one of httpx', so that httpx.AsyncClient can use our pool.

It carries what a `Transport` carries: a POST to one origin, read in full before it leaves. Of httpx' timeouts the read timeout is
kept, as the deadline of every single wait; the others are the transport's own.
"""

import math
import time
from collections.abc import AsyncIterator

import httpx

from gateway.faults import Fault
from gateway.upstream.origin import Origin
from gateway.upstream.transport import Outgoing, Reply, Transport, TransportError

ERRORS: dict[Fault, type[httpx.TransportError]] = {
    Fault.CONNECT: httpx.ConnectError,
    Fault.TLS: httpx.ConnectError,
    Fault.WRITE: httpx.WriteTimeout,
    Fault.TIMEOUT: httpx.ReadTimeout,
    Fault.RESET: httpx.ReadError,
    Fault.PROTOCOL: httpx.RemoteProtocolError,
}

OWNED_HEADERS = frozenset({b"host", b"content-length", b"transfer-encoding", b"accept-encoding", b"connection"})
"""What httpx adds to a request and the transport writes itself."""


class HttpxAdapter(httpx.AsyncBaseTransport):
    """An `httpx.AsyncBaseTransport` over a `Transport` to `origin`."""

    def __init__(self, transport: Transport, origin: Origin) -> None:
        self._transport = transport
        self._origin = origin
        self._prefix = httpx.URL(origin.url)

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        """Send a request of httpx. Raises the matching `httpx.TransportError`."""
        outgoing = Outgoing(
            path=self._path(request),
            headers=tuple((name, value) for name, value in request.headers.raw if name.lower() not in OWNED_HEADERS),
            body=await request.aread(),
        )
        wait_s = request.extensions.get("timeout", {}).get("read")
        wait_s = math.inf if wait_s is None else wait_s
        try:
            reply = await self._transport.open(outgoing, time.monotonic() + wait_s)
        except TransportError as error:
            raise _translated(error, request) from error
        return httpx.Response(reply.status, headers=reply.headers, stream=_Body(reply, wait_s, request), request=request)

    async def aclose(self) -> None:
        """Close the transport."""
        await self._transport.aclose()

    def _path(self, request: httpx.Request) -> str:
        path = request.url.raw_path.decode("ascii")
        if request.method != "POST":
            raise httpx.UnsupportedProtocol("this transport carries POST alone", request=request)
        if _origin_of(request.url) != _origin_of(self._prefix) or not path.startswith(self._origin.prefix):
            raise httpx.UnsupportedProtocol("this transport is bound to another base URL", request=request)
        return path.removeprefix(self._origin.prefix)


class _Body(httpx.AsyncByteStream):
    """The body of a reply, piece by piece."""

    def __init__(self, reply: Reply, wait_s: float, request: httpx.Request) -> None:
        self._reply = reply
        self._wait_s = wait_s
        self._request = request

    async def __aiter__(self) -> AsyncIterator[bytes]:
        try:
            while piece := await self._next():
                yield piece
        except TransportError as error:
            raise _translated(error, self._request) from error

    async def aclose(self) -> None:
        self._reply.close()

    async def _next(self) -> bytes:
        self._reply.deadline_s = time.monotonic() + self._wait_s
        return await self._reply.next()


def _origin_of(url: httpx.URL) -> tuple[str, str, int | None]:
    return url.scheme, url.host, url.port


def _translated(error: TransportError, request: httpx.Request) -> httpx.TransportError:
    return ERRORS[error.fault](str(error), request=request)
