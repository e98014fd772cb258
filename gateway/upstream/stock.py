"""The same transport over stock httpx, for what our own pool does not do: proxies.

httpcore loses pool slots for ever when a request is cancelled while it connects, so no caller's task ever runs inside httpx. Each
step is a task of the transport's own and the caller waits beside it. A caller that leaves abandons the step: it is let finish
connecting, and is cancelled once, when connecting is behind it. A step that gives its connection back by itself is let be: to be
cancelled in the middle of that would lose the slot too. Times are seconds of the monotonic clock.
"""

import asyncio
import math
import ssl
import time
from collections.abc import Callable, Mapping
from typing import Any

import httpx

from gateway.faults import Fault
from gateway.policy.catalogue import Timeouts
from gateway.tasks import Owned
from gateway.upstream.content import decoded
from gateway.upstream.http1 import HEAD_LIMIT_BYTES, MAX_IDLE_S, ends_with_connection
from gateway.upstream.origin import Origin
from gateway.upstream.transport import Occupancy, Outgoing, Reply, TransportError, read_whole

HANG_UPS = ("Server disconnected", "peer closed connection")
"""How httpx tells an early end of the connection from a peer that breaks the protocol: by its message alone."""


class Stock:
    """A `Transport` over `httpx.AsyncClient`."""

    def __init__(
        self, origin: Origin, timeouts: Timeouts, *, max_connections: int, tls: ssl.SSLContext, proxy: str | None = None
    ) -> None:
        self._origin = origin
        self._tasks = Owned()
        self._held: set[object] = set()
        self._client = httpx.AsyncClient(
            verify=tls,
            proxy=proxy,
            trust_env=False,
            follow_redirects=False,
            timeout=httpx.Timeout(connect=timeouts.connect_s, pool=timeouts.pool_s, write=timeouts.write_s, read=None),
            limits=httpx.Limits(
                max_connections=max_connections, max_keepalive_connections=max_connections, keepalive_expiry=MAX_IDLE_S
            ),
        )

    async def open(self, outgoing: Outgoing, deadline_s: float = math.inf, on_sent: Callable[[], None] | None = None) -> Reply:
        """Send the request and return when the reply's head is in. Raises `TransportError`."""
        if self._client.is_closed:
            raise TransportError(Fault.CONNECT, "the transport is closed", sent=False)
        opening = _Opening(self._origin, on_sent)
        task = self._tasks.spawn(self._send(outgoing, opening), name="upstream-open")
        try:
            in_time = await _beside(task, deadline_s)
        except asyncio.CancelledError:
            self._abandon(task, opening)
            raise
        if not in_time:
            self._abandon(task, opening)
            raise TransportError(Fault.TIMEOUT, "the deadline passed", sent=opening.sent)
        return decoded(_StockReply(task.result(), opening, deadline_s, self._tasks, self._held))

    def occupancy(self) -> Occupancy:
        """Return what is held now; httpx tells neither its idle connections nor its queue."""
        return Occupancy(busy=len(self._held), idle=0, waiting=0)

    async def aclose(self) -> None:
        """Close every connection; exchanges under way fail."""
        await self._client.aclose()
        await self._tasks.drain(0)

    async def _send(self, outgoing: Outgoing, opening: "_Opening") -> httpx.Response:
        self._held.add(opening)
        try:
            response = await self._client.send(self._request(outgoing, opening), stream=True)
        except (httpx.InvalidURL, httpx.LocalProtocolError) as error:
            raise ValueError("the path or a header of a request is not proper HTTP") from error
        except httpx.TransportError as error:
            raise _translated(error, sent=opening.sent) from error
        finally:
            self._held.discard(opening)
        if (reason := _improper(response)) is not None:
            await response.aclose()
            raise TransportError(Fault.PROTOCOL, reason, sent=True)
        return response

    def _request(self, outgoing: Outgoing, opening: "_Opening") -> httpx.Request:
        return httpx.Request(
            "POST",
            self._origin.url + outgoing.path,
            headers=[(b"accept-encoding", b"identity"), *outgoing.headers],
            content=outgoing.body,
            extensions={"trace": opening.trace, "timeout": self._client.timeout.as_dict()},
        )

    def _abandon(self, task: asyncio.Task[httpx.Response], opening: "_Opening") -> None:
        opening.abandoned = True
        if opening.sent and not opening.ending:
            task.cancel()
        task.add_done_callback(self._dispose)

    def _dispose(self, task: asyncio.Task[httpx.Response]) -> None:
        if not task.cancelled() and task.exception() is None:
            _ = self._tasks.spawn(task.result().aclose(), name="upstream-close")


class _AbandonedError(Exception):
    """Nobody waits for this request any more."""


