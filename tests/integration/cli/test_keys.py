"""`tiergate keys`, against a real database and store: what is printed, what is kept, and how it ends."""

import os
import pwd
import sqlite3
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest
from click.testing import CliRunner, Result
from redis import Redis

from gateway.cli import tiergate
from gateway.policy.credentials import digest, format_digest
from gateway.policy.minting import parse, shown
from tests.postgres import Postgres
from tests.running import config
from tests.valkey import Valkey

PEPPER = "pepper-of-these-tests"

Run = Callable[..., Result]


@pytest.fixture
def directory(tmp_path: Path, valkey: Valkey) -> Path:
    models = {"m": {"deployments": [{"provider": "p", "model": "up"}], "price": {"input": 1, "output": 1}}}
    write(tmp_path, {**config({"p": "http://127.0.0.1:1"}, models), "redis": {"url": valkey.url}, "keys_pepper": PEPPER})
    return tmp_path


def write(directory: Path, settings: dict[str, Any]) -> None:
    usual = {"url": f"sqlite:///{directory / 'tiergate.db'}", "single_host": True}
    whole = {"state_dir": str(directory / "state"), "database": usual, **settings}
    (directory / "gateway.yaml").write_bytes(msgspec.json.encode(whole))


@pytest.fixture
def keys(directory: Path) -> Run:
    def run(*arguments: str, code: int = 0, given: str | None = None) -> Result:
        command = ["keys", arguments[0], "--config", str(directory / "gateway.yaml"), *arguments[1:]]
        result = CliRunner().invoke(tiergate, command, obj={}, input=given)
        assert result.exit_code == code, f"{result.output}\n{result.exception!r}"
        return result

    return run


def told(result: Result) -> Any:
    return msgspec.json.decode(result.stdout)


def test_a_key_is_printed_once_and_shown_without_its_secret(keys: Run, directory: Path) -> None:
    made = told(keys("create", "--name", "ci", "--org", "acme", "--plan", "all", "--json"))
    secret, key_id = made["key"], made["id"]
    minted = parse(secret)
    assert minted is not None
    assert (minted.env, minted.id) == ("live", key_id)
    [listed] = told(keys("list", "--json"))
    assert (listed["id"], listed["name"], listed["org"], listed["plan"], listed["state"]) == (
        key_id,
        "ci",
        "acme",
        "all",
        "active",
    )
    assert [each["display"] for each in listed["secrets"]] == [shown(secret)]
    for result in (keys("list"), keys("show", "ci"), keys("show", key_id, "--json"), keys("list", "--json")):
        assert key_id in result.output
        assert secret[-49:] not in result.output
    kept = [path.read_bytes() for path in directory.rglob("*") if path.is_file()]
    assert not [content for content in kept if secret.encode()[-49:] in content]


def test_what_a_key_may_is_said_by_options_or_in_the_files_words(keys: Run, directory: Path) -> None:
    wide = ("--models", "m, n*", "--tiers", "default", "--ips", "10.0.0.0/8", "--expires", "2099-01-01", "--env", "test")
    made = told(keys("create", "--name", "wide", "--org", "acme", *wide, "--definition", '{"limits": {"rpm": 5}}', "--json"))
    assert made["key"].startswith("tg_test_")
    assert made["definition"] == {"limits": {"rpm": 5}, "models": ["m", "n*"], "tiers": ["default"], "ips": ["10.0.0.0/8"]}
    assert made["expires_unix_ms"] == 4_070_908_800_000
    (directory / "key.json").write_text('{"max_n": 2}')
    made = told(keys("create", "--name", "filed", "--org", "acme", "--definition", f"@{directory / 'key.json'}", "--json"))
    assert made["definition"] == {"max_n": 2}


def test_a_key_is_rotated_blocked_and_revoked(keys: Run) -> None:
    plain = keys("create", "--name", "ci", "--org", "acme")
    first = plain.stdout.strip()
    minted = parse(first)
    assert minted is not None
    assert minted.id in plain.stderr
    second = told(keys("rotate", "ci", "--overlap", "90s", "--json"))
    assert parse(second["key"]) == minted
    assert second["key"] != first
    older, newer = second["secrets"]
    assert older["not_after_unix_ms"] == newer["created_unix_ms"] + 90_000
    shown_of = keys("show", "ci").stdout
    assert f"{older['display']} until 2" in shown_of
    assert f"{newer['display']}\n" in shown_of
    assert told(keys("block", "ci", "--json"))["state"] == "blocked"
    assert keys("unblock", "ci").stdout == f"{minted.id} is active\n"
    assert keys("revoke", "ci", "--now").stdout == f"{minted.id} is revoked\n"
    assert keys("revoke", minted.id).stdout == f"{minted.id} is revoked\n", "to say it again tells gateways again"
    assert [key["state"] for key in told(keys("list", "--state", "revoked", "--json"))] == ["revoked"]
    assert keys("list", "--state", "active").stdout == "no keys\n"


