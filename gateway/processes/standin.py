"""The operations port until gateway.web.ops is there."""

import asyncio
from typing import Any


def build_ops(view: Any) -> Any:
    """Return /readyz alone."""

    async def status(path: str) -> bool:
        try:
            reader, writer = await asyncio.open_unix_connection(path)
            writer.write(b"GET /status HTTP/1.1\r\nhost: w\r\nconnection: close\r\n\r\n")
            answer = await reader.read()
            writer.close()
        except OSError:
            return False
        return b'"ready":true' in answer

    async def ops(_scope: Any, _receive: Any, send: Any) -> None:
        sockets = view.control_sockets()
        ready = bool(sockets) and all([await status(path) for path in sockets]) and not view.draining
        await send({"type": "http.response.start", "status": 200 if ready else 503, "headers": [(b"content-length", b"0")]})
        await send({"type": "http.response.body", "body": b""})

    return ops
