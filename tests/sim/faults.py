"""Each fault that was made on purpose, in its turn: who has to find it runs, and must."""

import asyncio
import shutil
import sys
import tempfile
from pathlib import Path

from gateway.admission.connection import Connection, StoreError
from gateway.admission.scripts import PARTS, Script
from tests.integration.admission.state import ask
from tests.sim.bugs import BUGS, Bug, Judge
from tests.sim.compare import MismatchError, Tally
from tests.sim.stores import comparison, connected
from tests.valkey import Valkey

SEEDS = range(401, 409)
OPERATIONS = 1_500
ROOT = Path(__file__).parents[2]


async def found_faults() -> bool:
    """Make each fault; print by whom it was found, and return whether all were."""
    all_found = True
    with Valkey() as valkey:
        async with connected(valkey.url) as connection:
            for bug in BUGS:
                finding = await found(bug, connection)
                all_found = all_found and finding is not None
                print(f"  {bug.name:<34} {f'found by {bug.judge.value}: {finding}' if finding else 'NOT FOUND'}", flush=True)
    print(f"faults: {len(BUGS)} made, {'all found' if all_found else 'not all found'}", flush=True)
    return all_found


async def found(bug: Bug, connection: Connection) -> str | None:
    """Return how a fault was found, None where it was not."""
    match bug.judge:
        case Judge.COMPARISON:
            return await differs(bug, connection)
        case Judge.LAWS:
            return await fails(bug, "tests.sim", "laws")
        case Judge.TEST:
            return await fails(bug, "pytest", "-q", "-x", bug.test)


async def differs(bug: Bug, connection: Connection) -> str | None:
    """Return where scripts with the fault and the specification part."""
    read = bug.read()
    for seed in SEEDS:
        await ask(connection, "FLUSHALL")
        program = comparison(seed, connection, Tally())
        for name in PARTS:
            setattr(program.admission, f"_{name}", Script(name, read))
        try:
            await program.run(OPERATIONS)
            await program.compare_ledger()
        except MismatchError as different:
            return str(different).partition(" after ")[0]
        except StoreError as failed:
            return f"seed {seed}, operation {program.tally.operations}: {failed}"
    return None


async def fails(bug: Bug, module: str, *arguments: str) -> str | None:
    """Return the last line of what is run on a copy of the tree that has the fault in it, None where that is content."""
    with tempfile.TemporaryDirectory(prefix="tgf") as directory:
        copy = Path(directory)
        for name in ("gateway", "tests"):
            shutil.copytree(ROOT / name, copy / name, ignore=shutil.ignore_patterns("__pycache__"))
        shutil.copy(ROOT / "pyproject.toml", copy)
        faulty = copy / bug.file
        faulty.write_text(bug.make(faulty.read_text("utf-8")), "utf-8")
        run = await asyncio.create_subprocess_exec(
            sys.executable, "-m", module, *arguments, cwd=copy, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.STDOUT
        )
        output, _ = await run.communicate()
        lines = [line for line in output.decode().splitlines() if line.strip()]
        return lines[-1] if run.returncode else None
