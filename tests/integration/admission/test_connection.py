"""The line to the store: who gets which reply, what a late or lost one means, and how it comes back."""

import asyncio
import contextlib
import ssl
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from random import Random
from time import monotonic

import pytest
import trustme
from redis.exceptions import TimeoutError as RedisTimeoutError

from gateway.admission.client import Admission
from gateway.admission.connection import AdmissionUnavailable, Connection, StoreError, pack
from gateway.admission.discovery import locator
from gateway.admission.redis_client import open_client
from gateway.tasks import Owned
from tests.integration.admission.rows import acquire, row
from tests.integration.admission.state import ask
from tests.integration.processes.conditions import until
from tests.valkey import Valkey

PATIENT_S = 5.0
"""Of a call that is to be answered: a machine that does much else may be late with it."""

TIMEOUT_S = 1.0
"""Of a call that is not; long enough for a server that goes on to answer what comes next."""


@pytest.fixture
def own() -> Iterator[Valkey]:
    """A server that a test may stop, pause and lock."""
    with Valkey() as server:
        yield server


@asynccontextmanager
async def connected(url: str, *, ca_file: str | None = None, timeout_s: float = PATIENT_S) -> AsyncIterator[Connection]:
    connection = Connection(locator(url, ca_file=ca_file), Owned(), timeout_s=timeout_s)
    await connection.open()
    try:
        yield connection
    finally:
        await connection.close()


