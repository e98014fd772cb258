"""A client that writes HTTP/1.1 itself: every byte of its requests is the test's, and its connection is kept to look at."""

import asyncio
import ssl
from types import TracebackType
from typing import Any, Self
from urllib.parse import urlsplit

import msgspec

Headers = list[tuple[str, str]]


class Answer(msgspec.Struct, frozen=True):
    """One response as it came, header names in lower case."""

    status: int
    headers: dict[str, str]
    body: bytes

    def json(self) -> Any:
        """Return the body as JSON."""
        return msgspec.json.decode(self.body)


class Wire:
    """`async with Wire(url) as wire`: one connection; `tls` is what one begins with that is encrypted."""

    def __init__(self, url: str, *, tls: ssl.SSLContext | None = None) -> None:
        where = urlsplit(url)
        self._host, self._port, self._tls = where.hostname, where.port, tls

    async def __aenter__(self) -> Self:
        self._reader, self._writer = await asyncio.open_connection(self._host, self._port, ssl=self._tls)
        return self

    async def __aexit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self._writer.transport.abort()

    async def send(self, data: bytes) -> None:
        """Write bytes, and wait until the other side has taken most of them. Raises `ConnectionError` where it has hung up."""
        if self._writer.transport.is_closing():  # a write would be no error of the connection to every loop
            raise ConnectionResetError
        self._writer.write(data)
        await self._writer.drain()

    async def send_for_ever(self, data: bytes) -> None:
        """Write the same again and again. Raises `ConnectionError` once the other side has had enough."""
        while True:
            await self.send(data)

    def end(self) -> None:
        """Say that nothing more will be written, but go on reading."""
        self._writer.write_eof()

    def abort(self) -> None:
        """Hang up at once."""
        self._writer.transport.abort()

    @property
    def shown(self) -> bytes | None:
        """Return the certificate that the other side showed, in DER."""
        connection: ssl.SSLObject = self._writer.get_extra_info("ssl_object")
        return connection.getpeercert(binary_form=True)

    @property
    def agreed(self) -> str | None:
        """Return the protocol that both sides agreed on in the handshake."""
        connection: ssl.SSLObject = self._writer.get_extra_info("ssl_object")
        return connection.selected_alpn_protocol()

    async def until(self, words: bytes) -> bytes:
        """Read on until these bytes have come; return all up to and with them."""
        return await self._reader.readuntil(words)

    async def answer(self, method: str = "POST") -> Answer:
        """Read one whole response to a request of this method. Raises `IncompleteReadError` where there is none."""
        first, *lines = (await self._reader.readuntil(b"\r\n\r\n")).decode("latin-1").split("\r\n")
        headers = {name.lower(): value for name, _, value in (line.partition(": ") for line in lines if line)}
        if method == "HEAD":
            body = b""
        elif headers.get("transfer-encoding") == "chunked":
            body = await self._chunks()
        else:
            body = await self._reader.readexactly(int(headers["content-length"]))
        return Answer(int(first.split(" ")[1]), headers, body)

    async def interim(self) -> int:
        """Read the status of a response that is not the last."""
        return int((await self._reader.readuntil(b"\r\n\r\n")).split(b" ")[1])

    async def rest(self) -> bytes:
        """Read until the other side closes."""
        return await self._reader.read()

    async def ended(self) -> bool:
        """Wait for the other side to close; return whether it had nothing more to say."""
        return await self.rest() == b""

    async def _chunks(self) -> bytes:
        pieces: list[bytes] = []
        while (size := int(await self._reader.readuntil(b"\r\n"), 16)) > 0:
            pieces.append(await self._reader.readexactly(size))
            await self._reader.readexactly(2)
        await self._reader.readexactly(2)
        return b"".join(pieces)


def post(body: bytes, *headers: tuple[str, str], path: str = "/v1/chat/completions", framed: bool = True) -> bytes:
    """Return the bytes of a POST; with its length, unless its framing is among the headers."""
    return request("POST", path, *headers, *([("content-length", str(len(body)))] if framed else [])) + body


def request(method: str, path: str, *headers: tuple[str, str]) -> bytes:
    """Return the bytes of a head."""
    lines = [f"{method} {path} HTTP/1.1", "host: gateway.test", *(f"{name}: {value}" for name, value in headers), "", ""]
    return "\r\n".join(lines).encode("latin-1")


def chunked(*pieces: bytes) -> bytes:
    """Return a body in chunks, and its end."""
    return b"".join(b"%x\r\n%b\r\n" % (len(piece), piece) for piece in (*pieces, b""))
