"""Clients that ask for everything there is, some of which leave before they have it, and what each of them got."""

import asyncio
import time
from asyncio import IncompleteReadError
from collections.abc import Callable, Iterable
from random import Random
from typing import Any

import msgspec

from tests.fakes.wire import Answer, Wire, post

CALLERS = 48
PAUSE_S = 0.05
LEAVES = 0.15
"""The share of clients that do not wait for the end."""

PATIENCE_S = 0.15
LONGEST_S = 60.0

ORGS = {f"org-{number}": f"sk-chaos-key-of-org-number-{number}" for number in range(6)}
TIERS = (None, "auto", "default", "priority", "flex")
MODELS = ("quick", "slow", "busy", "shaky")


class Got(msgspec.Struct, frozen=True):
    """What a client knows of its request: `whole`, `left`, `refused`, `broken`, `lost` or `stuck`, and when that was."""

    id: str
    end: str
    ended_unix_s: float
    status: int = 0


def asked(own_id: str, random: Random) -> bytes:
    """Return a request's bytes."""
    models = random.sample(MODELS, random.choice((1, 1, 2, 3)))
    named: dict[str, Any] = {"model": models[0]} if len(models) == 1 else {"models": models}
    tier, stream = random.choice(TIERS), random.random() < 0.6
    body = {
        **named,
        **({} if tier is None else {"service_tier": tier}),
        "user": own_id,
        "stream": stream,
        "max_tokens": 64,
        "messages": [{"role": "user", "content": "word " * random.choice((1, 20, 200))}],
    }
    if stream and random.random() < 0.5:
        body["stream_options"] = {"include_usage": True}
    secret = random.choice([*ORGS.values()])
    headers = (("authorization", f"Bearer {secret}"), ("content-type", "application/json"), ("x-request-id", own_id))
    return post(msgspec.json.encode(body), *headers)


def end_of(answer: Answer) -> str:
    """Return how an answer ended that came to its end."""
    if answer.status != 200:
        return "refused"
    if not answer.headers["content-type"].startswith("text/event-stream"):
        return "whole"
    return "whole" if answer.body.endswith(b"data: [DONE]\n\n") else "broken"


class Load:
    """A request for each of these numbers, at the URL that `where` returns whenever a connection is made."""

    def __init__(self, where: Callable[[], str], numbers: Iterable[int], seed: int) -> None:
        self._where = where
        self._seed = seed
        self._numbers = iter(numbers)
        self.got: list[Got] = []

    async def run(self) -> None:
        """Ask for all of it."""
        async with asyncio.TaskGroup() as group:
            for _ in range(CALLERS):
                group.create_task(self._call())

    async def _call(self) -> None:
        wire: Wire | None = None
        for number in self._numbers:
            own_id = f"chaos-{self._seed}-{number}"
            while wire is None:  # nothing was sent yet: the request is still to be made
                wire = await self._connected()
            end, status = await self._ask(wire, own_id, Random(own_id))
            self.got.append(Got(own_id, end, time.time(), status))
            if end != "whole":  # one that was refused may find more elsewhere
                wire.abort()
                wire = None
            if end in ("lost", "refused"):
                await asyncio.sleep(PAUSE_S)
        if wire is not None:
            wire.abort()

    async def _connected(self) -> Wire | None:
        try:
            return await Wire(self._where()).__aenter__()
        except OSError:
            await asyncio.sleep(PAUSE_S)
            return None

    @staticmethod
    async def _ask(wire: Wire, own_id: str, random: Random) -> tuple[str, int]:
        leaves = random.random() < LEAVES
        try:
            async with asyncio.timeout(random.uniform(0, PATIENCE_S) if leaves else LONGEST_S):
                await wire.send(asked(own_id, random))
                answer = await wire.answer()
        except TimeoutError:
            return "left" if leaves else "stuck", 0
        except (OSError, IncompleteReadError):
            return "lost", 0
        return end_of(answer), answer.status
