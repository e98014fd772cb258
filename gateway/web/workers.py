"""The supervisor's questions to its workers, each on its private socket; a worker that does not answer in time is no answer."""

import asyncio
from collections.abc import Callable

import httpx

TIMEOUT_S = 2.0
TELL_S = 10.0
"""To take another configuration: a large one is compiled for a while."""

MOST_REASON = 200
"""Characters of why a worker did not."""

PROBE_S = 0.5
"""For whoever is probed in turn: orchestrators and balancers wait a second."""


class Workers:
    """All workers, in their places; `sockets` tells where they listen now."""

    def __init__(self, sockets: Callable[[], list[str]]) -> None:
        self._sockets = sockets

    async def ask(self, path: str, *, timeout_s: float = TIMEOUT_S) -> list[bytes | None]:
        """Return each worker's answer to GET `path`."""
        return await asyncio.gather(*(ask(socket, path, timeout_s) for socket in self._sockets()))


async def tell(socket: str, edition: bytes) -> str | None:
    """Tell one worker of a reading of the configuration. Return why it did not take it, None where it did."""
    transport = httpx.AsyncHTTPTransport(uds=socket, verify=False)
    async with httpx.AsyncClient(transport=transport, timeout=TELL_S, trust_env=False) as client:
        try:
            response = await client.post("http://worker/config", content=edition)
        except httpx.HTTPError as error:
            return type(error).__name__
    return None if response.is_success else f"status {response.status_code}: {response.text[:MOST_REASON]}"


async def ask(socket: str, path: str, timeout_s: float) -> bytes | None:
    """Return one worker's answer, None where there is none."""
    transport = httpx.AsyncHTTPTransport(uds=socket, verify=False)  # spares the loading of certificates
    async with httpx.AsyncClient(transport=transport, timeout=timeout_s, trust_env=False) as client:
        try:
            response = await client.get(f"http://worker{path}")
        except httpx.HTTPError:
            return None
    return response.content if response.is_success else None
