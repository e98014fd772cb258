"""The upstream: `python -m tests.bench.mock` answers every request at once, with the JSON reply or with the whole stream."""

import asyncio
from typing import cast

import httptools

from tests.bench import loads
from tests.bench.serving import serve

REPLY, STREAM = loads.reply(), loads.stream()


class Upstream(asyncio.Protocol):
    """One connection."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        self._parser = httptools.HttpRequestParser(self)
        self._streamed = False

    def data_received(self, data: bytes) -> None:
        self._parser.feed_data(data)

    def on_body(self, piece: bytes) -> None:
        # A request is one segment, or its body is: the mark is never torn.
        self._streamed = self._streamed or loads.STREAMED in piece

    def on_message_complete(self) -> None:
        self._transport.write(STREAM if self._streamed else REPLY)
        self._streamed = False


if __name__ == "__main__":
    serve(Upstream)
