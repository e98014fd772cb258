"""`tiergate usage reconcile` and `tiergate usage export` on a gateway that runs, and the desk of its operators."""

import asyncio
from collections.abc import AsyncIterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import msgspec
import pytest
from click.testing import CliRunner, Result
from redis.asyncio import Redis
from sqlalchemy import delete

from gateway.cli.usage import usage
from gateway.config import load
from gateway.policy.admission import Word
from gateway.processes.desk import open_desk
from gateway.stores.engine import Database
from gateway.stores.schema import EVENTS
from gateway.stores.tenancy_schema import OPENING_BALANCES
from tests.fakes.openai import Models
from tests.integration.scene import Scene, scene
from tests.running import config
from tests.valkey import Valkey

DEPLOYMENT = {"provider": "p", "model": "up-m"}
MODELS = {"m": {"deployments": [{**DEPLOYMENT, "cost": {"input": 1, "output": 1}}], "price": {"input": 1, "output": 2}}}
COST_NANO_USD = 50_000
"""Of an answer: 10 tokens in, 20 out."""


def settings(url: str) -> dict[str, Any]:
    found = config({"p": "{upstream}"}, MODELS, database={"url": url, "single_host": True})
    found["orgs"]["acme"] |= {"budget": {"usd": 5}, "projects": {"search": {"budget": {"usd": 3, "period": "day"}}}}
    found["keys"][0] |= {"budget": {"tokens": 1_000_000, "usd": 1}, "default_project": "search"}
    return found


@pytest.fixture
async def place(url: str, valkey: Valkey, tmp_path: Path) -> AsyncIterator[Scene]:
    async with scene(Models(), settings(url), valkey, tmp_path) as running:
        yield running


@pytest.fixture
def file(url: str, valkey: Valkey, tmp_path: Path) -> Path:
    """Return the gateway's file for a command beside it, which must be told where the store is."""
    path = tmp_path / "command.yaml"
    document = {**settings(url), "redis": {"url": valkey.url}, "keys_pepper": "0123456789abcdef", "state_dir": str(tmp_path)}
    document["providers"] = {"p": {**document["providers"]["p"], "base_url": "https://api.example.com/v1"}}
    path.write_bytes(msgspec.json.encode(document))
    return path


async def ask(file: Path, *words: str) -> Result:
    return await asyncio.to_thread(CliRunner().invoke, usage, [*words, "--config", str(file)], obj={})


async def books(file: Path) -> tuple[int, dict[str, dict[str, Any]]]:
    done = await ask(file, "reconcile", "--json")
    assert done.stderr == ""
    return done.exit_code, {f"{line['budget']} {line['unit']}": line for line in msgspec.json.decode(done.stdout)["budgets"]}


async def execute(url: str, *statements: Any) -> None:
    engine = Database(url).open_to_write()
    async with engine.begin() as connection:
        for statement in statements:
            await connection.execute(statement)
    await engine.dispose()


async def test_ledger_and_store_agree_and_a_loss_in_either_is_told(place: Scene, file: Path, url: str) -> None:
    for _ in range(3):
        assert (await place.ask(model="m")).status_code == 200
    await place.run.rows()
    code, found = await books(file)
    spent = 3 * COST_NANO_USD
    assert {name: (line["ledger"], line["store"], line["live"]) for name, line in found.items()} == {
        "kb:month:test nano_usd": (spent, spent, 0),
        "kb:month:test tokens": (90, 90, 0),
        "ob:month:acme nano_usd": (spent, spent, 0),
        "pb:day:acme:search nano_usd": (spent, spent, 0),
    }
    assert code == 0
    lost = place.run
    [row, *_] = await lost.rows()
    await execute(url, delete(EVENTS).where(EVENTS.c.request_id == row["request_id"]))
    code, found = await books(file)
    assert (code, found["ob:month:acme nano_usd"]["difference"]) == (1, -COST_NANO_USD)
    people = await ask(file, "reconcile")
    assert (people.exit_code, people.stdout.count("differs")) == (1, 4)