class _Opening:
    """How far a request has come, and whether it is still wanted."""

    def __init__(self, origin: Origin, on_sent: Callable[[], None] | None) -> None:
        self.sent = False
        self.abandoned = False
        self.ending = False
        """Its connection is being given back, whatever became of it."""
        self._origin = origin
        self._on_sent = on_sent

    async def trace(self, event: str, seen: Mapping[str, Any]) -> None:
        """Follow httpcore's progress: check the peer as soon as there is one, stop before anything is sent for nobody."""
        if event == "connection.connect_tcp.complete":
            stream = seen["return_value"]
            if self._origin.forbids(stream.get_extra_info("server_addr")[0]):
                await stream.aclose()
                raise TransportError(Fault.CONNECT, "cannot connect: the address is link-local or a metadata service", sent=False)
        elif event == "http11.send_request_headers.started" and seen["request"].method == b"POST":
            if self.abandoned:
                raise _AbandonedError
            self.sent = True
            if self._on_sent is not None:
                self._on_sent()
        elif event == "http11.response_closed.started":
            self.ending = self.sent


class _StockReply:
    """A reply of httpx (a `Reply`)."""

    def __init__(self, response: httpx.Response, opening: _Opening, deadline_s: float, tasks: Owned, held: set[object]) -> None:
        self.status = response.status_code
        self.headers = [(name.lower(), value) for name, value in response.headers.raw]
        self.deadline_s = deadline_s
        self._response = response
        self._opening = opening
        self._pieces = response.aiter_raw()
        self._tasks = tasks
        self._held = held
        self._step: asyncio.Task[bytes] | None = None
        self._error: TransportError | None = None
        held.add(self)

    async def read(self, limit_bytes: int) -> bytes:
        """Return the whole body. Raises `TransportError`."""
        return await read_whole(self, limit_bytes)

    async def next(self) -> bytes:
        """Return the next piece, b"" at the end. Raises `TransportError`."""
        if self._error is not None:
            raise self._error
        if self._step is None:
            self._step = self._tasks.spawn(self._read_piece(), name="upstream-read")
        if not await _beside(self._step, self.deadline_s):
            overdue = TransportError(Fault.TIMEOUT, "the deadline passed", sent=True)
            self._let_go(overdue)
            raise overdue
        step, self._step = self._step, None
        return step.result()

    def close(self) -> None:
        """Let go at once; what httpx has to wait for happens in the background."""
        self._let_go(TransportError(Fault.RESET, "the reply was closed", sent=True))

    async def _read_piece(self) -> bytes:
        try:
            piece = await anext(self._pieces, b"")
            if not piece and ends_with_connection(self.status, self.headers):
                # Over TLS httpcore does not see the end that closed the body, and would use the connection again.
                await self._response.extensions["network_stream"].aclose()
        except httpx.TransportError as error:
            self._error = _translated(error, sent=True)
            await self._response.aclose()
            raise self._error from error
        finally:
            if self._response.is_closed:
                self._held.discard(self)
        return piece

    def _let_go(self, reason: TransportError) -> None:
        self._error = self._error or reason
        step, self._step = self._step, None
        if step is not None:
            if not self._opening.ending:
                step.cancel()
            step.add_done_callback(self._dispose)
        elif self in self._held:
            self._dispose()

    def _dispose(self, step: asyncio.Task[bytes] | None = None) -> None:
        if step is not None and not step.cancelled():
            step.exception()  # nobody is left to be told
        _ = self._tasks.spawn(self._close_response(), name="upstream-close")

    async def _close_response(self) -> None:
        await self._response.aclose()
        self._held.discard(self)


async def _beside(task: asyncio.Task[Any], deadline_s: float) -> bool:
    """Wait for a task without tying it to the caller. Return whether it ended in time."""
    wait_s = None if math.isinf(deadline_s) else max(0.0, deadline_s - time.monotonic())
    done, _ = await asyncio.wait({task}, timeout=wait_s)
    return bool(done)


def _improper(response: httpx.Response) -> str | None:
    """Say what our own parser refuses and h11 lets through."""
    if sum(len(name) + len(value) for name, value in response.headers.raw) > HEAD_LIMIT_BYTES:
        return f"more than {HEAD_LIMIT_BYTES} bytes of head"
    if "content-length" in response.headers and "transfer-encoding" in response.headers:
        return "two framings in one reply"
    return None


def _translated(error: httpx.TransportError, *, sent: bool) -> TransportError:
    return TransportError(_fault(error), f"{type(error).__name__} in httpx", sent=sent)


def _fault(error: httpx.TransportError) -> Fault:
    match error:
        case httpx.ConnectError() if _is_tls(error):
            return Fault.TLS
        case httpx.WriteTimeout():
            return Fault.WRITE
        case httpx.RemoteProtocolError() if not str(error).startswith(HANG_UPS):
            return Fault.PROTOCOL
        case httpx.RemoteProtocolError() | httpx.ReadError() | httpx.WriteError():
            return Fault.RESET
        case _:
            return Fault.CONNECT


def _is_tls(error: BaseException | None) -> bool:
    while error is not None and not isinstance(error, ssl.SSLError):
        error = error.__cause__ or error.__context__
    return error is not None
