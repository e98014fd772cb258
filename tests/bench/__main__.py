"""`python -m tests.bench`: what a request costs in CPU time, as a multiple of a Python relay of HTTP, and beside a pipe of bytes.

Everything runs here, on loopback: the thing under test on the last core, everything else on the first. Exits 1 where an answer
was wrong, where a request took other than two script calls, or where `--most-ratio` is passed.
"""

import argparse
import asyncio
import gc
import os
import signal
import sys
from collections.abc import Sequence
from statistics import median

import uvloop

from tests.bench import measure, report
from tests.bench.loads import LOADS, Load
from tests.bench.processes import Machine
from tests.bench.stage import Stage, staged

CALLS = 2.0
"""Script calls of one request: one admits, one settles."""


def options() -> argparse.ArgumentParser:
    """Return what the command line takes."""
    parser = argparse.ArgumentParser(prog="python -m tests.bench", description=__doc__)
    parser.add_argument("--reps", type=int, default=5, metavar="N", help="rounds of each load (5)")
    parser.add_argument("--secs", type=float, default=1.0, metavar="S", help="seconds of each window (1)")
    parser.add_argument("--loads", nargs="+", choices=LOADS, default=list(LOADS), help="what is sent (all)")
    parser.add_argument("--most-ratio", type=float, metavar="X", help="fail where a JSON request costs more than X relays")
    return parser


class Bench:
    """One run: prints each table when it is measured, and remembers what is amiss."""

    def __init__(self, machine: Machine, asked: argparse.Namespace) -> None:
        self._machine = machine
        self._asked = asked
        self.amiss: list[str] = []

    async def run(self, stage: Stage) -> None:
        """Measure every load that was asked for. SIGTERM cancels it, as asyncio lets Ctrl-C do."""
        if (this := asyncio.current_task()) is not None:
            asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, this.cancel)
        for name in self._asked.loads:
            await self._measure(LOADS[name], stage)

    async def _measure(self, load: Load, stage: Stage) -> None:
        calls = {}
        for target in stage.targets:
            await measure.ask(target, load, measure.WARM_UP_COUNT)
            if target.store is not None:
                calls[target.name] = await measure.script_calls(target, target.store, load)
        found = await measure.rounds(load, self._asked.reps, self._asked.secs, stage, self._machine)
        floor = stage.targets[0].name
        print(f"\n{load.name}: {load.connections} connections, closed loop\n\n{report.table(load, found, floor, calls)}")
        foreign = report.figure((one.foreign_percent for samples in found.values() for one in samples), 0)
        print(f"\nProcesses of others had {foreign} % of a core meanwhile.", flush=True)
        self._judge(load, found, calls)

    def _judge(self, load: Load, found: dict[str, Sequence[measure.Sample]], calls: dict[str, float]) -> None:
        for name, samples in found.items():
            if any(one.errors for one in samples):
                self.amiss.append(f"{load.name}: {name} answered wrongly")
        for name, count in calls.items():
            if round(count, 2) != CALLS:
                self.amiss.append(f"{load.name}: {name} calls {count:.3f} scripts a {load.unit}, not {CALLS:.2f}")
        ratio = median(report.ratios(found["tiergate"], found["relay"]))
        if load.name == "json" and self._asked.most_ratio is not None and ratio > self._asked.most_ratio:
            self.amiss.append(f"{load.name}: {ratio:.1f} relays a {load.unit}, above {self._asked.most_ratio:g}")


def main() -> int:
    """Run what the command line asks for."""
    asked = options().parse_args()
    machine = Machine()
    bench = Bench(machine, asked)
    print(report.conditions(f"{asked.reps} rounds of {asked.secs:g} s"), flush=True)
    os.sched_setaffinity(0, {machine.rest})
    gc.freeze()
    gc.disable()
    try:
        with staged(machine) as stage, asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
            runner.run(bench.run(stage))
    except (RuntimeError, TimeoutError) as error:
        bench.amiss.append(f"{error}")
    for line in bench.amiss:
        print(line, file=sys.stderr)
    return 1 if bench.amiss else 0


if __name__ == "__main__":
    sys.exit(main())
