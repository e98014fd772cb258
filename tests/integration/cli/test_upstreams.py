"""`tiergate upstreams` as an operator meets it: over a store that the file names, and over a running gateway's own."""

import asyncio
from pathlib import Path
from typing import Any

import msgspec
import pytest
from click.testing import CliRunner, Result

from gateway.cli import tiergate
from gateway.embedded.valkey import Valkey as Embedded
from tests.valkey import Valkey

CONFIG = """
state_dir: "{directory}"
redis: {{url: "{redis}"}}
database: {{single_host: true}}
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


def file(directory: Path, redis: str) -> Path:
    path = directory / "gateway.yaml"
    path.write_text(CONFIG.format(directory=directory, redis=redis))
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
