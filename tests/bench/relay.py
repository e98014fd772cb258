"""A relay: `python -m tests.bench.relay PORT` reads each request, sends it to PORT, and hands back what comes. It knows no more.

This is what a gateway in Python starts from: HTTP read on both sides, one connection each way. Everything above it is a gateway's
own.
"""

import asyncio
import sys
from functools import partial
from typing import cast

import httptools

from gateway.policy.catalogue import Timeouts
from gateway.tasks import Owned
from gateway.upstream.origin import Origin
from gateway.upstream.pool import Pool
from gateway.upstream.transport import Outgoing
from tests.bench.serving import serve

MOST_BYTES = 1 << 20
HEAD = b"HTTP/1.1 %d OK\r\ncontent-type: %b\r\n"


class Server(asyncio.Protocol):
    """One client's connection."""

    def __init__(self, pool: Pool, owned: Owned) -> None:
        self._pool = pool
        self._owned = owned
        self._parser = httptools.HttpRequestParser(self)
        self._path = b""
        self._body = b""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)

    def data_received(self, data: bytes) -> None:
        self._parser.feed_data(data)

    def on_url(self, url: bytes) -> None:
        self._path = url

    def on_body(self, body: bytes) -> None:
        self._body += body

    def on_message_complete(self) -> None:
        body, self._body = self._body, b""
        self._owned.detach(self._relay(body), name="relay")

    async def _relay(self, body: bytes) -> None:
        headers = ((b"content-type", b"application/json"),)
        reply = await self._pool.open(Outgoing(path=self._path.decode(), headers=headers, body=body))
        kind = dict(reply.headers).get(b"content-type", b"application/json")
        if not kind.startswith(b"text/event-stream"):
            answer = await reply.read(MOST_BYTES)
            self._transport.write((HEAD + b"content-length: %d\r\n\r\n%b") % (reply.status, kind, len(answer), answer))
            return
        self._transport.write((HEAD + b"transfer-encoding: chunked\r\n\r\n") % (reply.status, kind))
        while piece := await reply.next():
            self._transport.write(b"%x\r\n%b\r\n" % (len(piece), piece))
        self._transport.write(b"0\r\n\r\n")


def pool(port: int) -> Pool:
    """Return the connections to the upstream."""
    return Pool(Origin(host="127.0.0.1", port=port, tls=False, prefix=""), Timeouts(), max_connections=1_000, tls=None)


if __name__ == "__main__":
    serve(partial(Server, pool(int(sys.argv[1])), Owned()))
