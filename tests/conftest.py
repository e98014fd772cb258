"""The event loop of all tests is the one that production runs on: how connections close, end and fill up is the loop's."""

import asyncio
from collections.abc import Callable, Mapping

import uvloop


def pytest_asyncio_loop_factories() -> Mapping[str, Callable[[], asyncio.AbstractEventLoop]]:
    """Name the loops to test on."""
    return {"uvloop": uvloop.new_event_loop}
