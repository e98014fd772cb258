"""`tiergate config` as an operator meets it: what a file means, and what changes with another."""

import asyncio
from pathlib import Path

import msgspec
import pytest
import yaml
from click.testing import CliRunner, Result

from gateway.cli import tiergate
from gateway.config import load
from gateway.config.carried import fingerprint
from gateway.config.shown import whole
from gateway.processes.pepper import pepper_of
from tests.fakes.http_server import Call, HttpServer
from tests.unit.config.reading import MINIMAL
from tests.unit.config.rich import RICH

SECRETS = ("a-token-that-is-long-enough", "a-secret", "a-pepper-that-is-long-enough", "sk-0123456789abcdef")


def run(*words: str | Path) -> Result:
    return CliRunner().invoke(tiergate, ["config", *map(str, words)], obj={})


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return written(tmp_path / "gateway.yaml", RICH)


def written(path: Path, text: str) -> Path:
    path.write_text(MINIMAL + text)
    return path


def test_show_has_every_field_and_no_secret(path: Path) -> None:
    for result in (run("show", "--config", path, "--redact"), run("show", "--config", path, "--json")):
        assert result.exit_code == 0
        assert not [secret for secret in SECRETS if secret in result.output]
        shown = yaml.safe_load(result.stdout)
        assert shown["plans"]["pro"]["limits"]["rpm"] == 600
        assert shown["shutdown"] == {"delay": "5s", "drain": "10m"}
        assert shown["keys_pepper"] == "***"


def test_show_of_a_bad_file_says_what_is_wrong(tmp_path: Path) -> None:
    result = run("show", "--config", written(tmp_path / "bad.yaml", "wokers: 2\n"))
    assert result.exit_code == 78
    assert "unknown field 'wokers'" in result.stderr


def test_diff_names_what_changed_and_what_waits_for_a_restart(path: Path, tmp_path: Path) -> None:
    changed = (
        RICH.replace("port: 9000", "port: 9001").replace("rpm: 3", "rpm: 4").replace("sk-0123456789abcdef", "sk-fedcba9876543210")
    )
    result = run("diff", path, written(tmp_path / "new.yaml", changed), "--json")
    assert result.exit_code == 1
    assert {each["path"]: (each["old"], each["new"], each["restart"]) for each in msgspec.json.decode(result.stdout)} == {
        "api.port": (9000, 9001, True),
        "plans.pro.limits.per_model.small.rpm": (3, 4, False),
        "keys[ci].secret": ("***", "***", False),
    }
    assert "fedcba" not in result.output
    table = run("diff", path, tmp_path / "new.yaml").stdout.splitlines()
    assert [line.split() for line in table if line.startswith("api.port")] == [["api.port", "9000", "9001", "restart"]]


def test_files_that_mean_the_same_are_the_same(path: Path, tmp_path: Path) -> None:
    result = run("diff", path, written(tmp_path / "new.yaml", f"# remarks\n{RICH}"))
    assert (result.exit_code, result.stdout) == (0, "the same\n")


@pytest.mark.parametrize("words", [[], ["one.yaml"], ["a.yaml", "b.yaml", "--config", "c.yaml"]])
def test_a_diff_is_of_two(words: list[str]) -> None:
    assert run("diff", *words).exit_code == 2


async def test_diff_against_a_running_gateway_asks_its_operations_port(path: Path, tmp_path: Path) -> None:
    running = load(path, {}).config
    asked: list[str] = []

    async def tell(call: Call) -> None:
        headers = dict(call.request.headers)
        asked.append(f"{call.request.path} {headers.get('authorization')}")
        said = {"document": whole(running), "hash": fingerprint(running, pepper_of(running, tmp_path)), "path": str(path)}
        call.reply(200, msgspec.json.encode(said), [("content-type", "application/json")])

    async with HttpServer(tell) as server:
        results = [await _aside("diff", "--config", path, "--url", server.base_url, "--json")]
        for old, new in (("keepalive: 10s", "keepalive: 20s"), ("sk-0123456789abcdef", "sk-fedcba9876543210")):
            changed = written(tmp_path / "new.yaml", RICH.replace(old, new))
            results.append(await _aside("diff", "--config", changed, "--url", server.base_url, "--json"))
    same, field, secret = results
    assert asked == ["/admin/config Bearer a-token-that-is-long-enough"] * 3
    assert (same.exit_code, msgspec.json.decode(same.stdout)) == (0, [])
    assert [each["path"] for each in msgspec.json.decode(field.stdout)] == ["plans.pro.keepalive"]
    assert (secret.exit_code, [each["path"] for each in msgspec.json.decode(secret.stdout)]) == (1, ["(a secret)"])
    gone = await _aside("diff", "--config", path, "--url", server.base_url)
    assert (gone.exit_code, "/admin/config does not tell" in gone.stderr) == (69, True)


async def _aside(*words: str | Path) -> Result:
    return await asyncio.to_thread(run, *words)
