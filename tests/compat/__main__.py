"""`python -m tests.compat`: clients that others wrote, through a gateway, to a llama.cpp that others wrote too.

First a real upstream's answers directly and through a gateway, byte for byte. Then one small program per client, each in an
environment of its own that a lock file made, and a table of how they fared. Exits 1 if anything differs or fails. With the
address of another server, `python -m tests.compat http://127.0.0.1:PORT`, that one is compared, and nothing else runs.
"""

import asyncio
import os
import shutil
import sys
import tempfile
import time
from asyncio.subprocess import PIPE
from pathlib import Path
from typing import NamedTuple

import msgspec

from tests.compat import real_upstream
from tests.compat.scenarios import Told
from tests.compat.stage import ROOT, gateway, llama
from tests.compat.table import Outcome, outcome, table

LONGEST_PROGRAM_S = 120.0

KEPT = ("PATH", "HOME", "LANG", "LC_ALL")
"""What a program has of this environment: no client's own settings, no proxy, no tracing."""


class Client(NamedTuple):
    """A client, by the folder of its program."""

    name: str
    node: bool = False

    @property
    def absent(self) -> str:
        """Return why it cannot run here, "" where it can."""
        if not self.node:
            return ""
        if shutil.which("node") is None:
            return "no node"
        return "" if (self._folder / "node_modules" / ".made").exists() else "npm could not install it"

    @property
    def command(self) -> tuple[str, ...]:
        """Return what runs its program."""
        if self.node:
            return "node", str(self._folder / "client.mjs")
        return str(ROOT / f".venv-{self.name}" / "bin" / "python"), "-m", f"tests.compat.{self.name}.client"

    @property
    def _folder(self) -> Path:
        return ROOT / "tests" / "compat" / self.name


CLIENTS = (
    Client("openai"),
    Client("openai-node", node=True),
    Client("langchain"),
    Client("ai-sdk", node=True),
    Client("litellm"),
    Client("llm"),
    Client("anthropic"),
)


async def play(client: Client, told: Told) -> Outcome:
    """Run a client's program to its end."""
    if client.absent:
        return Outcome(client.name, absent=client.absent)
    started_s = time.monotonic()
    environment = {name: os.environ[name] for name in KEPT if name in os.environ}
    process = await asyncio.create_subprocess_exec(
        *client.command, msgspec.json.encode(told._asdict()).decode(), stdout=PIPE, stderr=PIPE, cwd=ROOT, env=environment
    )
    try:
        async with asyncio.timeout(LONGEST_PROGRAM_S):
            said, complaints = await process.communicate()
    except TimeoutError:
        process.kill()
        said, complaints = await process.communicate()
    last = (complaints.decode(errors="replace").strip().splitlines() or ["no word"])[-1]
    died = f"ended with {process.returncode}: {last}" if process.returncode else ""
    return outcome(client.name, said.decode(errors="replace"), died, time.monotonic() - started_s)


async def main() -> bool:
    """Run all of it and print how it went. Return whether all is well."""
    with tempfile.TemporaryDirectory(prefix="llama") as directory:
        async with llama(Path(directory)) as upstream:
            texts = await real_upstream.main(upstream.text)
            calls = await real_upstream.main(upstream.calls, real_upstream.CALLS)
            print()
            async with gateway(upstream) as before:
                outcomes = []
                for client in CLIENTS:
                    one = await play(client, before.told)
                    print(f"{one.verdict:5} {one.client}", flush=True)
                    outcomes.append(one)
                outcomes.append(await before.stop())
    print(f"\n{table(outcomes)}")
    return texts and calls and all(one.ok for one in outcomes)


if __name__ == "__main__":
    sys.exit(0 if asyncio.run(real_upstream.main(sys.argv[1]) if len(sys.argv) > 1 else main()) else 1)
