"""`python -m tests.sim`: the admission core against its specification, its laws, and faults that were made on purpose.

Prints what was done and found, and exits with 1 where anything is not as it should be: a difference, a law that does not hold, a
fault that nobody finds, or programs that did too little to prove anything.
"""

import argparse
import asyncio
import sys
from collections.abc import Callable, Coroutine

from tests.sim.faults import found_faults
from tests.sim.laws import hold_laws
from tests.sim.stores import beside_another_layout, compare_on_one, follow_a_cluster

PARTS: dict[str, Callable[[], Coroutine[None, None, bool]]] = {
    "scripts": compare_on_one,
    "laws": hold_laws,
    "layouts": beside_another_layout,
    "cluster": follow_a_cluster,
    "faults": found_faults,
}


async def simulate(names: list[str]) -> bool:
    """Run these parts; return whether all is well."""
    results = [await PARTS[name]() for name in names]
    return all(results)


def main() -> int:
    """Run what the command line asks for."""
    options = argparse.ArgumentParser(prog="python -m tests.sim", description=__doc__)
    options.add_argument("parts", nargs="*", choices=[[], *PARTS], help="what to run (all)")
    asked = options.parse_args()
    return 0 if asyncio.run(simulate(asked.parts or [*PARTS])) else 1


if __name__ == "__main__":
    sys.exit(main())
