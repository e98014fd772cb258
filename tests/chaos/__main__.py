"""`python -m tests.chaos [--requests N] [--kills N] [--durability D] [--database D] [--seed N]`: nothing answered is lost.

Requests go on while the elected consumer, a worker, the supervisor and the embedded Valkey are each killed with -9, and once a
worker while there is no Valkey. Prints the reconciliation of clients, provider and ledger, with the seed; exits 1 where something
is not as promised.
"""

import argparse
import sys
import tempfile
import time
from pathlib import Path

import uvloop

from tests.chaos.run import Terms, chaos, show


def main() -> int:
    """Run. Return the exit code."""
    parser = argparse.ArgumentParser(prog="python -m tests.chaos")
    parser.add_argument("--requests", type=int, default=50_000)
    parser.add_argument("--kills", type=int, default=5, help="how often each is killed")
    parser.add_argument("--durability", choices=("strict", "standard"), default="strict")
    parser.add_argument("--database", choices=("sqlite", "postgres", "both"), default="both")
    parser.add_argument("--seed", type=int, default=int(time.time()))
    chosen = parser.parse_args()
    worst = 0
    for database in ("sqlite", "postgres") if chosen.database == "both" else (chosen.database,):
        terms = Terms(
            requests=chosen.requests,
            kills=chosen.kills,
            seed=chosen.seed,
            strict=chosen.durability == "strict",
            postgres=database == "postgres",
        )
        began_s = time.monotonic()
        with tempfile.TemporaryDirectory(prefix="tiergate-chaos-") as directory:
            lines = uvloop.run(chaos(terms, Path(directory)))
        print(
            f"{database}, {chosen.durability}, seed {terms.seed}: {terms.requests} requests, {4 * terms.kills + 1} kills, ",
            end="",
        )
        print(f"{time.monotonic() - began_s:.0f} s")
        worst = max(worst, show(lines))
    return worst


if __name__ == "__main__":
    sys.exit(main())
