"""One protocol served on a free port of the loopback interface, which is printed; until the process is ended."""

import asyncio
import gc
from collections.abc import Callable

import uvloop


def serve(make: Callable[[], asyncio.Protocol]) -> None:
    """Serve for ever."""
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        gc.freeze()
        runner.run(_serve(make))


async def _serve(make: Callable[[], asyncio.Protocol]) -> None:
    server = await asyncio.get_running_loop().create_server(make, "127.0.0.1", 0)
    print(server.sockets[0].getsockname()[1], flush=True)
    await server.serve_forever()
