"""A listener over TLS: what it agrees to, what ends without a word, and that answers, departures and ends are as without."""

import asyncio
import contextlib
import socket
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
import structlog

from gateway.config.certificates import Certificate, Contexts, read
from gateway.config.files import Files
from gateway.config.structs.serving import Tls
from gateway.processes import accepting
from gateway.processes.protocol import Http1
from gateway.processes.server import Server, Times
from tests.certificates import Pems, issue, trust
from tests.fakes.wire import Wire, post, request
from tests.integration.processes.test_protocol import echo, until

GET = request("GET", "/")
LARGE_BYTES = 16 << 20


class Listener:
    """What a test knows of a listener: where it is, and what it shows from now on."""

    def __init__(self, directory: Path, listener: socket.socket) -> None:
        self.directory = directory
        self.port: int = listener.getsockname()[1]
        self.certificate = self.renewed()

    @property
    def url(self) -> str:
        return f"https://127.0.0.1:{self.port}"

    def renewed(self) -> Certificate:
        """Show another certificate."""
        self.pems = issue(self.directory)
        self.certificate = certificate_of(self.pems)
        return self.certificate

    def wire(self) -> Wire:
        return Wire(self.url, tls=trust())


def certificate_of(pems: Pems) -> Certificate:
    return read(Tls(**pems.section), Files())


@asynccontextmanager
async def opened(app: Any, directory: Path) -> AsyncIterator[tuple[Server, Listener]]:
    sock = socket.create_server(("127.0.0.1", 0))
    listener = Listener(directory, sock)
    server = Server(app, Times(receipt_s=5.0), tls=Contexts.of(lambda: listener.certificate))
    await server.open(sock)
    try:
        yield server, listener
    finally:
        await server.close()


async def test_a_request_is_answered_and_its_connection_kept(tmp_path: Path) -> None:
    scopes = []

    async def app(scope: Any, receive: Any, send: Any) -> None:
        scopes.append(scope)
        await echo(scope, receive, send)

    async with opened(app, tmp_path) as (server, at), at.wire() as wire:
        for body in (b"one", b"two"):
            await wire.send(post(body, path="/"))
            assert (await wire.answer()).body == body
        assert wire.shown == at.pems.der
        assert len(server.server_state.connections) == 1
    assert {scope["scheme"] for scope in scopes} == {"https"}
    assert {scope["client"][0] for scope in scopes} == {"127.0.0.1"}


@pytest.mark.parametrize(
    ("offered", "agreed"), [(["h2", "http/1.1"], "http/1.1"), (["h2"], None), ([], None)], ids=["both", "another", "nothing"]
)
async def test_http_1_1_is_what_is_spoken(offered: list[str], agreed: str | None, tmp_path: Path) -> None:
    client = trust()
    if offered:
        client.set_alpn_protocols(offered)
    async with opened(echo, tmp_path) as (_, at), Wire(at.url, tls=client) as wire:
        assert wire.agreed == agreed
        await wire.send(GET)
        assert (await wire.answer()).status == 200


@pytest.mark.filterwarnings("ignore:ssl.TLSVersion:DeprecationWarning")
async def test_a_protocol_that_is_too_old_is_refused(tmp_path: Path) -> None:
    client = trust()
    client.minimum_version, client.maximum_version = ssl.TLSVersion.MINIMUM_SUPPORTED, ssl.TLSVersion.TLSv1_1
    client.set_ciphers("ALL:@SECLEVEL=0")
    async with opened(echo, tmp_path) as (_, at):
        with pytest.raises((ssl.SSLError, ConnectionError)):
            await Wire(at.url, tls=client).__aenter__()
        async with at.wire() as wire:
            await wire.send(GET)
            assert (await wire.answer()).status == 200


NO_HANDSHAKES = [GET, b"\x16\x03\x01\x00\x05hello", b"\x00" * 300, b"\xff\n" * 9]


