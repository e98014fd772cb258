"""A gateway that serves nothing but what the supervisor's tests look at.

`GET /` answers the worker's name, `GET /hold` streams one chunk and then waits for the drain or the client. What happens to the
gateway is written to the file that $JOURNAL names, one line an event, with Valkey's answer where it counts.
"""

import asyncio
import os
from pathlib import Path
from typing import Any

from gateway.processes.assignment import Assignment


class FakeGateway:
    certificate = None

    def __init__(self, assignment: Assignment) -> None:
        self._assignment = assignment
        self._journal = Path(os.environ["JOURNAL"])
        self._draining = asyncio.Event()
        self._idle = asyncio.Event()
        self._idle.set()
        self._ready = False

    async def api(self, scope: Any, receive: Any, send: Any) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": self._assignment.name.encode(), "more_body": scope["path"] == "/hold"})
        if scope["path"] == "/hold":
            self._idle.clear()
            await self._draining.wait()
            await send({"type": "http.response.body", "body": b" and the end"})
            self._idle.set()

    async def control(self, scope: Any, receive: Any, send: Any) -> None:
        status = 200 if scope["path"] == "/status" and self._ready else 503
        body = b'{"pid": %d, "name": "%s"}' % (os.getpid(), self._assignment.name.encode())
        await send({"type": "http.response.start", "status": status, "headers": [(b"content-length", b"%d" % len(body))]})
        await send({"type": "http.response.body", "body": body})

    async def start(self) -> None:
        self._ready = True
        await self._note("started")

    async def drain(self, timeout_s: float) -> None:
        self._draining.set()
        await self._note("draining")
        if os.environ.get("NEVER_IDLE"):
            await asyncio.sleep(timeout_s)
        await self._idle.wait()

    async def stop(self) -> None:
        await self._note("stopped")

    async def _note(self, event: str) -> None:
        with self._journal.open("a") as journal:
            journal.write(f"{self._assignment.name} {event} valkey={await self._valkey()}\n")

    async def _valkey(self) -> str:
        try:
            reader, writer = await asyncio.open_unix_connection(self._assignment.redis_url.removeprefix("unix://"))
        except OSError:
            return "down"
        writer.write(b"PING\r\n")
        answer = await reader.readline()
        writer.close()
        return "up" if answer == b"+PONG\r\n" else "silent"
