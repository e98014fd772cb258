"""A listener whose connections begin with a TLS handshake: each in a task of its own, with the certificate of that moment.

What the loop itself offers keeps one certificate for good, and forgets who is in mid-handshake when the listener closes.
A handshake that comes to nothing is no error of the gateway: ports are scanned, and clients speak HTTP to the wrong one.
"""

import asyncio
import contextlib
import errno
import ssl
from collections.abc import Callable
from socket import socket

import structlog

from gateway.tasks import Owned

HANDSHAKE_S = 10.0
"""How long a client may take for it. Usual ones need two turns of the line; one that says nothing holds a descriptor."""

CLOSING_S = 300.0
"""How long the end of an answer and the good-byes may take on a slow line; the loop's 30 s would cut answers off."""

LEAVING_S = 1.0
"""How long a listener that closes waits for handshakes under way: who has connected before is answered."""

PAUSE_S = 1.0
"""How long nobody is accepted where there are no descriptors for it; the next try would find none either."""

HIGH_WATER_BYTES = 65_536
"""How much of an answer waits for a client, as without TLS: the loop would let eight times as much."""

EXHAUSTED = frozenset({errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM})

log = structlog.get_logger("gateway.server")


class Acceptor:
    """Accepts on one listener. `context` tells what a connection begins with, `protocol` makes what it is served by."""

    def __init__(
        self, listener: socket, context: Callable[[], ssl.SSLContext], protocol: Callable[[], asyncio.BaseProtocol]
    ) -> None:
        self._listener = listener
        self._context = context
        self._protocol = protocol
        self._loop = asyncio.get_running_loop()
        self._handshakes = Owned()
        self._pause: asyncio.TimerHandle | None = None

    def start(self) -> None:
        """Begin to accept: one a turn, so that workers that share a listener share its connections."""
        self._listener.settimeout(0.0)
        self._pause = None
        self._loop.add_reader(self._listener, self._accept)

    async def close(self) -> None:
        """Take in whom the kernel has accepted, close the listener, and wait for handshakes, but not for ever."""
        if self._pause is not None:
            self._pause.cancel()
        self._loop.remove_reader(self._listener)
        with contextlib.suppress(BlockingIOError):  # nobody is left
            while True:
                self._begin(self._listener.accept()[0])
        self._listener.close()
        await self._handshakes.drain(LEAVING_S)

    def _accept(self) -> None:
        try:
            connection, _ = self._listener.accept()
        except (BlockingIOError, InterruptedError, ConnectionAbortedError):
            return  # another worker was first, or the client has left
        except OSError as error:
            if error.errno not in EXHAUSTED:
                raise
            log.error("accept_failed", error=error.strerror, pause_s=PAUSE_S)  # noqa: TRY400 - where it failed says nothing
            self._loop.remove_reader(self._listener)
            self._pause = self._loop.call_later(PAUSE_S, self.start)
            return
        self._begin(connection)

    def _begin(self, connection: socket) -> None:
        self._handshakes.detach(self._shake_hands(connection), name="handshake")

    async def _shake_hands(self, connection: socket) -> None:
        try:
            made, _ = await self._loop.connect_accepted_socket(
                self._protocol,
                connection,
                ssl=self._context(),
                ssl_handshake_timeout=HANDSHAKE_S,
                ssl_shutdown_timeout=CLOSING_S,
            )
        except OSError as error:  # TLS errors, timeouts and resets all are
            log.debug("handshake_failed", reason=str(error) or type(error).__name__)
        else:
            made.set_write_buffer_limits(HIGH_WATER_BYTES)
