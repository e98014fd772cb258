"""A supervisor over fake workers: its arguments are the state directory, the two ports, the workers, the delay and the drain."""

import asyncio
import os
import sys
from pathlib import Path
from typing import Any

import msgspec

from gateway.config import Config
from gateway.embedded.child import Unavailable
from gateway.processes.supervisor import Parts, Source, Supervisor


def build_ops(supervisor: Supervisor) -> Any:
    async def ops(scope: Any, receive: Any, send: Any) -> None:
        body = msgspec.json.encode({"draining": supervisor.draining, "control_sockets": supervisor.control_sockets()})
        await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"%d" % len(body))]})
        await send({"type": "http.response.body", "body": body})

    return ops


def main() -> int:
    state_dir, port, ops_port, workers, delay_s, drain_s = sys.argv[1:]
    document = {
        "api": {"host": "127.0.0.1", "port": int(port)},
        "ops": {"host": "127.0.0.1", "port": int(ops_port)},
        "workers": int(workers),
        "state_dir": state_dir,
        "shutdown": {"delay": float(delay_s), "drain": float(drain_s)},
    }
    config = msgspec.convert(document, Config)
    parts = Parts(worker_module="tests.fakes.worker", build_ops=build_ops)
    try:
        return asyncio.run(Supervisor(config, Source(path=Path("none"), environ=dict(os.environ)), parts).run())
    except Unavailable as error:
        print(error, file=sys.stderr)
        return 69


if __name__ == "__main__":
    sys.exit(main())
