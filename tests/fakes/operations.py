"""An operations port that shows what the supervisor lets it see."""

import contextlib
from collections.abc import AsyncIterator
from typing import Any

import msgspec

from gateway.config import Config
from gateway.processes.supervisor import Supervisor


@contextlib.asynccontextmanager
async def operations(view: Supervisor, config: Config) -> AsyncIterator[Any]:
    async def ops(scope: Any, receive: Any, send: Any) -> None:
        body = msgspec.json.encode({"draining": view.draining, "control_sockets": view.control_sockets()})
        await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"%d" % len(body))]})
        await send({"type": "http.response.body", "body": body})

    yield ops