@asynccontextmanager
async def bridge(valkey: Valkey, tls: ssl.SSLContext | None = None) -> AsyncIterator[int]:
    """Listen on a port of the loopback and pass everything on to the server's socket."""

    async def pump(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while chunk := await reader.read(65536):
                writer.write(chunk)
        except ConnectionError:
            pass
        finally:
            writer.close()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        far_reader, far_writer = await asyncio.open_unix_connection(valkey.socket)
        served.append(asyncio.gather(pump(reader, far_writer), pump(far_reader, writer)))

    served: list[asyncio.Future[tuple[None, None]]] = []
    server = await asyncio.start_server(serve, "127.0.0.1", 0, ssl=tls)
    async with server:
        yield server.sockets[0].getsockname()[1]
        await asyncio.gather(*served)


@asynccontextmanager
async def scripted(tmp_path: Path, *answers: bytes) -> AsyncIterator[tuple[str, list[bytes]]]:
    """A server that gives one answer for each read, whatever was asked, and keeps what it read."""
    heard: list[bytes] = []
    path = str(tmp_path / "s")

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        for answer in answers:
            heard.append(await reader.read(65536))
            writer.write(answer)
        await reader.read()
        writer.close()

    async with await asyncio.start_unix_server(serve, path):
        yield f"unix://{path}", heard


async def test_commands_of_one_turn_leave_in_one_write(tmp_path: Path) -> None:
    async with scripted(tmp_path, b"+PONG\r\n", b":1\r\n:2\r\n:3\r\n") as (url, heard), connected(url) as connection:
        replies = await asyncio.gather(*(ask(connection, "INCR", f"{number}") for number in range(3)))
        assert replies == [1, 2, 3]
        assert heard[1] == b"".join(pack(("INCR", f"{number}")) for number in range(3))


async def test_callers_that_leave_do_not_shift_the_replies_of_others(valkey: Valkey) -> None:
    random = Random(7)

    async with connected(valkey.url) as connection:
        calls = [asyncio.ensure_future(ask(connection, "ECHO", f"{number}")) for number in range(3_000)]
        left = set(random.sample(range(len(calls)), 1_000))
        for number, call in enumerate(calls):
            if number % 7 == 0:
                await asyncio.sleep(0)
            if number in left:
                call.cancel()
        replies = await asyncio.gather(*calls, return_exceptions=True)
        stayed = [(number, reply) for number, reply in enumerate(replies) if not isinstance(reply, asyncio.CancelledError)]
        assert len(stayed) >= len(calls) - len(left)
        assert all(reply == b"%d" % number for number, reply in stayed)
        assert await ask(connection, "ECHO", "after") == b"after"


async def test_an_error_is_its_own_callers_alone(valkey: Valkey) -> None:
    async with connected(valkey.url) as connection:
        replies = await asyncio.gather(
            ask(connection, "ECHO", "a"), ask(connection, "NONSENSE"), ask(connection, "ECHO", "b"), return_exceptions=True
        )
        assert (replies[0], replies[2]) == (b"a", b"b")
        assert isinstance(replies[1], StoreError)
        assert str(replies[1]).startswith("ERR unknown command")


async def test_a_store_that_does_not_answer_is_unavailable_in_time_and_its_late_reply_is_dropped(own: Valkey) -> None:
    async with connected(own.url, timeout_s=TIMEOUT_S) as connection:
        own.pause()
        started_s = monotonic()
        async with asyncio.timeout(30 * TIMEOUT_S):
            with pytest.raises(AdmissionUnavailable, match="in time"):
                await Admission(connection).acquire(acquire("mine", row()))
        assert monotonic() - started_s > TIMEOUT_S / 2
        late = asyncio.ensure_future(ask(connection, "ECHO", "late"))
        own.resume()
        assert await late == b"late"
        assert await ask(connection, "ECHO", "next") == b"next"
        assert connection.fault is None


async def test_a_store_that_stays_silent_is_dialled_anew(own: Valkey) -> None:
    async with connected(own.url, timeout_s=0.02) as connection:
        own.pause()
        with pytest.raises(AdmissionUnavailable):
            await ask(connection, "PING")
        while connection.fault is None:
            await asyncio.gather(ask(connection, "PING"), return_exceptions=True)
        own.resume()

        async def answers() -> bool:
            with contextlib.suppress(AdmissionUnavailable):  # a late answer is none
                await connection.ready()
                return bool(await ask(connection, "ECHO", "again") == b"again")
            return False

        await until(answers)


async def test_a_lost_connection_fails_what_is_in_flight_and_comes_back(own: Valkey) -> None:
    async with connected(own.url) as connection:
        own.pause()
        calls = [asyncio.ensure_future(ask(connection, "ECHO", "x")) for _ in range(3)]
        await asyncio.sleep(0)
        own.stop()
        lost = await asyncio.gather(*calls, return_exceptions=True)
        assert [str(error) for error in lost] == ["the connection was lost"] * 3
        with pytest.raises(AdmissionUnavailable, match="no connection"):
            await ask(connection, "PING")
        own.start()
        await connection.ready()
        assert await ask(connection, "ECHO", "again") == b"again"


async def test_an_absent_store_is_waited_for(own: Valkey) -> None:
    own.stop()
    connection = Connection(locator(own.url), Owned(), timeout_s=PATIENT_S)
    assert not await connection.open()
    assert "FileNotFoundError" in str(connection.fault)
    own.start()
    await connection.ready()
    assert await ask(connection, "ECHO", "here") == b"here"
    await connection.close()
    with pytest.raises(AdmissionUnavailable, match="closed"):
        await ask(connection, "PING")


async def test_it_logs_in_and_chooses_the_database(own: Valkey) -> None:
    client = open_client(locator(own.url), timeout_s=PATIENT_S)
    await client.acl_setuser("tiergate", enabled=True, passwords=["+s3cret/word"], categories=["+@all"], keys=["*"])
    await client.config_set("requirepass", "other")
    await client.aclose()
    url = f"unix://tiergate:s3cret%2Fword@{own.socket}?db=3"
    async with connected(url) as connection:
        assert b"user=tiergate" in await ask(connection, "CLIENT", "INFO")
        assert b"db=3" in await ask(connection, "CLIENT", "INFO")
    async with open_client(locator(url), timeout_s=PATIENT_S) as client:
        who = await client.client_info()
        assert (who["user"], who["db"]) == ("tiergate", 3)
    async with connected(f"unix://:other@{own.socket}") as connection:
        assert b"user=default" in await ask(connection, "CLIENT", "INFO")
    async with connected(f"unix://tiergate:wrong-word@{own.socket}") as connection:
        assert "WRONGPASS" in str(connection.fault)
        assert "wrong-word" not in f"{connection.fault}"


async def test_it_speaks_over_tcp(valkey: Valkey) -> None:
    async with bridge(valkey) as port, connected(f"redis://127.0.0.1:{port}/2") as connection:
        assert b"db=2" in await ask(connection, "CLIENT", "INFO")


async def test_it_speaks_over_tls_and_checks_the_certificate(valkey: Valkey, tmp_path: Path) -> None:
    authority, context = trustme.CA(), ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority.issue_cert("127.0.0.1").configure_cert(context)
    authority.cert_pem.write_to_path(str(tmp_path / "ca.pem"))
    async with bridge(valkey, context) as port:
        url = f"rediss://127.0.0.1:{port}"
        async with connected(url, ca_file=str(tmp_path / "ca.pem")) as connection:
            assert await ask(connection, "ECHO", "safe") == b"safe"
        async with connected(url) as connection:
            assert "CERTIFICATE_VERIFY_FAILED" in str(connection.fault)
        client = open_client(locator(url, ca_file=str(tmp_path / "ca.pem")), timeout_s=PATIENT_S)
        assert await client.ping()
        await client.aclose()


@pytest.mark.parametrize(
    "answer",
    [
        b"no reply at all\r\n",
        b":1\r\n:2\r\n",
        b"-READONLY You can't write\r\n",
        b"-LOADING busy\r\n",
        b"-MOVED 10282 127.0.0.1:7001\r\n",
        b"-CLUSTERDOWN The cluster is down\r\n",
    ],
)
async def test_a_store_that_cannot_be_trusted_is_left(tmp_path: Path, answer: bytes) -> None:
    async with scripted(tmp_path, b"+PONG\r\n", answer) as (url, _), connected(url) as connection:
        await asyncio.gather(ask(connection, "PING"), return_exceptions=True)
        while connection.fault is None:
            await asyncio.sleep(0)
        assert connection.fault == "the connection was lost"


async def test_a_client_of_redis_py_repeats_nothing(own: Valkey) -> None:
    client = open_client(locator(own.url), timeout_s=TIMEOUT_S)
    await client.set("n", 0)
    own.pause()
    with pytest.raises(RedisTimeoutError):
        await client.incr("n")
    own.resume()
    assert int(await client.get("n") or 0) <= 1
    await client.aclose()
