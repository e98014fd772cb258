"""Four gateways, one deployment of eight slots, four hundred requests of four orgs and all tiers at once: who is served when.

The witness reads the order of the turns out of what the store did; who waits at each turn it reads there too.
"""

import asyncio
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import msgspec

from gateway.admission.discovery import locator
from gateway.admission.redis_client import open_client
from gateway.demo.provider import Provider
from gateway.demo.serving import serving
from gateway.policy.admission import Precedence
from gateway.policy.queue import PRIORITY_TURNS
from tests.fakes.wire import Wire, post
from tests.integration.load.replay import Replay
from tests.integration.load.served import Served, settings
from tests.integration.load.witness import PREFIX, Run, witnessed
from tests.integration.processes.conditions import until
from tests.valkey import Valkey

GATEWAYS = 4
SLOTS = 8
REQUESTS = 400
ORGS = ("a", "b", "c", "d")
TIERS = ("priority", "default", "flex", "no-limit", "auto")
PATIENCE_S = {"priority": 40, "default": 40, "auto": 40, "no-limit": 40, "flex": 40}
HURRIED_S = 1
"""What one org's requests of flex, which comes last, allow themselves: they do not get their turn in time."""

HURRIED = ("d", "flex")

P, D, _, F = Precedence
JSON = ("content-type", "application/json")


def secret(org: str) -> str:
    return f"sk-test-secret-of-the-org-{org}"


SECTIONS: dict[str, Any] = {
    "plans": {
        "all": {"tiers": ["priority", "default", "flex"], "models": ["*"], "over_limit": {"rpm": 10_000, "concurrency": 500}}
    },
    "orgs": {org: {"plan": "all"} for org in ORGS},
    "keys": [{"name": org, "org": org, "secret": secret(org), "allow_no_limit": True} for org in ORGS],
    "keys_pepper": "a-pepper-that-all-replicas-share",
    "tiers": {tier: {"queue": f"{seconds}s"} for tier, seconds in PATIENCE_S.items() if tier != "auto"}
    | {"over-limit": {"queue": "0s"}},
}
MODELS = {
    "m": {
        "deployments": [{"provider": "p", "model": "demo-fast?words=4&word_ms=20", "max_concurrency": SLOTS}],
        "queue": {"max_waiters": REQUESTS, "per_org": 1.0},
    }
}


Line = tuple[Precedence, str]
"""One org's waiters of one precedence."""


class Moment(msgspec.Struct, frozen=True):
    """One turn out of the queue: whose it was, all who waited then, and how many had asked by then.

    `emptied` are the lines that were empty at some time since the last turn.
    """

    whose: Line
    waiting: Counter[Line]
    asked: int
    emptied: set[Line]

    @property
    def precedence(self) -> Precedence:
        return self.whose[0]

    def waits(self, precedence: Precedence) -> bool:
        return any(each is precedence for each, _ in self.waiting)


def moments(runs: Sequence[Run]) -> Iterator[Moment]:
    """Yield every turn, in the store's order."""
    waiting: dict[str, Line] = {}
    emptied: set[Line] = set()
    asked = 0

    def leave(lease_id: str) -> None:
        line = waiting.pop(lease_id)
        if line not in waiting.values():
            emptied.add(line)

    for run in runs:
        asked += run.script == "acquire"
        joins = any(words[0] == b"ZADD" and words[1].startswith(PREFIX + b"line:") for words in run.commands)
        if joins and (wait := run.wait()):
            waiting[run.lease_id] = run.rows()[0].precedence, wait.org
        for words in run.commands:
            if words[0] == b"PUBLISH":
                lease_id = words[2].decode()
                yield Moment(waiting[lease_id], Counter(waiting.values()), asked, {*emptied})
                emptied.clear()
                leave(lease_id)
        if run.script == "settle" and run.lease_id in waiting:
            leave(run.lease_id)


