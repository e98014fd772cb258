"""`tiergate upstreams` as an operator meets it: over a store that the file names, and over a running gateway's own."""

import asyncio
import os
import pwd
import time
from pathlib import Path
from typing import Any

import msgspec
import pytest
from click.testing import CliRunner, Result
from redis import Redis

from gateway.cli import tiergate
from gateway.config import load
from gateway.embedded.valkey import Valkey as Embedded
from gateway.processes.registry import open_registry
from gateway.stores.tenancy import AuditRow
from tests.valkey import Valkey

CONFIG = """
state_dir: "{directory}"
redis: {{url: "{redis}"}}
database: {{url: "{database}", single_host: true}}
keys_pepper: pepper-for-both-of-them
providers:
  north: {{base_url: "https://north.example.com/v1", api_key: k}}
  south: {{base_url: "https://south.example.com/v1", api_key: k}}
models:
  m:
    deployments:
      - {{provider: north, model: big, max_concurrency: 8}}
      - {{provider: south, model: big}}
    price: {{input: 1, output: 1}}
"""


def file(directory: Path, redis: str, database: str = "") -> Path:
    path = directory / "gateway.yaml"
    named = database or f"sqlite:///{directory}/tiergate.db"
    path.write_text(CONFIG.format(directory=directory, redis=redis, database=named))
    return path


def ask(path: Path, *words: str) -> Result:
    return CliRunner().invoke(tiergate, ["upstreams", *words, "--config", str(path)], obj={})


def told(path: Path, *words: str) -> dict[str, Any]:
    result = ask(path, *words, "--json")
    assert result.exit_code == 0, result.stderr
    return {each["deployment"]: each for each in msgspec.json.decode(result.stdout)}


def test_an_order_is_in_the_store_that_the_file_names(valkey: Valkey, tmp_path: Path) -> None:
    path = file(tmp_path, valkey.url)
    assert ask(path, "list").stdout == (
        "deployment   state  cooling until  slots  breaker  failures in a row\n"
        "m/north/big  well   -              8      closed   0\n"
        "m/south/big  well   -              -      closed   0\n"
    )
    assert told(path, "disable", "m/north/big").keys() == {"m/north/big"}
    assert told(path, "reset", "m/north/big", "m/south/big")["m/north/big"]["state"] == "disabled"
    assert [each["state"] for each in told(path, "list").values()] == ["disabled", "well"]
    assert told(path, "enable", "m/north/big")["m/north/big"]["disabled"] is False


def test_several_credentials_are_told_by_their_names_and_forgotten_with_their_deployment(valkey: Valkey, tmp_path: Path) -> None:
    path = file(tmp_path, valkey.url)
    path.write_text(
        path.read_text().replace('north.example.com/v1", api_key: k', 'north.example.com/v1", api_keys: [k1, k2, k3]')
    )
    assert ask(path, "list").stdout == (
        "deployment   state  cooling until  slots  breaker  failures in a row  credentials\n"
        "m/north/big  well   -              8      closed   0                  north well, north#2 well, north#3 well\n"
        "m/south/big  well   -              -      closed   0                  south well\n"
    )
    later_ms = round(1000 * time.time()) + 3_600_000
    with Redis.from_url(valkey.url) as store:
        store.mset({"tg:v1:{c0}:cool:north": later_ms, "tg:v1:{c0}:cool:north#3": -later_ms})
    found = told(path, "list", "m/north/big")["m/north/big"]
    assert [(each["name"], each["state"]) for each in found["credentials"]] == [
        ("north", "cooling"),
        ("north#2", "well"),
        ("north#3", "refused"),
    ]
    assert (found["state"], found["cooling_until"]) == ("well", None)
    found = told(path, "reset", "m/north/big")["m/north/big"]
    assert {each["state"] for each in found["credentials"]} == {"well"}


def rows(path: Path) -> list[tuple[str, str, str, dict[str, Any]]]:
    """Return what the audit has, the oldest first."""

    async def audit() -> list[AuditRow]:
        async with open_registry(load(path, {}).config, None) as registry:
            return await registry.tenancy.audit()

    return [(row.actor, row.action, row.subject, row.detail) for row in reversed(asyncio.run(audit()))]


def test_an_order_has_the_row_that_the_admin_api_would_write(valkey: Valkey, tmp_path: Path, url: str) -> None:
    path, who = file(tmp_path, valkey.url, url), f"cli:{pwd.getpwuid(os.getuid()).pw_name}"
    told(path, "list")
    for word in ("disable", "enable", "reset"):
        told(path, word, "m/north/big", "m/south/big")
    detail = {"deployments": ["m/north/big", "m/south/big"]}
    assert rows(path) == [(who, f"upstreams.{word}", "upstreams", detail) for word in ("disable", "enable", "reset")]
    assert ask(path, "disable", "m/west/big").exit_code == 1
    assert ask(file(tmp_path, "redis://127.0.0.1:1", url), "disable", "m/north/big").exit_code == 69
    assert len(rows(path)) == 3, "what was not done is not recorded"


@pytest.mark.parametrize(
    ("database", "why"),
    [
        ("", "no ledger at {directory}/tiergate.db: no gateway has run with this configuration yet"),
        ("postgresql://tiergate:hunter2@127.0.0.1:1/tiergate", "ConnectionRefusedError"),
    ],
)
def test_an_order_goes_through_without_a_database_and_says_that_it_has_no_row(
    database: str, why: str, valkey: Valkey, tmp_path: Path
) -> None:
    path = file(tmp_path, valkey.url, database)
    result = ask(path, "disable", "m/north/big", "--json")
    assert (result.exit_code, msgspec.json.decode(result.stdout)[0]["disabled"]) == (0, True)
    assert result.stderr == f"done, but not recorded in the audit: {why.format(directory=tmp_path)}\n"
    assert not (tmp_path / "tiergate.db").exists()


async def test_where_redis_is_embedded_it_is_the_running_gateways(
    tmp_path: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    path, run_dir = file(tmp_path, "embedded"), tmp_path_factory.mktemp("run")
    none = await asyncio.to_thread(ask, path, "list")
    assert (none.exit_code, none.stderr) == (69, f"no gateway runs on state_dir '{tmp_path}'\n")
    async with Embedded(tmp_path, run_dir):
        assert (await asyncio.to_thread(told, path, "disable", "m/south/big"))["m/south/big"]["disabled"]
    gone = await asyncio.to_thread(ask, path, "list")
    assert gone.exit_code == 69
    assert gone.stderr.startswith("no connection to the store: ")
    async with Embedded(tmp_path, run_dir):
        assert (await asyncio.to_thread(told, path, "list", "m/south/big"))["m/south/big"]["disabled"], "it survives a restart"


def test_a_name_that_is_no_deployments_changes_nothing(valkey: Valkey, tmp_path: Path) -> None:
    path = file(tmp_path, valkey.url)
    result = ask(path, "disable", "m/south/big", "m/west/big")
    assert (result.exit_code, result.stderr) == (1, "There is no deployment 'm/west/big' in the configuration\n")
    assert not told(path, "list")["m/south/big"]["disabled"]
    assert ask(path, "disable").exit_code == 2


def test_a_bad_file_is_told_as_everywhere(tmp_path: Path) -> None:
    assert ask(tmp_path / "missing.yaml", "list").exit_code == 78
