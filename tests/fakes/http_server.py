"""A scripted HTTP/1.1 upstream on loopback: every byte, pause, cut and end of its replies is the script's.

A script is `async def script(call: Call) -> None`, run once for every request that has arrived whole. It writes what it likes and
waits on events of the test, never on time. The server records every request, counts connections, and tells a script and the test
when the peer has gone. Connections are kept alive unless the script ends them.
"""

import asyncio
import socket
import ssl
import struct
from collections.abc import Awaitable, Callable, Iterable
from types import TracebackType
from typing import Self, cast

import msgspec

Headers = Iterable[tuple[str, str]]


class Request(msgspec.Struct, frozen=True, kw_only=True):
    """A request as it came in. `connection` counts from 1 in the order of arrival."""

    connection: int
    method: str
    path: str
    headers: list[tuple[str, str]]
    """Names in lower case."""
    body: bytes

    def header(self, name: str) -> str | None:
        """Return the value of the first header of this name."""
        return next((value for key, value in self.headers if key == name), None)


class Call:
    """One request at the server, and what a script may do about it."""

    def __init__(self, request: Request, line: "Line") -> None:
        self.request = request
        self.gone = line.gone
        """Set when the peer has closed or cut the connection."""
        self._line = line
        self._chunked = False

    def write(self, data: bytes) -> None:
        """Write bytes as they are; nothing happens once the connection is closing."""
        if not self._line.transport.is_closing():
            self._line.transport.write(data)

    async def write_slowly(self, data: bytes) -> None:
        """Write bytes and wait until the peer has taken nearly all of them, or has gone."""
        self.write(data)
        await self._line.drained()

    async def write_apart(self, *pieces: bytes) -> None:
        """Write pieces so that each leaves in a segment of its own."""
        for piece in pieces:
            self.write(piece)
            await asyncio.sleep(0)

    def head(self, status: int = 200, headers: Headers = (), *, length: int | None = None, chunked: bool = False) -> None:
        """Write a head. Neither `length` nor `chunked`: the body lasts until the connection ends."""
        self._chunked = chunked
        lines = [f"HTTP/1.1 {status} Any", *(f"{name}: {value}" for name, value in headers)]
        if length is not None:
            lines.append(f"content-length: {length}")
        if chunked:
            lines.append("transfer-encoding: chunked")
        self.write("\r\n".join([*lines, "", ""]).encode())

    def piece(self, data: bytes) -> None:
        """Write a piece of body, framed as the head said."""
        self.write(b"%x\r\n%b\r\n" % (len(data), data) if self._chunked else data)

    def end(self) -> None:
        """Write the last chunk."""
        self.write(b"0\r\n\r\n")

    def reply(self, status: int = 200, body: bytes = b"", headers: Headers = ()) -> None:
        """Write a whole reply with its length."""
        self.head(status, headers, length=len(body))
        self.write(body)

    def close(self) -> None:
        """End the connection in good order: what was written still arrives."""
        self._line.transport.close()

    def reset(self) -> None:
        """Cut the connection with a TCP reset."""
        self._line.reset()


Script = Callable[[Call], Awaitable[None]]


class HttpServer:
    """`async with HttpServer(script) as server`. On leaving, a script's own exception is raised."""

    def __init__(self, script: Script, *, tls: ssl.SSLContext | None = None) -> None:
        self.script = script
        self.requests: list[Request] = []
        self.connections = 0
        """How many connections were accepted so far."""
        self.lines: set[Line] = set()
        """Those that are open now."""
        self.tasks: set[asyncio.Task[None]] = set()
        self._tls = tls
        self._changed = asyncio.Event()

    async def __aenter__(self) -> Self:
        loop = asyncio.get_running_loop()
        self._server = await loop.create_server(lambda: Line(self), "127.0.0.1", 0, ssl=self._tls)
        self.port: int = self._server.sockets[0].getsockname()[1]
        return self

    async def __aexit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.stop_listening()
        for line in [*self.lines]:
            line.transport.abort()
        for task in [*self.tasks]:
            task.cancel()
        results = await asyncio.gather(*self.tasks, return_exceptions=True)
        failures = [result for result in results if isinstance(result, Exception)]
        if failures and error is None:
            raise failures[0]

    @property
    def base_url(self) -> str:
        """Return where it listens; TLS certificates are for `localhost`."""
        return f"https://localhost:{self.port}" if self._tls else f"http://127.0.0.1:{self.port}"

    def stop_listening(self) -> None:
        """Accept no more connections; those that are open go on."""
        self._server.close()

    async def until(self, condition: Callable[[], bool]) -> None:
        """Wait until something that this server sees comes true: a request, a connection made or gone. Gives up after 5 s."""
        async with asyncio.timeout(5.0):
            while not condition():
                self._changed.clear()
                await self._changed.wait()

    def notice(self) -> None:
        """Let `until` look again."""
        self._changed.set()


class Line(asyncio.Protocol):
    """One connection of the server."""

    def __init__(self, server: HttpServer) -> None:
        self.server = server
        self.gone = asyncio.Event()
        self.number = 0
        self._buffer = bytearray()
        self._writable = asyncio.Event()
        self._writable.set()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast(asyncio.Transport, transport)
        self.server.connections += 1
        self.number = self.server.connections
        self.server.lines.add(self)
        self.server.notice()

    def data_received(self, data: bytes) -> None:
        self._buffer += data
        while (request := self._next_request()) is not None:
            self.server.requests.append(request)
            task = asyncio.get_running_loop().create_task(self._run(request))
            self.server.tasks.add(task)
            self.server.notice()

    def connection_lost(self, exc: Exception | None) -> None:
        self.gone.set()
        self._writable.set()
        self.server.lines.discard(self)
        self.server.notice()

    def pause_writing(self) -> None:
        self._writable.clear()

    def resume_writing(self) -> None:
        self._writable.set()

    async def drained(self) -> None:
        """Wait until the peer has taken what was written, or has gone."""
        await self._writable.wait()

    def reset(self) -> None:
        """Cut the connection: with a linger time of zero, closing sends a reset."""
        sock = self.transport.get_extra_info("socket")
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.transport.abort()

    async def _run(self, request: Request) -> None:
        await self.server.script(Call(request, self))

    def _next_request(self) -> Request | None:
        head, found, _ = self._buffer.partition(b"\r\n\r\n")
        if not found:
            return None
        first, *lines = head.decode("latin-1").split("\r\n")
        headers = [(name.lower(), value) for name, _, value in (line.partition(": ") for line in lines)]
        start = len(head) + 4
        end = start + int(dict(headers).get("content-length", "0"))
        if len(self._buffer) < end:
            return None
        body = bytes(self._buffer[start:end])
        del self._buffer[:end]
        method, path, _ = first.split(" ")
        return Request(connection=self.number, method=method, path=path, headers=headers, body=body)


class BlackHole:
    """`async with BlackHole() as hole`: a listener with a full backlog; connecting to it never ends."""

    async def __aenter__(self) -> Self:
        self._listener = socket.socket()
        self._listener.bind(("127.0.0.1", 0))
        self._listener.listen(0)
        self.port: int = self._listener.getsockname()[1]
        self._fillers = [socket.socket() for _ in range(4)]
        for filler in self._fillers:
            filler.setblocking(False)
            filler.connect_ex(self._listener.getsockname())
        return self

    async def __aexit__(self, *_: object) -> None:
        for sock in (*self._fillers, self._listener):
            sock.close()

    @property
    def base_url(self) -> str:
        """Return where nothing answers."""
        return f"http://127.0.0.1:{self.port}"