async def ask(url: str, org: str, tier: str) -> tuple[int, str]:
    body = {"model": "m", "messages": [{"role": "user", "content": "hi"}], "max_tokens": 16, "service_tier": tier}
    hurried = [("x-request-timeout", str(HURRIED_S))] if (org, tier) == HURRIED else []
    async with Wire(url) as wire:
        await wire.send(post(msgspec.json.encode(body), JSON, ("x-api-key", secret(org)), *hurried))
        answer = await wire.answer()
    return answer.status, answer.json().get("service_tier", "")


async def test_no_tier_starves_and_no_org_is_passed_over(tmp_path: Path) -> None:
    provider = Provider("p")
    with Valkey() as valkey:
        redis = open_client(locator(valkey.url), timeout_s=10.0)

        async def at_rest() -> bool:
            return not await redis.zcard(PREFIX + b"leases") and not await redis.xlen(PREFIX + b"ledger")

        async with witnessed(redis) as witness, serving(provider) as url, AsyncExitStack() as stack:
            whole = settings(
                {"p": url.removesuffix("/v1")}, MODELS, tmp_path, redis={"url": valkey.url, "timeout": "5s"}, **SECTIONS
            )
            gateways = [Served(name, {**whole, "state_dir": str(tmp_path / name)}, tmp_path) for name in "wxyz"[:GATEWAYS]]
            await asyncio.gather(*(stack.enter_async_context(each) for each in gateways))
            asked = [(ORGS[n % 4], TIERS[n // 4 % 5]) for n in range(REQUESTS)]
            answers = await asyncio.gather(*(ask(gateways[n % GATEWAYS].url, *each) for n, each in enumerate(asked)))
            await until(at_rest, within_s=20.0)
            assert await asyncio.gather(*(each.stop() for each in gateways)) == [0] * GATEWAYS
        await redis.aclose()
    lines = [line for each in gateways for line in each.requests()]
    runs = witness.runs()
    replay = Replay({line["request_id"]: line["settled_ms"] for line in lines})
    for run in runs:
        replay.take(run)
    turns = [*moments(runs)]
    assert len(turns) > 0.6 * REQUESTS
    check_classes(turns)
    check_orgs(turns)
    for line in lines:
        patience_s = HURRIED_S if (line["org"], line["tier_requested"]) == HURRIED else PATIENCE_S[line["tier_requested"]]
        assert line["queued_ms"] <= 1000 * patience_s + 600
    assert provider.state.most_open <= SLOTS
    statuses: dict[tuple[str, str], set[int]] = {}
    for (status, _), each in zip(answers, asked, strict=True):
        statuses.setdefault(each, set()).add(status)
    hurried = statuses.pop(HURRIED)
    assert hurried & {429, 504}, "refused from the queue, or out of time before it came to that"
    assert hurried <= {200, 429, 504}, "one that came before the others may have its turn in time"
    assert set().union(*statuses.values()) == {200}


def check_classes(turns: Sequence[Moment]) -> None:
    """Four turns of priority to one of default while both wait, and none of flex while others do."""
    streak = 0
    both = [turn.precedence for turn in turns if turn.waits(P) and turn.waits(D) and turn.asked == REQUESTS]
    for turn in turns:
        streak = streak + 1 if turn.precedence is P and turn.waits(D) else 0
        assert streak <= PRIORITY_TURNS
        assert turn.precedence is not F or not (turn.waits(P) or turn.waits(D))
    assert len(both) > 20
    assert abs(both.count(P) - PRIORITY_TURNS * both.count(D)) <= PRIORITY_TURNS
    assert [turn.precedence for turn in turns].count(F) > 0


def check_orgs(turns: Sequence[Moment]) -> None:
    """Two orgs that wait in one class all along differ by one turn at the most."""
    for precedence, one, other in ((each, one, other) for each in (P, D, F) for one in ORGS for other in ORGS if one < other):
        ahead = 0
        for turn in turns:
            if turn.emptied & {(precedence, one), (precedence, other)}:
                ahead = 0
            if turn.waiting[precedence, one] and turn.waiting[precedence, other]:
                ahead += (turn.whose == (precedence, one)) - (turn.whose == (precedence, other))
            assert abs(ahead) <= 1, (precedence, one, other)
