"""Faults that are made on purpose, to see that they are found: one place of the sources says something else.

A place that is not there any more, or twice, is an error: a fault that is not made proves nothing.
"""

import asyncio
import shutil
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import msgspec

ROOT = Path(__file__).parents[1]


class Mutant(msgspec.Struct, frozen=True):
    """One fault: the name it goes by, the file it is in, what stands there and what is put there instead."""

    name: str
    file: str
    old: str
    new: str

    def make(self, text: str) -> str:
        """Return the file's text with the fault in it. Raises ValueError where its place is not there once."""
        if text.count(self.old) != 1:
            raise ValueError(f"{self.name}: its place is {text.count(self.old)} times in {self.file}")
        return text.replace(self.old, self.new)

    @contextmanager
    def tree(self) -> Iterator[Path]:
        """Keep a copy of the sources that has the fault in it, for the length of the block."""
        with tempfile.TemporaryDirectory(prefix="tgf") as directory:
            copy = Path(directory)
            for name in ("gateway", "tests"):
                shutil.copytree(ROOT / name, copy / name, ignore=shutil.ignore_patterns("__pycache__"))
            shutil.copy(ROOT / "pyproject.toml", copy)
            faulty = copy / self.file
            faulty.write_text(self.make(faulty.read_text("utf-8")), "utf-8")
            yield copy


async def run_in(tree: Path, module: str, *arguments: str) -> tuple[int, list[str]]:
    """Run a module of these sources. Return its exit code and the lines that it printed."""
    run = await asyncio.create_subprocess_exec(
        sys.executable, "-m", module, *arguments, cwd=tree, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.STDOUT
    )
    output, _ = await run.communicate()
    assert run.returncode is not None
    return run.returncode, [line for line in output.decode().splitlines() if line.strip()]