async def test_what_is_under_way_is_no_difference(place: Scene, file: Path) -> None:
    assert (await place.ask(model="m")).status_code == 200
    async with place.filled("m", key="sk-test-secret-of-the-only-key"):
        code, found = await books(file)
        assert found["kb:month:test tokens"]["live"] > 0
        assert code == 0


async def test_a_balance_that_came_along_is_counted_and_what_the_store_never_knew_is_no_line(
    place: Scene, file: Path, url: str
) -> None:
    assert await books(file) == (0, {})
    month = int(datetime.now(UTC).replace(day=1, hour=0, minute=0, second=0, microsecond=0).timestamp()) * 1000
    before = OPENING_BALANCES.insert().values(scope="kb:month:test", period_start_unix_ms=month, nano_usd=7, tokens=70)
    await execute(url, before)
    assert (await place.ask(model="m")).status_code == 200
    code, found = await books(file)
    assert (code, found["kb:month:test tokens"]["ledger"], found["kb:month:test nano_usd"]["store"]) == (
        0,
        100,
        COST_NANO_USD + 7,
    )


async def test_an_invoice_is_held_against_the_ledger(place: Scene, file: Path, tmp_path: Path) -> None:
    assert (await place.ask(model="m")).status_code == 200
    await place.run.rows()
    invoice, today = tmp_path / "invoice.csv", datetime.now(UTC).date().isoformat()
    for cost, tolerance, code in (("0.00003", "0.5", 0), ("0.0000302", "0.5", 1), ("0.0000302", "1", 0)):
        invoice.write_text(f"day,provider,model,input_tokens,output_tokens,cost_usd\n{today},p,up-m,10,20,{cost}\n")
        done = await ask(file, "reconcile", "--provider-csv", str(invoice), "--tolerance", tolerance)
        assert (done.exit_code, done.stdout.count("differs")) == (code, code)
    invoice.write_text("day\n")
    refused = await ask(file, "reconcile", "--provider-csv", str(invoice))
    assert (refused.exit_code, refused.stderr.count("\n")) == (2, 1)


async def test_a_store_that_is_not_there_ends_the_command(file: Path, valkey: Valkey) -> None:
    valkey.stop()
    try:
        ended = await ask(file, "reconcile")
    finally:
        valkey.start()
    assert ended.exit_code == 69


async def test_every_request_is_exported_as_it_is_stored(place: Scene, file: Path) -> None:
    for _ in range(3):
        await place.ask(model="m")
    rows = await place.run.rows()
    done = await ask(file, "export")
    assert (done.exit_code, done.stderr) == (0, "")
    lines = [msgspec.json.decode(line) for line in done.stdout.splitlines()]
    assert [line["request_id"] for line in lines] == [row["request_id"] for row in reversed(rows)]
    assert list(lines[0]) == EVENTS.c.keys()
    assert [line["cost_nano_usd"] for line in lines] == [COST_NANO_USD] * 3
    assert (await ask(file, "export", "--since", "2100-01-01")).stdout == ""


async def test_what_an_operator_says_reaches_the_gateway(place: Scene, file: Path, valkey: Valkey) -> None:
    loaded = load(file, {}).config
    async with open_desk(loaded, valkey.url) as desk:
        await desk.say(Word.DISABLE, ["m/p/up-m"])
        assert (await place.ask(model="m")).status_code == 502
        await desk.say(Word.ENABLE, ["m/p/up-m"])
        assert (await place.ask(model="m")).status_code == 200


async def test_the_store_is_left_as_it_is(place: Scene, file: Path, valkey: Valkey) -> None:
    await place.ask(model="m")
    await place.run.rows()
    redis = Redis(unix_socket_path=valkey.socket)
    before = {key async for key in redis.scan_iter(match="*b:*")}
    await books(file)
    assert {key async for key in redis.scan_iter(match="*b:*")} == before
    await redis.aclose()