@pytest.mark.parametrize("said", NO_HANDSHAKES, ids=["http", "half of one", "zeros", "rubbish"])
async def test_what_is_no_handshake_ends_without_a_word(
    said: bytes, tmp_path: Path, caplog: pytest.LogCaptureFixture, recwarn: pytest.WarningsRecorder
) -> None:
    asyncio.get_running_loop().set_exception_handler(lambda _, context: pytest.fail(str(context)))
    with structlog.testing.capture_logs() as events:
        async with opened(echo, tmp_path) as (_, at), asyncio.timeout(5):
            async with Wire(at.url) as plain:
                await plain.send(said)
                with contextlib.suppress(ConnectionResetError):
                    assert b"HTTP" not in await plain.rest()
            async with Wire(at.url):
                pass  # hangs up at once
            async with at.wire() as wire:
                await wire.send(GET)
                assert (await wire.answer()).status == 200
    assert {event["log_level"] for event in events} <= {"debug"}
    assert caplog.records == []


async def test_who_says_nothing_is_not_waited_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(accepting, "HANDSHAKE_S", 0.05)
    async with opened(echo, tmp_path) as (_, at), Wire(at.url) as silent, asyncio.timeout(5):
        assert await silent.ended()


async def test_a_renewed_certificate_is_shown_to_new_connections_and_old_ones_live_on(tmp_path: Path) -> None:
    async with opened(echo, tmp_path) as (_, at), at.wire() as old:
        first = at.pems.der
        at.renewed()
        async with at.wire() as new:
            assert new.shown == at.pems.der != first
        await old.send(GET)
        assert (await old.answer()).status == 200
        assert old.shown == first


async def streaming(scope: Any, receive: Any, send: Any) -> None:
    """Answer in a piece, and end when the client has left."""
    await send({"type": "http.response.start", "status": 200, "headers": []})
    await send({"type": "http.response.body", "body": b"one", "more_body": True})
    message = await receive()
    while message["type"] != "http.disconnect":
        message = await receive()
    scope["state"]["gone"].set()


@pytest.mark.parametrize("way", ["cut", "in good order", "said to TLS alone"])
async def test_a_departure_is_noticed_at_once(way: str, tmp_path: Path) -> None:
    gone = asyncio.Event()

    async def app(scope: Any, receive: Any, send: Any) -> None:
        scope["state"]["gone"] = gone
        await streaming(scope, receive, send)

    async with opened(app, tmp_path) as (server, at):
        sock = await asyncio.to_thread(connected, at.port)
        await asyncio.to_thread(sock.sendall, GET)
        heard = b""
        while b"one" not in heard:
            heard += await asyncio.to_thread(sock.recv, 1000)
        if way == "said to TLS alone":
            with contextlib.suppress(OSError):
                await asyncio.to_thread(sock.unwrap)  # its own end alone; the socket stays open
        elif way == "in good order":
            sock.shutdown(socket.SHUT_WR)
        else:
            sock.close()
        async with asyncio.timeout(1.0):
            await gone.wait()
            await until(lambda: not server.server_state.connections)
        sock.close()


def connected(port: int) -> ssl.SSLSocket:
    sock = socket.create_connection(("127.0.0.1", port), timeout=5)
    return trust().wrap_socket(sock, server_hostname="localhost", suppress_ragged_eofs=False)


