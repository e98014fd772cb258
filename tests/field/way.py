"""The way to the store as networks make it: slow, or cut when a command is through and its reply is not back."""

import asyncio
import shutil
import tempfile
from collections.abc import Callable
from functools import partial
from pathlib import Path
from types import TracebackType
from typing import Self

from tests.valkey import Valkey


class Way:
    """`async with Way(valkey) as way`: what a gateway is told instead of the store."""

    def __init__(self, valkey: Valkey) -> None:
        self.delay_s = 0.0
        """How much later replies are."""
        self.cuts: Callable[[bytes], bool] = lambda _: False
        """Whether the connection is lost when the reply to these bytes would come."""
        self._valkey = valkey
        self._dir = Path(tempfile.mkdtemp(prefix="tgw", dir="/tmp"))
        self._tasks: set[asyncio.Task[None]] = set()

    async def __aenter__(self) -> Self:
        self._server = await asyncio.start_unix_server(self._serve, self._dir / "s")
        return self

    async def __aexit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self._server.close()
        for task in [*self._tasks]:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        shutil.rmtree(self._dir)

    @property
    def url(self) -> str:
        return f"unix://{self._dir / 's'}"

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        their_reader, their_writer = await asyncio.open_unix_connection(self._valkey.socket)
        lost = asyncio.Event()
        both = [self._commands(reader, their_writer, lost), self._replies(their_reader, writer, lost)]
        tasks = [asyncio.create_task(each) for each in both]
        self._tasks.update(tasks)
        await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        for task in tasks:
            task.cancel()
        self._tasks.difference_update(tasks)
        for each in (writer, their_writer):
            each.close()

    async def _commands(self, reader: asyncio.StreamReader, store: asyncio.StreamWriter, lost: asyncio.Event) -> None:
        while data := await reader.read(1 << 16):
            if self.cuts(data):
                lost.set()
            store.write(data)

    async def _replies(self, store: asyncio.StreamReader, writer: asyncio.StreamWriter, lost: asyncio.Event) -> None:
        while (data := await store.read(1 << 16)) and not lost.is_set():
            asyncio.get_running_loop().call_later(self.delay_s, partial(writer.write, data))
