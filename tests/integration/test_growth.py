"""Limits that grow with use, over HTTP: what a client is told of them, and what it is given."""

import asyncio
from pathlib import Path

from tests.fakes.http_server import HttpServer
from tests.integration.test_corridor import answer, one_model
from tests.running import running
from tests.valkey import Valkey

PREFIX = "x-ratelimit-dynamic-"
LONGEST_S = 20.0


async def test_a_limit_that_is_used_grows_and_says_so(valkey: Valkey, tmp_path: Path) -> None:
    plan = {"limits": {"rpm": 60, "tpm": 400_000, "dynamic": {"window": "1s", "ceiling": 1.5}}}
    async with HttpServer(answer) as server, running(one_model(server, plan=plan), valkey, tmp_path) as run:
        first = await run.chat()
        assert {name: value for name, value in first.headers.items() if name.startswith(PREFIX)} == {
            PREFIX + "scale-requests": "1.00",
            PREFIX + "scale-tokens": "1.00",
            PREFIX + "period-remaining": "1s",
            PREFIX + "period-usage-requests": "0%",
            PREFIX + "period-usage-tokens": "0%",
        }
        assert first.headers["x-ratelimit-limit-requests"] == "60"
        grown = first
        async with asyncio.timeout(LONGEST_S):
            while grown.headers[PREFIX + "scale-requests"] == "1.00":
                grown = await run.chat()
        assert (grown.headers[PREFIX + "scale-requests"], grown.headers["x-ratelimit-limit-requests"]) == ("1.20", "72")
        assert grown.headers[PREFIX + "scale-tokens"] == "1.00"


async def test_a_refusal_tells_how_far_the_limit_has_grown(valkey: Valkey, tmp_path: Path) -> None:
    plan = {"limits": {"rpm": 2, "dynamic": {}}}
    async with HttpServer(answer) as server, running(one_model(server, plan=plan), valkey, tmp_path) as run:
        answers = [await run.chat() for _ in range(3)]
        assert [each.status_code for each in answers] == [200, 200, 429]
        told = answers[-1].headers
        assert (told[PREFIX + "scale-requests"], told[PREFIX + "period-usage-requests"]) == ("1.00", "6%")
        assert 0 < int(told[PREFIX + "period-remaining"].removesuffix("s")) <= 900
        assert PREFIX + "scale-tokens" not in told


async def test_service_over_the_limit_takes_nothing_and_counts_for_growth(valkey: Valkey, tmp_path: Path) -> None:
    plan = {"limits": {"rpm": 5, "burst_ratio": 0.2, "dynamic": {"window": "60s"}}, "over_limit": {"rpm": 100, "concurrency": 9}}
    async with HttpServer(answer) as server, running(one_model(server, plan=plan), valkey, tmp_path) as run:
        told = []
        for _ in range(4):
            given = await run.chat(service_tier="auto")
            told.append((given.headers["x-gateway-service-tier"], given.headers[PREFIX + "period-usage-requests"]))
            await run.settled()
        assert told == [("default", "0%"), ("over-limit", "20%"), ("over-limit", "40%"), ("over-limit", "60%")]
        assert int((await run.chat(service_tier="default")).headers["retry-after"]) <= 12, "as if nothing had been served since"


async def test_limits_that_do_not_grow_say_nothing_of_it(valkey: Valkey, tmp_path: Path) -> None:
    async with HttpServer(answer) as server, running(one_model(server, plan={"limits": {"rpm": 2}}), valkey, tmp_path) as run:
        for _ in range(3):
            assert not [name for name in (await run.chat()).headers if name.startswith(PREFIX)]
