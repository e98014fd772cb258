"""What every transport is tested with: both implementations, plain and over TLS, ours on both event loops."""

import asyncio
import ssl
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import AsyncExitStack
from pathlib import Path

import msgspec
import pytest
import trustme
import uvloop

from gateway.policy.catalogue import Provider, Secret, Timeouts
from gateway.upstream import connect
from gateway.upstream.origin import tls_context
from gateway.upstream.transport import Outgoing, Reply, Transport
from tests.fakes.http_server import HttpServer, Script

HERE = Path(__file__).parent
PATIENT = Timeouts(connect_s=5.0, pool_s=5.0, write_s=5.0)


class Certificates(msgspec.Struct, frozen=True):
    """What a TLS server shows, and what its clients trust."""

    ca_file: str
    server: ssl.SSLContext
    client: ssl.SSLContext


class Bench:
    """Servers and transports of one flavour, all closed at the end of the test."""

    def __init__(self, kind: str, certificates: Certificates, stack: AsyncExitStack, *, tls: bool) -> None:
        self.kind = kind
        self._certificates = certificates
        self._stack = stack
        self._tls = tls

    async def serve(self, script: Script) -> HttpServer:
        """Start a server."""
        tls = self._certificates.server if self._tls else None
        return await self._stack.enter_async_context(HttpServer(script, tls=tls))

    def connect(self, base_url: str, *, timeouts: Timeouts = PATIENT, max_connections: int = 4) -> Transport:
        """Make a transport."""
        provider = Provider(name="p", dialect="openai", base_url=base_url, api_key=Secret(""), transport=self.kind)
        transport = connect(provider, timeouts, max_connections=max_connections, tls=self._certificates.client)
        self._stack.push_async_callback(transport.aclose)
        return transport

    async def pair(
        self, script: Script, *, timeouts: Timeouts = PATIENT, max_connections: int = 4
    ) -> tuple[HttpServer, Transport]:
        """Start a server and make a transport to it."""
        server = await self.serve(script)
        return server, self.connect(server.base_url, timeouts=timeouts, max_connections=max_connections)


def a_post(body: bytes = b"{}", path: str = "/v1/chat/completions", **headers: str) -> Outgoing:
    """Return a request."""
    pairs = tuple((name.replace("_", "-").encode(), value.encode()) for name, value in headers.items())
    return Outgoing(path=path, headers=pairs, body=body)


async def pieces_of(reply: Reply) -> list[bytes]:
    """Return the pieces of a body up to its end."""
    pieces = []
    while piece := await reply.next():
        pieces.append(piece)
    return pieces


async def at_rest(transport: Transport) -> None:
    """Return when nothing is under way; what a cancelled caller left is tidied up in the background."""
    async with asyncio.timeout(5.0):
        while (held := transport.occupancy()).busy or held.waiting:
            await asyncio.sleep(0.001)


def pytest_asyncio_loop_factories() -> Mapping[str, Callable[[], asyncio.AbstractEventLoop]]:
    return {"asyncio": asyncio.new_event_loop, "uvloop": uvloop.new_event_loop}


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Leave out stock httpx on the stock loop: neither is ours."""
    items[:] = [item for item in items if item.path.parent != HERE or not {"asyncio", "httpx"} <= parameters_of(item)]


def parameters_of(item: pytest.Item) -> set[str]:
    return set(item.name.partition("[")[2].rstrip("]").split("-"))


@pytest.fixture(scope="session")
def certificates(tmp_path_factory: pytest.TempPathFactory) -> Certificates:
    authority = trustme.CA()
    ca_file: Path = tmp_path_factory.mktemp("tls") / "ca.pem"
    authority.cert_pem.write_to_path(str(ca_file))
    server = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority.issue_cert("localhost").configure_cert(server)
    return Certificates(str(ca_file), server, tls_context(str(ca_file)))


@pytest.fixture(params=["http1", "httpx"])
def kind(request: pytest.FixtureRequest) -> str:
    """Name a transport as a provider's configuration does."""
    return str(request.param)


@pytest.fixture
async def plain(kind: str, certificates: Certificates) -> AsyncIterator[Bench]:
    """Work over plain HTTP."""
    async with AsyncExitStack() as stack:
        yield Bench(kind, certificates, stack, tls=False)


@pytest.fixture
async def secure(kind: str, certificates: Certificates) -> AsyncIterator[Bench]:
    """Work over TLS."""
    async with AsyncExitStack() as stack:
        yield Bench(kind, certificates, stack, tls=True)


@pytest.fixture(params=["plain", "tls"])
async def bench(request: pytest.FixtureRequest, kind: str, certificates: Certificates) -> AsyncIterator[Bench]:
    """Work over plain HTTP and over TLS."""
    async with AsyncExitStack() as stack:
        yield Bench(kind, certificates, stack, tls=request.param == "tls")
