"""What an upstream call costs: `python -m tests.bench_transport [seconds]` prints CPU microseconds a call, client side alone.

The peer is another process that answers any request with 1 KB of JSON, or with 100 events of 235 bytes in one write.
"""

import asyncio
import multiprocessing
import sys
import time
from collections.abc import Awaitable, Callable
from multiprocessing.connection import Connection
from typing import cast

import httpx
import uvloop

from gateway.policy.catalogue import Provider, Secret, Timeouts
from gateway.upstream import connect
from gateway.upstream.adapter import HttpxAdapter
from gateway.upstream.origin import parse_origin
from gateway.upstream.transport import Outgoing, Transport

BODY = b'{"model": "m", "messages": [{"role": "user", "content": "%b"}]}' % (b"x" * 960)
HEADERS = ((b"authorization", b"Bearer sk-1234567890"), (b"content-type", b"application/json"), (b"user-agent", b"tiergate"))
JSON = b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: 1024\r\n\r\n" + b"x" * 1024
EVENT = b"data: %b\n\n" % (b"x" * 227)
STREAM = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n%b0\r\n\r\n" % (
    (b"%x\r\n%b\r\n" % (len(EVENT), EVENT)) * 100
)

Call = Callable[[str], Awaitable[None]]


class Peer(asyncio.Protocol):
    """Answers a request as soon as its last byte is in; every request fits into one read or two."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        self._buffer = b""

    def data_received(self, data: bytes) -> None:
        self._buffer += data
        if self._buffer.endswith(b'"}]}'):
            self._transport.write(STREAM if b"/stream" in self._buffer else JSON)
            self._buffer = b""


def serve(ready: Connection) -> None:
    """Serve until killed."""

    async def forever() -> None:
        server = await asyncio.get_running_loop().create_server(Peer, "127.0.0.1", 0)
        ready.send(server.sockets[0].getsockname()[1])
        await server.serve_forever()

    uvloop.run(forever())


def through(transport: Transport) -> Call:
    async def call(path: str) -> None:
        reply = await transport.open(Outgoing(path=path, headers=HEADERS, body=BODY))
        if path == "/json":
            await reply.read(10_000)
        else:
            while await reply.next():
                pass

    return call


def through_httpx(client: httpx.AsyncClient) -> Call:
    async def call(path: str) -> None:
        async with client.stream("POST", path, headers=list(HEADERS), content=BODY) as response:
            async for _ in response.aiter_raw():
                pass

    return call


async def measure(call: Call, path: str, *, at_once: int, seconds: float) -> float:
    """Return the CPU time of a call in microseconds."""
    calls = 0
    until = time.perf_counter() + seconds

    async def worker() -> None:
        nonlocal calls
        while time.perf_counter() < until:
            await call(path)
            calls += 1

    await call(path)
    start = time.process_time()
    await asyncio.gather(*(worker() for _ in range(at_once)))
    return (time.process_time() - start) / calls * 1e6


async def compare(port: int, seconds: float) -> None:
    base_url = f"http://127.0.0.1:{port}"

    def provider(transport: str) -> Provider:
        return Provider(name="p", dialect="openai", base_url=base_url, api_key=Secret(""), transport=transport)

    own = connect(provider("http1"), Timeouts(), max_connections=100)
    stock = connect(provider("httpx"), Timeouts(pool_s=30.0), max_connections=100)
    adapted = httpx.AsyncClient(transport=HttpxAdapter(own, parse_origin(base_url)), base_url=base_url)
    bare = httpx.AsyncClient(base_url=base_url, timeout=30.0)
    rows = {
        "http1": through(own),
        "httpx": through(stock),
        "httpx over http1": through_httpx(adapted),
        "bare httpx": through_httpx(bare),
    }
    print(f"{'CPU us a call':<20}{'json, 8':>10}{'json, 64':>10}{'stream, 8':>11}")
    for name, call in rows.items():
        json_8 = await measure(call, "/json", at_once=8, seconds=seconds)
        json_64 = await measure(call, "/json", at_once=64, seconds=seconds)
        stream = await measure(call, "/stream", at_once=8, seconds=seconds)
        print(f"{name:<20}{json_8:>10.1f}{json_64:>10.1f}{stream:>11.1f}")
    for transport in (own, stock):
        await transport.aclose()
    await bare.aclose()


def main() -> None:
    mine, theirs = multiprocessing.Pipe()
    peer = multiprocessing.Process(target=serve, args=(theirs,), daemon=True)
    peer.start()
    try:
        uvloop.run(compare(mine.recv(), float(sys.argv[1]) if len(sys.argv) > 1 else 1.0))
    finally:
        peer.terminate()


if __name__ == "__main__":
    main()
