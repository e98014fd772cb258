"""The supervisor's questions to its workers, each on its private socket; a worker that does not answer in time is no answer."""

import asyncio
from collections.abc import Callable

import httpx

TIMEOUT_S = 2.0


class Workers:
    """All workers, in their places; `sockets` tells where they listen now."""

    def __init__(self, sockets: Callable[[], list[str]]) -> None:
        self._sockets = sockets

    async def ask(self, path: str) -> list[bytes | None]:
        """Return each worker's answer to GET `path`."""
        return await asyncio.gather(*(ask(socket, path) for socket in self._sockets()))


async def ask(socket: str, path: str) -> bytes | None:
    """Return one worker's answer, None where there is none."""
    transport = httpx.AsyncHTTPTransport(uds=socket, verify=False)  # spares the loading of certificates
    async with httpx.AsyncClient(transport=transport, timeout=TIMEOUT_S, trust_env=False) as client:
        try:
            response = await client.get(f"http://worker{path}")
        except httpx.HTTPError:
            return None
    return response.content if response.is_success else None