async def test_an_answer_waits_for_a_client_that_reads_slowly_as_without_tls(tmp_path: Path) -> None:
    written = []

    async def app(scope: Any, receive: Any, send: Any) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": [(b"connection", b"close")]})
        for _ in range(LARGE_BYTES // 4096):
            await send({"type": "http.response.body", "body": bytes(4096), "more_body": True})
            written.append(4096)
        await send({"type": "http.response.body", "body": b"end"})

    async with opened(app, tmp_path) as (server, at), asyncio.timeout(20):
        sock = await asyncio.to_thread(connected, at.port)
        await asyncio.to_thread(sock.sendall, request("GET", "/", ("connection", "close")))
        await until(lambda: bool(written))
        (connection,) = server.server_state.connections
        assert isinstance(connection, Http1)
        await until(lambda: connection.flow.write_paused)
        assert connection.transport.get_write_buffer_size() < 4 * accepting.HIGH_WATER_BYTES
        reader = asyncio.get_running_loop().run_in_executor(None, whole, sock)
        assert b"end" in (await reader)[-20:]
        sock.close()


def whole(sock: ssl.SSLSocket) -> bytes:
    """Read to the other side's good-bye; without one this raises, for anybody could have cut the rest off."""
    said = bytearray()
    while piece := sock.recv(1 << 16):
        said += piece
    return bytes(said)


async def test_a_large_body_comes_and_goes_whole(tmp_path: Path) -> None:
    body = bytes(range(256)) * (LARGE_BYTES // 1024)
    async with opened(echo, tmp_path) as (_, at), at.wire() as wire, asyncio.timeout(20):
        sending = asyncio.create_task(wire.send(post(body, path="/")))
        assert (await wire.answer()).body == body
        await sending


async def test_an_answer_that_is_given_up_is_seen_to_be_cut_off(tmp_path: Path) -> None:
    async def app(scope: Any, receive: Any, send: Any) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": b"one", "more_body": True})
        await asyncio.sleep(0.05)

    async with opened(app, tmp_path) as (_, at), asyncio.timeout(5):
        sock = await asyncio.to_thread(connected, at.port)
        await asyncio.to_thread(sock.sendall, GET)
        with sock, pytest.raises((ssl.SSLEOFError, ConnectionResetError)):
            await asyncio.to_thread(whole, sock)


async def test_an_answer_under_way_is_whole_before_the_listener_has_closed(tmp_path: Path) -> None:
    going_on = asyncio.Event()

    async def app(scope: Any, receive: Any, send: Any) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": b"one", "more_body": True})
        await going_on.wait()
        await send({"type": "http.response.body", "body": b"two"})

    async with opened(app, tmp_path) as (server, at), asyncio.timeout(10), at.wire() as idle, at.wire() as wire:
        await wire.send(GET)
        await wire.until(b"one\r\n")
        server.leave()
        assert await idle.ended()
        with pytest.raises(ConnectionError):
            await at.wire().__aenter__()
        going_on.set()
        assert await wire.rest() == b"3\r\ntwo\r\n0\r\n\r\n"


async def test_who_is_in_mid_handshake_when_the_listener_closes_is_answered(tmp_path: Path) -> None:
    async with opened(echo, tmp_path) as (server, at), asyncio.timeout(10):
        early = socket.create_connection(("127.0.0.1", at.port), timeout=5)
        late = socket.create_connection(("127.0.0.1", at.port), timeout=5)
        silent = socket.create_connection(("127.0.0.1", at.port), timeout=5)
        server.leave()
        for sock in (early, late):
            assert b"200 OK" in await asyncio.to_thread(asked, sock)
        assert await asyncio.to_thread(silent.recv, 1) == b""
        silent.close()


def asked(sock: socket.socket) -> bytes:
    with trust().wrap_socket(sock, server_hostname="localhost") as client:
        client.sendall(GET)
        return client.recv(1000)


async def test_where_there_are_no_descriptors_nobody_is_accepted_until_there_are(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(accepting, "PAUSE_S", 0.05)
    async with opened(echo, tmp_path) as (server, at), asyncio.timeout(10):
        (acceptor,) = server._acceptors
        full = Full(acceptor._listener)
        acceptor._listener = full  # type: ignore[assignment]
        with structlog.testing.capture_logs() as events:
            async with at.wire() as wire:
                await wire.send(GET)
                assert (await wire.answer()).status == 200
        acceptor._listener = full.listener
        assert [(event["event"], event["log_level"]) for event in events] == [("accept_failed", "error")]


class Full:
    """A listener whose process has no descriptor left, the first time that it is asked for one."""

    def __init__(self, listener: socket.socket) -> None:
        self.listener = listener
        self._tries = 0

    def fileno(self) -> int:
        return self.listener.fileno()

    def settimeout(self, timeout_s: float) -> None:
        self.listener.settimeout(timeout_s)

    def accept(self) -> tuple[socket.socket, Any]:
        self._tries += 1
        if self._tries == 1:
            raise OSError(24, "Too many open files")
        return self.listener.accept()
