"""What holds for all tests.

The event loop is the one that production runs on: how connections close, end and fill up is the loop's. Laws are tried on a few
examples while one works, and on many with `--hypothesis-profile deep`, as `make test` does, or `thorough`.
"""

import asyncio
from collections.abc import Callable, Mapping

import uvloop
from hypothesis import HealthCheck, settings

EXAMPLES = {"quick": 20, "deep": 100, "thorough": 5_000}
"""By profile, for each law."""

for profile, count in EXAMPLES.items():
    settings.register_profile(profile, max_examples=count, deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("quick")


def pytest_asyncio_loop_factories() -> Mapping[str, Callable[[], asyncio.AbstractEventLoop]]:
    """Name the loops to test on."""
    return {"uvloop": uvloop.new_event_loop}
