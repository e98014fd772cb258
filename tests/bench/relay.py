"""A relay: `python -m tests.bench.relay PORT` reads each request, sends it to PORT, and hands back what comes. It knows no more.

This is what a gateway in Python starts from: HTTP read on both sides, one connection each way. Its work on a request shares no
code with the gateway: a slower transport there must not make the floor slower too. Requests on a connection come one at a time.
"""

import asyncio
import sys
from functools import partial
from typing import cast

import httptools

from gateway.tasks import Owned
from tests.bench.serving import serve

REQUEST = b"POST %b HTTP/1.1\r\nhost: upstream\r\ncontent-type: application/json\r\ncontent-length: %d\r\n\r\n%b"
HEAD = b"HTTP/1.1 %d OK\r\ncontent-type: %b\r\n"


class Upstream(asyncio.Protocol):
    """The connection to the upstream; it writes to the client what it reads."""

    def __init__(self, client: asyncio.Transport) -> None:
        self._client = client
        self._parser = httptools.HttpResponseParser(self)
        self._kind = b""
        self._body = b""
        self._streamed = False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast(asyncio.Transport, transport)

    def connection_lost(self, exc: Exception | None) -> None:
        self._client.close()

    def data_received(self, data: bytes) -> None:
        self._parser.feed_data(data)
        if self._streamed and self._body:
            self._client.write(b"%x\r\n%b\r\n" % (len(self._body), self._body))
            self._body = b""

    def on_header(self, name: bytes, value: bytes) -> None:
        if name.lower() == b"content-type":
            self._kind = value

    def on_headers_complete(self) -> None:
        self._streamed = self._kind.startswith(b"text/event-stream")
        if self._streamed:
            self._client.write((HEAD + b"transfer-encoding: chunked\r\n\r\n") % (self._parser.get_status_code(), self._kind))

    def on_body(self, body: bytes) -> None:
        self._body += body

    def on_message_complete(self) -> None:
        body, self._body = self._body, b""
        if not self._streamed:
            head = (HEAD + b"content-length: %d\r\n\r\n") % (self._parser.get_status_code(), self._kind, len(body))
            self._client.write(head + body)
        elif body:
            self._client.write(b"%x\r\n%b\r\n0\r\n\r\n" % (len(body), body))
        else:
            self._client.write(b"0\r\n\r\n")


class Server(asyncio.Protocol):
    """One client's connection."""

    def __init__(self, upstream_port: int, owned: Owned) -> None:
        self._upstream_port = upstream_port
        self._owned = owned
        self._parser = httptools.HttpRequestParser(self)
        self._upstream: Upstream | None = None
        self._path = b""
        self._body = b""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)

    def connection_lost(self, exc: Exception | None) -> None:
        if self._upstream is not None:
            self._upstream.transport.close()

    def data_received(self, data: bytes) -> None:
        self._parser.feed_data(data)

    def on_url(self, url: bytes) -> None:
        self._path = url

    def on_body(self, body: bytes) -> None:
        self._body += body

    def on_message_complete(self) -> None:
        request = REQUEST % (self._path, len(self._body), self._body)
        self._body = b""
        if self._upstream is None:
            self._owned.detach(self._reach(request), name="reach the upstream")
        else:
            self._upstream.transport.write(request)

    async def _reach(self, request: bytes) -> None:
        loop = asyncio.get_running_loop()
        _, self._upstream = await loop.create_connection(partial(Upstream, self._transport), "127.0.0.1", self._upstream_port)
        self._upstream.transport.write(request)


if __name__ == "__main__":
    serve(partial(Server, int(sys.argv[1]), Owned()))