def test_every_change_is_counted_in_the_store(keys: Run, valkey: Valkey) -> None:
    keys("create", "--name", "ci", "--org", "acme")
    keys("block", "ci")
    with Redis(unix_socket_path=valkey.socket) as redis:
        assert redis.get("tg:v1:{c0}:authz_epoch") == b"2"


@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        (("create", "--name", "ci", "--org", "nobody"), 1, "unknown org 'nobody'"),
        (("create", "--name", "ci", "--org", "acme", "--tiers", "gold"), 1, "expected one of"),
        (("create", "--name", "ci", "--definition", "[]"), 2, "expected a JSON object"),
        (("create", "--name", "ci", "--expires", "soon"), 2, "expected a date"),
        (("create",), 2, "--name"),
        (("rotate", "ci", "--overlap", "long"), 2, "expected a duration"),
        (("revoke", "nobody"), 1, "no key 'nobody'"),
        (("show", "nobody"), 1, "no key 'nobody'"),
    ],
)
def test_what_cannot_be_done_is_said_in_a_line(arguments: tuple[str, ...], code: int, said: str, keys: Run) -> None:
    assert said in keys(*arguments, code=code).stderr


def test_the_actor_is_the_systems_user(keys: Run, directory: Path) -> None:
    keys("create", "--name", "ci", "--org", "acme")

    with sqlite3.connect(directory / "tiergate.db") as database:
        [[actor, action]] = database.execute("SELECT actor, action FROM audit").fetchall()
    database.close()
    assert (actor, action) == (f"cli:{pwd.getpwuid(os.getuid()).pw_name}", "key.create")


def test_a_store_that_is_away_ends_the_command_but_not_the_change(keys: Run, directory: Path) -> None:
    keys("create", "--name", "ci", "--org", "acme")
    settings = msgspec.json.decode((directory / "gateway.yaml").read_bytes())
    write(directory, {**settings, "redis": {"url": "redis://127.0.0.1:1"}})
    result = keys("revoke", "ci", code=69)
    assert "revoked" in result.stdout
    assert "within 30 s" in result.stderr
    assert told(keys("list", "--json"))[0]["state"] == "revoked"
    assert parse(keys("create", "--name", "ci", "--org", "acme").stdout.strip()), "a key that was made is printed all the same"


def test_before_any_gateway_has_run_there_is_nobody_to_tell(keys: Run, directory: Path) -> None:
    settings = msgspec.json.decode((directory / "gateway.yaml").read_bytes())
    for name in ("redis", "keys_pepper", "database"):
        del settings[name]
    write(directory, settings)
    secret = keys("create", "--name", "ci", "--org", "acme").stdout.strip()
    keys("block", "ci")
    pepper = (directory / "state" / "pepper").read_bytes()
    hashed = keys("hash", given=f"{secret}\n").stdout.strip()
    assert hashed == format_digest(digest(pepper, secret)), "the pepper that a gateway will use"


def test_a_secret_is_hashed_for_a_file(keys: Run) -> None:
    secret = "sk-from-elsewhere-0123456789"
    assert keys("hash", given=f"{secret}\n").stdout.strip() == format_digest(digest(PEPPER.encode(), secret))
    assert told(keys("hash", "--json", given=secret)) == {"digest": format_digest(digest(PEPPER.encode(), secret))}
    assert "at least 16" in keys("hash", given="short\n", code=1).stderr


def test_a_postgres_that_was_not_upgraded_is_named(keys: Run, directory: Path, postgres: Postgres) -> None:
    settings = msgspec.json.decode((directory / "gateway.yaml").read_bytes())
    write(directory, {**settings, "database": {"url": postgres.create()}})
    assert "tiergate db upgrade" in keys("list", code=69).stderr


def test_a_database_that_is_not_there_is_said_in_a_line(keys: Run, directory: Path) -> None:
    settings = msgspec.json.decode((directory / "gateway.yaml").read_bytes())
    write(directory, {**settings, "database": {"url": "postgresql://tiergate:hunter2@127.0.0.1:1/tiergate"}})
    result = keys("list", code=69)
    assert len(result.stderr.splitlines()) == 1
    assert "hunter2" not in result.output


def test_a_bad_file_is_told_with_all_its_errors(keys: Run, directory: Path) -> None:
    (directory / "gateway.yaml").write_text("plans: {a: {tiers: [gold]}}\nmodelz: {}\n")
    assert len(keys("list", code=78).stderr.splitlines()) >= 2
