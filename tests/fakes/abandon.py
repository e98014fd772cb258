"""A gateway that is killed and leaves its Valkey behind; with `untied`, on a system where no death signal reaches the server.

Its arguments are the state directory, the run directory and the way; it prints the server's process id.
"""

import asyncio
import subprocess
import sys
from pathlib import Path

from gateway.embedded.binary import find_server
from gateway.embedded.locks import Lock
from gateway.embedded.valkey import Valkey, server_options


async def tied(state_dir: Path, run_dir: Path) -> None:
    async with Valkey(state_dir, run_dir) as valkey:
        print(valkey.pid, flush=True)
        await asyncio.Event().wait()


def untied(state_dir: Path, run_dir: Path) -> None:
    lock = Lock.take(state_dir / "valkey.lock")
    assert lock is not None
    socket_path = run_dir / "valkey.sock"
    lock.write(str(socket_path))
    command = [find_server(), *server_options(state_dir, socket_path)]
    server = subprocess.Popen(
        command, pass_fds=[lock.fd], stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, start_new_session=True
    )
    print(server.pid, flush=True)
    sys.stdin.read()


if __name__ == "__main__":
    state, run, way = sys.argv[1:]
    if way == "tied":
        asyncio.run(tied(Path(state), Path(run)))
    else:
        untied(Path(state), Path(run))
