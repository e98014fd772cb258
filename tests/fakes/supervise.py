"""A supervisor over fake workers: its arguments are the state directory, the two ports, the workers, the delay and the drain."""

import asyncio
import os
import sys
from pathlib import Path

import msgspec

from gateway.config import Config
from gateway.embedded.child import Unavailable
from gateway.processes.source import Source
from gateway.processes.supervisor import Parts, Supervisor


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
    parts = Parts(worker="tests.fakes.worker", operations="tests.fakes.operations:operations")
    try:
        return asyncio.run(Supervisor(config, Source(path=Path("none"), environ=dict(os.environ)), parts).run())
    except Unavailable as error:
        print(error, file=sys.stderr)
        return 69


if __name__ == "__main__":
    sys.exit(main())
