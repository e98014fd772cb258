"""`python -m tests.browser PYTHON [DIRECTORY]`: the dashboard in Debian's chromium, over a gateway of two workers under load.

PYTHON has Playwright; what it sees is written to the directory as pictures. Exits 1 where something is not so, 2 without a
chromium.
"""

import asyncio
import os
import shutil
import sys
import tempfile
from pathlib import Path

import uvloop

from tests.dashboards.load import Load, Watched, loaded
from tests.integration.ops.admin import ADMIN, VIEWER

DRIVE = Path(__file__).with_name("drive.py")
PAUSE_S = 0.2
MARKUP = "<img src=x onerror=alert(1)>"
"""A model that somebody asks for."""


async def moderately(gateway: Watched) -> None:
    """Ask for some of everything, and leave the machine room for a browser."""
    load = Load(gateway)
    while True:
        tiers = [load.ask("m", service_tier=tier, stream=True) for tier in ("priority", "default", "flex")]
        others = [
            load.ask("m"),
            load.ask("moves"),
            load.ask("server"),
            load.ask("m", key="limited"),
            load.ask(MARKUP),
            load.crowd(),
        ]
        await asyncio.gather(*tiers, *others)
        await asyncio.sleep(PAUSE_S)


async def hold(chromium: str, python: str, pictures: Path) -> int:
    """Return the exit code of who looks."""
    with tempfile.TemporaryDirectory() as directory:
        ops = {"admin_token": ADMIN, "tokens": [{"name": "vera", "role": "viewer", "secret": VIEWER}]}
        async with loaded(Path(directory), workers=2, ops=ops) as gateway:
            load = asyncio.create_task(moderately(gateway))
            told = {"CHROMIUM": chromium, "OPS": f"http://{gateway.ops}", "API": gateway.url, "ADMIN": ADMIN, "VIEWER": VIEWER}
            try:
                child = await asyncio.create_subprocess_exec(
                    python, str(DRIVE), str(pictures), env={**os.environ, **told, "MARKUP": MARKUP}
                )
                code = await child.wait()
                if load.done():
                    load.result()
                return code
            finally:
                load.cancel()
                await asyncio.wait([load])


def main() -> int:
    """Run what the command line asks for. Return the exit code."""
    chromium = shutil.which("chromium")
    if chromium is None:
        print("chromium not found: Debian has it in the package of that name (apt-get install chromium)")
        return 2
    python, *rest = sys.argv[1:]
    pictures = Path(rest[0]) if rest else Path(tempfile.mkdtemp(prefix="dashboard-"))
    pictures.mkdir(parents=True, exist_ok=True)
    return uvloop.run(hold(chromium, python, pictures))


if __name__ == "__main__":
    sys.exit(main())
