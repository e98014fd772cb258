"""The ledger from the command line, while a writer has it open."""

import asyncio
import csv
import io
import sys
from asyncio.subprocess import PIPE
from pathlib import Path

import msgspec
import pytest
from click.testing import CliRunner, Result

from gateway.cli.usage import usage
from gateway.policy.credentials import user_hash
from gateway.stores.database import Writer
from gateway.stores.events import decode
from tests.integration.stores.ledger_world import fields

PEPPER = "pepper-of-these-tests"
CONFIG = """
database: {url: "sqlite:///%s/tiergate.db"}
providers:
  nebius: {dialect: openai, base_url: "https://api.example.com/v1", api_key: k}
models:
  llama:
    deployments: [{provider: nebius, model: llama}]
plans:
  free: {}
orgs:
  acme: {plan: free}
keys:
  - {name: ci, org: acme, plan: free, secret: "0123456789abcdef0"}
"""


@pytest.fixture
def config(tmp_path: Path) -> Path:
    path = tmp_path / "gateway.yaml"
    path.write_text(f"keys_pepper: {PEPPER}{CONFIG % tmp_path}")
    return path


async def ask(config: Path, *arguments: str) -> Result:
    return await asyncio.to_thread(CliRunner().invoke, usage, [*arguments, "--config", str(config)], obj={})


@pytest.fixture
async def writer(config: Path) -> Writer:
    writer = Writer(f"sqlite:///{config.parent}/tiergate.db")
    await writer.migrate()
    await writer.write([decode({name.encode(): part for name, part in fields("close", n).items()}) for n in range(3)])
    return writer


async def test_reports_and_lists_while_the_ledger_is_written(config: Path, writer: Writer) -> None:
    listed = await ask(config, "list", "--json")
    assert [row["request_id"] for row in msgspec.json.decode(listed.stdout)] == ["req-000002", "req-000001", "req-000000"]
    one = await ask(config, "list", "--json", "--request-id", "req-000001")
    assert [row["cost_micro_usd"] for row in msgspec.json.decode(one.stdout)] == [2]
    by_request = await ask(config, "report", "--by", "request", "--json", "--limit", "1")
    assert len(msgspec.json.decode(by_request.stdout)) == 1
    table = await ask(config, "report", "--by", "org,model")
    assert table.stdout.splitlines()[0].split()[:3] == ["org", "model", "requests"]
    assert table.stdout.splitlines()[1].split()[:3] == ["acme", "llama", "3"]
    as_csv = await ask(config, "report", "--by", "day", "--csv", "--since", "2020-01-01")
    assert [row["requests"] for row in csv.DictReader(io.StringIO(as_csv.stdout))] == ["3"]
    people = await ask(config, "list")
    assert "req-000002" in people.stdout
    assert {result.exit_code for result in (listed, one, by_request, table, as_csv, people)} == {0}
    await writer.close()


async def test_a_user_is_asked_for_by_hash_or_by_name(config: Path, writer: Writer) -> None:
    ann = user_hash(PEPPER.encode(), "acme", "ann")
    stored = decode({name.encode(): part for name, part in fields("close", 9).items()})
    await writer.write([msgspec.structs.replace(stored, user_hash=ann)])
    await writer.close()
    by_user = await ask(config, "report", "--by", "user", "--json")
    assert [(row["user"], row["requests"]) for row in msgspec.json.decode(by_user.stdout)] == [(None, 3), (ann, 1)]
    for options in (("--user-hash", ann), ("--user", "acme", "ann")):
        listed = await ask(config, "list", "--json", *options)
        assert [row["request_id"] for row in msgspec.json.decode(listed.stdout)] == ["req-000009"]
        summed = await ask(config, "report", "--by", "org", "--json", *options)
        assert [row["requests"] for row in msgspec.json.decode(summed.stdout)] == [1]
    assert (await ask(config, "list", "--user", "others", "ann")).stdout == "no usage\n"
    both = await ask(config, "list", "--user", "acme", "ann", "--user-hash", ann)
    assert (both.exit_code, "--user-hash" in both.stderr) == (2, True)


async def test_after_the_gateway_has_ended(config: Path, writer: Writer) -> None:
    await writer.close()
    listed = await ask(config, "list", "--json")
    assert len(msgspec.json.decode(listed.stdout)) == 3


async def test_each_failure_has_its_code_and_a_sentence(config: Path, tmp_path: Path) -> None:
    missing = await ask(config, "list")
    assert (missing.exit_code, "no gateway has run" in missing.stderr) == (69, True)
    bad = tmp_path / "bad.yaml"
    bad.write_text("modles: {}")
    broken = await ask(bad, "list")
    assert (broken.exit_code, "modles" in broken.stderr) == (78, True)
    senseless = await ask(config, "report", "--by", "colour")
    assert (senseless.exit_code, "unknown 'colour'" in senseless.stderr) == (2, True)
    never = await ask(config, "list", "--since", "soon")
    assert never.exit_code == 2


async def test_whoever_reads_an_export_may_stop(config: Path, writer: Writer) -> None:
    await writer.write([decode({name.encode(): part for name, part in fields("close", n).items()}) for n in range(3000)])
    await writer.close()
    command = [sys.executable, "-m", "gateway", "usage", "export", "--config", str(config)]
    export = await asyncio.create_subprocess_exec(*command, stdout=PIPE, stderr=PIPE, limit=1024)
    assert export.stdout is not None
    assert export.stderr is not None
    assert b"req-000000" in await export.stdout.readline()
    export._transport.get_pipe_transport(1).close()  # type: ignore[attr-defined]
    assert (await export.stderr.read(), await export.wait()) == (b"", 0)
