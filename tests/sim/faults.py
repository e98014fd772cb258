"""Each fault that was made on purpose, in its turn: who has to find it runs, and must."""

from gateway.admission.connection import Connection, StoreError
from gateway.admission.scripts import PARTS, Script
from tests.integration.admission.state import ask
from tests.mutant import run_in
from tests.sim.bugs import BUGS, Bug, Judge
from tests.sim.compare import MismatchError, Tally
from tests.sim.stores import comparison, connected
from tests.valkey import Valkey

SEEDS = range(401, 409)
OPERATIONS = 1_500


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
    with bug.tree() as tree:
        code, lines = await run_in(tree, module, *arguments)
    return lines[-1] if code else None
