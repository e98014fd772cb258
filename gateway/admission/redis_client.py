"""redis-py's client for all that is not the hot path: the ledger's stream, elections, turns, and the search for the store.

It goes where the store is: every new connection asks, and one that meets a server which is not the store, or no longer, is left.
It repeats nothing, since a command that timed out may have run.
"""

import asyncio
import ssl
from typing import Any

import hiredis
from redis.asyncio import Redis
from redis.asyncio.connection import Connection, ConnectionPool
from redis.asyncio.retry import Retry
from redis.backoff import NoBackoff
from redis.exceptions import BusyLoadingError, ClusterDownError, MovedError, ReadOnlyError
from redis.exceptions import ConnectionError as RedisConnectionError
from redis.maint_notifications import MaintNotificationsConfig

from gateway.admission.endpoint import Locate

ELSEWHERE = (ReadOnlyError, BusyLoadingError, MovedError, ClusterDownError)
"""What redis-py makes of the errors that `connection.STALE` names."""


class Following(Connection):
    """A connection of redis-py's to where the store is when it is made."""

    def __init__(self, *, locate: Locate, **options: Any) -> None:
        super().__init__(**options)
        self._locate = locate
        self._place = "the store"
        self._tls: ssl.SSLContext | None = None

    async def _connect(self) -> None:
        async with asyncio.timeout(self.socket_connect_timeout):
            endpoint = await self._locate()
            self._place = endpoint.place
            self.host, self.port, self._tls, self.db = endpoint.host, endpoint.port, endpoint.tls, endpoint.database
            self.username, self.password = endpoint.username, endpoint.password.reveal()
            if endpoint.path:
                self._reader, self._writer = await asyncio.open_unix_connection(endpoint.path)
            else:
                await super()._connect()  # type: ignore[no-untyped-call] # redis-py types what it calls public

    def _connection_arguments(self) -> dict[str, Any]:
        return {"host": self.host, "port": self.port, "ssl": self._tls}

    def _host_error(self) -> str:
        return self._place

    def pack_command(self, *args: Any) -> list[bytes]:
        """Return a command as RESP; its name may be of two words. In C: each of the ledger's commands has a thousand ids."""
        name, *arguments = args
        return [hiredis.pack_command((*name.split(), *arguments))]

    async def send_packed_command(self, *args: Any, **options: Any) -> None:
        """Send a packed command. Raises ConnectionError for a connection that was lost, whatever the event loop calls that."""
        try:
            await super().send_packed_command(*args, **options)
        except RuntimeError as error:  # uvloop's, of a handle that is closed
            raise RedisConnectionError("the connection was lost") from error

    async def read_response(self, *args: Any, **options: Any) -> Any:
        """Return a reply. Raises ConnectionError where the store is elsewhere, so that whoever comes next looks for it."""
        try:
            return await super().read_response(*args, **options)
        except ELSEWHERE as error:
            await self.disconnect()
            raise RedisConnectionError(f"the store is elsewhere: {error}") from error


def open_client(locate: Locate, *, timeout_s: float) -> Redis:
    """Return a client of the store; it connects when it is used."""
    pool = ConnectionPool(
        connection_class=Following,
        locate=locate,
        retry=Retry(NoBackoff(), 0),
        socket_timeout=timeout_s,
        socket_connect_timeout=timeout_s,
        maint_notifications_config=MaintNotificationsConfig(enabled=False),
    )
    return Redis.from_pool(pool)
