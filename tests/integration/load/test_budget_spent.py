"""A budget under two hundred clients at once: spent to its end and never past it, the same figure in the store as in the ledger.

What may go beyond is declared: the part by which prompts turn out longer than they were estimated, which only the provider knows.
"""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from random import Random
from typing import Any

import msgspec
import pytest
from redis.asyncio import Redis

from gateway.policy.answers import Level
from gateway.policy.catalogue import Budget
from gateway.policy.charges import Charge
from gateway.policy.limits import budget_charges, budget_of, payer_of
from gateway.policy.periods import PERIODS, bounds_ms
from gateway.stores.spending import Spent
from gateway.wire.request import Endpoint, parse
from tests.fakes.http_server import Call, HttpServer
from tests.fakes.openai import JSON, completion
from tests.fakes.wire import Answer, Wire, post
from tests.integration.load.rest import comes_to_rest
from tests.running import HEADERS, Running, config, running
from tests.valkey import Valkey

pytestmark = pytest.mark.timeout(180)

CLIENTS = 200
SEED = 1
INPUT_NANO_USD, OUTPUT_NANO_USD = 1_000, 2_000
PRICE = {"input": 1.0, "output": 2.0}
LONGEST_TOKENS = 400
"""Of an answer whose client names no bound: the model's own."""

USD = 10**9
PRIORITY_PRICE = 1.5
ENOUGH = 0.95
REFUSED_IN_A_ROW = 3

REST_WITHIN_S = 40.0
"""A settlement that the store does not hear of is tried for thirty seconds."""

CODE = "for(i=0;i<n;++i){a[i]^=b[i]<<2;}\n" * 12
PROSE = "The quick brown fox jumps over the lazy dog. " * 6
KINDS: dict[str, dict[str, Any]] = {
    "unbounded": {"prompt": PROSE},
    "code": {"prompt": CODE, "max_tokens": 150},
    "four answers": {"prompt": PROSE, "max_tokens": 60, "n": 4},
    "priority": {"prompt": PROSE, "max_tokens": 120, "service_tier": "priority"},
    "unbounded code in four": {"prompt": CODE, "n": 4, "service_tier": "priority"},
    "short": {"prompt": "hi", "max_tokens": 20},
}


