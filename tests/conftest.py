"""What holds for all tests.

The event loop is the one that production runs on: how connections close, end and fill up is the loop's. Laws are tried on a few
examples while one works, and on many with `--hypothesis-profile deep`, as `make test` does: the same ones each time, so that a
change is refused for what it does. `thorough` looks further, at other examples in each run.
"""

import asyncio
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest
import uvloop
from hypothesis import HealthCheck, settings

EXAMPLES = {"quick": 20, "deep": 100, "thorough": 5_000}
"""By profile, for each law."""

for profile, count in EXAMPLES.items():
    settings.register_profile(
        profile,
        max_examples=count,
        derandomize=profile != "thorough",
        deadline=None,
        suppress_health_check=[HealthCheck.too_slow],
    )
settings.load_profile("quick")


def pytest_asyncio_loop_factories() -> Mapping[str, Callable[[], asyncio.AbstractEventLoop]]:
    """Name the loops to test on."""
    return {"uvloop": uvloop.new_event_loop}


HERE = Path(__file__).parent
WAITING, COMPUTING = HERE / "field", HERE / "unit"
"""Tests that wait half of their time, and such that never do."""


def pytest_xdist_auto_num_workers(config: pytest.Config) -> int:
    """Run whole directories in two processes, those that wait much in three; a file, and what only computes, in this one."""
    asked = [(config.invocation_params.dir / each.partition("::")[0]).resolve() for each in config.args]
    if all(path == WAITING for path in asked):
        return 3
    return 2 if any(path.is_dir() and path != COMPUTING and COMPUTING not in path.parents for path in asked) else 0