class Upstream:
    """Answers as long as it likes, up to the bound that it must have been sent; code has more tokens than its bytes say."""

    def __init__(self) -> None:
        self._random = Random(SEED)

    async def __call__(self, call: Call) -> None:
        body = msgspec.json.decode(call.request.body)
        text = body["messages"][0]["content"]
        bound, choices = body["max_tokens"], body.get("n", 1)
        await asyncio.sleep(self._random.uniform(0.005, 0.05))
        tokens_in = len(text) // 2 if text.startswith("for") else len(text) // 5 + 1
        tokens_out = sum(self._random.randint(bound // 4, bound) for _ in range(choices))
        usage = {"prompt_tokens": tokens_in, "completion_tokens": tokens_out, "total_tokens": tokens_in + tokens_out}
        message = {"role": "assistant", "content": "word"}
        answers = [{"index": at, "message": message, "finish_reason": "stop"} for at in range(choices)]
        call.reply(200, completion(usage=usage, choices=answers), JSON)


class Till:
    """What clients were answered, and what that cost by what they were told."""

    def __init__(self) -> None:
        self.statuses: Counter[int] = Counter()
        self.served: Counter[str] = Counter()
        self.cost_nano_usd = 0
        self.declared_nano_usd = 0
        self.tokens = 0

    def take(self, kind: str, body: bytes, answer: Answer) -> bool:
        """Note an answer. Return whether it was one."""
        self.statuses[answer.status] += 1
        if answer.status != 200:
            return False
        self.served[kind] += 1
        told = answer.json()
        usage = told["usage"]
        multiplier = PRIORITY_PRICE if told["service_tier"] == "priority" else 1.0
        beyond = max(0, usage["prompt_tokens"] - parse(Endpoint.CHAT, body).prompt_tokens)
        cost = usage["prompt_tokens"] * INPUT_NANO_USD + usage["completion_tokens"] * OUTPUT_NANO_USD
        self.cost_nano_usd += round(cost * multiplier)
        self.declared_nano_usd += round(beyond * INPUT_NANO_USD * multiplier)
        self.tokens += usage["total_tokens"]
        return True


class Shop:
    """A gateway with one budget of a key and one of its org."""

    def __init__(self, run: Running, budgets: Sequence[Charge]) -> None:
        self.run = run
        self.till = Till()
        self._budgets = budgets

    async def ask(self, wire: Wire, kind: str) -> bool:
        fields = dict(KINDS[kind])
        asked = {"model": "m", "messages": [{"role": "user", "content": fields.pop("prompt")}], **fields}
        body = msgspec.json.encode(asked)
        await wire.send(post(body, *HEADERS.items(), ("content-type", "application/json")))
        return self.till.take(kind, body, await wire.answer())

    async def levels(self) -> tuple[Level, ...]:
        return (await self.run.gateway._budgeted.levels(self._budgets)).levels

    async def ledger(self, charge: Charge, now_ms: int) -> Spent:
        began_ms, _ = bounds_ms(now_ms, charge.period_ms)
        return await self.run.gateway._budgeted._spending.spent(budget_of(charge), payer_of(charge), began_ms)

    async def differences(self) -> list[tuple[str, int, int]]:
        """Return the budgets of which store and ledger say different things."""
        seen = await self.run.gateway._budgeted.levels(self._budgets)
        found = []
        for level in seen.levels:
            spent = await self.ledger(level.charge, seen.now_ms)
            told = spent.tokens if level.charge.scope.endswith(":tokens") else spent.nano_usd
            if (level.level, level.held) != (told, 0):
                found.append((level.charge.scope, level.level, told))
        return found


@asynccontextmanager
async def shop_of(
    valkey: Valkey, directory: Path, key: dict[str, Any], org: dict[str, Any], **sections: Any
) -> AsyncIterator[Shop]:
    model = {"deployments": [{"provider": "p", "model": "up-m"}], "price": PRICE, "max_output_tokens": LONGEST_TOKENS}
    budgets = [budget_charges("kb:test", budget_of_file(key)), budget_charges("ob:acme", budget_of_file(org))]
    async with HttpServer(Upstream()) as server:
        file = config({"p": server.base_url}, {"m": model}, key={"budget": key}, org={"budget": org}, **sections)
        async with running(file, valkey, directory) as run:
            yield Shop(run, [charge for charges in budgets for charge in charges])


def budget_of_file(written: dict[str, Any]) -> Budget:
    usd = written.get("usd")
    return Budget(nano_usd=None if usd is None else usd * USD, tokens=written.get("tokens"), period=written["period"])


async def client(shop: Shop, random: Random) -> None:
    """Ask for one thing after the other, until refused a few times in a row."""
    refused = 0
    async with Wire(shop.run.url) as wire:
        while refused < REFUSED_IN_A_ROW:
            served = await shop.ask(wire, random.choice([*KINDS]))
            refused = 0 if served else refused + 1
            await asyncio.sleep(0 if served else random.uniform(0.0, 0.1))


async def test_a_dollar_is_spent_by_two_hundred_clients_and_no_more(valkey: Valkey, tmp_path: Path) -> None:
    key, org = {"usd": 1, "period": "day"}, {"usd": 500, "tokens": 50_000_000, "period": "month"}
    # However slow the machine: a store that answers late is another test's.
    async with shop_of(valkey, tmp_path, key, org, redis={"timeout": "10s"}) as shop:
        run, till = shop.run, shop.till
        await asyncio.gather(*(client(shop, Random(f"{SEED} {number}")) for number in range(CLIENTS)))
        await run.settled()
        # What was held for them all is free again: the rest goes to whoever still fits.
        async with Wire(run.url) as wire:
            for kind in KINDS:
                while await shop.ask(wire, kind):
                    pass
        await comes_to_rest(run, within_s=REST_WITHIN_S)
        assert set(till.statuses) == {200, 402}
        assert min(till.served[kind] for kind in KINDS) > 0
        assert till.declared_nano_usd > 0, "or nothing went beyond an estimate, and the bound proves little"
        assert ENOUGH * USD <= till.cost_nano_usd <= USD + till.declared_nano_usd
        await run.rows()
        day, month, tokens = await shop.levels()
        assert (day.level, month.level, tokens.level) == (till.cost_nano_usd, till.cost_nano_usd, till.tokens)
        assert await shop.differences() == []
        await next_period(shop)


async def next_period(shop: Shop) -> None:
    """At the end of the day, which the store is told has come, there is a whole dollar again; the month goes on."""
    [now_s, _] = await shop.run.gateway._redis.time()
    ends_ms = bounds_ms(now_s * 1000, PERIODS["day"])[1]
    within_month = bounds_ms(ends_ms, PERIODS["month"]) == bounds_ms(ends_ms - 1, PERIODS["month"])
    before, spent = (await shop.levels())[1].level, shop.till.cost_nano_usd
    shop.run.gateway._admission._clock = lambda: ends_ms - 1
    async with Wire(shop.run.url) as wire:
        assert not await shop.ask(wire, "unbounded")
        shop.run.gateway._admission._clock = lambda: ends_ms
        assert await shop.ask(wire, "unbounded")
    await shop.run.settled()
    day, month, _ = await shop.levels()
    bought = shop.till.cost_nano_usd - spent
    assert (day.level, month.level) == (bought, bought + before if within_month else bought)


async def flushed(valkey: Valkey) -> None:
    store = Redis(unix_socket_path=valkey.socket)
    await store.flushall()
    await store.aclose()


async def restarted(valkey: Valkey) -> None:
    await asyncio.to_thread(valkey.stop)
    await asyncio.sleep(0.3)
    await asyncio.to_thread(valkey.start)


@pytest.mark.parametrize("lose", [flushed, restarted])
async def test_a_store_that_comes_back_empty_under_load_has_what_the_ledger_has(
    lose: Callable[[Valkey], Any], tmp_path: Path
) -> None:
    """Requests that end before their worker puts them back, and rows that are on their way, are counted a little later."""
    budget = {"usd": 5_000, "tokens": 10**12, "period": "month"}
    leases = {"ttl": "3s", "heartbeat": "1s"}
    with Valkey() as valkey:
        async with shop_of(valkey, tmp_path, budget, budget, leases=leases) as shop:
            stop = asyncio.Event()

            async def go_on(number: int) -> None:
                random = Random(f"{SEED} {number}")
                async with Wire(shop.run.url) as wire:
                    while not stop.is_set():
                        if not await shop.ask(wire, random.choice([*KINDS])):
                            await asyncio.sleep(0.05)

            clients = [asyncio.create_task(go_on(number)) for number in range(30)]
            await asyncio.sleep(1.0)
            await lose(valkey)
            await asyncio.sleep(1.5)
            stop.set()
            await asyncio.gather(*clients)
            assert set(shop.till.statuses) <= {200, 503}
            await comes_to_rest(shop.run, within_s=REST_WITHIN_S)
            await shop.run.rows()
            async with asyncio.timeout(20.0):
                while await shop.differences():
                    await asyncio.sleep(0.1)
            assert (await shop.levels())[0].level > 0
