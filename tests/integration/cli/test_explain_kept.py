"""`tiergate explain` for keys of the database: found by name or id beside those of the file, and nothing is written."""

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any, TypeVar

import msgspec
import pytest
from click.testing import CliRunner, Result

from gateway.cli import tiergate
from gateway.config import load
from gateway.processes.registry import Registry, open_registry
from gateway.stores.minted import Draft
from gateway.stores.terms import Term
from tests.running import config

ACTOR = "test:operator"
BODY = msgspec.json.encode({"model": "m", "messages": [{"role": "user", "content": "hi"}]})

Made = TypeVar("Made")


class Desk:
    """One configuration, and an operator beside it."""

    def __init__(self, directory: Path, url: str) -> None:
        self.path = directory / "gateway.yaml"
        self._models: dict[str, Any] = {
            name: {"deployments": [{"provider": "p", "model": f"up-{name}"}], "price": {"input": 1, "output": 1}}
            for name in ("m", "n")
        }
        self._whole = {**config({"p": "http://127.0.0.1:1"}, self._models), "state_dir": str(directory / "state")}
        self.use(url)

    def use(self, url: str) -> None:
        """Have the configuration name this database."""
        database = {"url": url, **({"single_host": True} if url.startswith("sqlite") else {})}
        self.path.write_bytes(msgspec.json.encode({**self._whole, "keys_pepper": "pepper-of-these-tests", "database": database}))

    def do(self, change: Callable[[Registry], Awaitable[Made]]) -> Made:
        async def changed() -> Made:
            async with open_registry(load(self.path, {}).config, None) as registry:
                return await change(registry)

        return asyncio.run(changed())

    def mint(self, name: str, **fields: Any) -> str:
        """Make a key; return its id."""
        draft = Draft(**{"name": name, "org": "acme", **fields})
        return self.do(lambda registry: registry.keys.create(ACTOR, draft)).key.id

    def explain(self, key: str, body: bytes = BODY) -> Result:
        arguments = ["explain", str(self.path), "--key", key, "--request", "-", "--json"]
        return CliRunner().invoke(tiergate, arguments, obj={}, input=body)

    def told(self, key: str, body: bytes = BODY) -> dict[str, Any]:
        result = self.explain(key, body)
        assert result.exit_code == 0, result.output
        found: dict[str, Any] = msgspec.json.decode(result.stdout)
        return found


@pytest.fixture
def desk(url: str, tmp_path: Path) -> Desk:
    return Desk(tmp_path, url)


def test_a_key_of_the_database_is_found_by_its_name_and_by_its_id(desk: Desk) -> None:
    desk.do(lambda registry: registry.terms.put(ACTOR, Term(kind="plan", name="narrow"), {"models": ["m"], "limits": {"rpm": 7}}))
    desk.do(lambda registry: registry.terms.put(ACTOR, Term(kind="org", name="theirs"), {"plan": "narrow", "limits": {"rpm": 9}}))
    key_id = desk.mint("ci-of-theirs", org="theirs")
    found = desk.told("ci-of-theirs")
    assert found["caller"] == {"key": "ci-of-theirs", "org": "theirs", "project": None, "plan": "narrow", "only_from": []}
    limits = [(each["scope"], each["bucket"], each["limit"]) for each in found["targets"][0]["charges"]]
    assert ("key", f"k:{key_id}", 7) in limits
    assert ("org", "o:theirs", 9) in limits
    assert desk.told(key_id) == found
    assert desk.told(key_id, BODY.replace(b'"m"', b'"n"'))["refused"]["code"] == "model_not_found"


@pytest.mark.parametrize("state", ["blocked", "revoked"])
def test_a_key_that_may_not_enter_hears_401_and_the_operator_why(state: str, desk: Desk) -> None:
    key_id = desk.mint("ci")
    desk.do(lambda registry: (registry.keys.block if state == "blocked" else registry.keys.revoke)(ACTOR, key_id))
    result = desk.explain(key_id)
    refused = msgspec.json.decode(result.stdout)["refused"]
    assert (result.exit_code, refused["status"], refused["code"]) == (0, 401, "invalid_api_key")
    assert result.stderr == f"the key {key_id} is {state}\n"


def test_a_key_that_has_ended_hears_so(desk: Desk) -> None:
    desk.mint("old", expires_unix_ms=1)
    assert desk.told("old")["refused"]["message"] == "The API key has expired"


def test_the_files_key_comes_first_and_a_name_of_two_is_said_to_be(desk: Desk) -> None:
    [ours] = {key["name"] for key in msgspec.json.decode(desk.path.read_bytes())["keys"]}
    theirs = desk.mint(ours, org="default", plan="all")
    assert desk.told(ours)["caller"]["org"] != "default"
    assert desk.told(theirs)["caller"]["org"] == "default"
    ids = sorted(desk.mint("twice", org=org, plan="all") for org in ("acme", "default"))
    result = desk.explain("twice")
    assert (result.exit_code, result.stdout) == (1, "")
    assert ", ".join(ids) in result.stderr


def test_a_key_of_neither_is_unknown(desk: Desk) -> None:
    result = desk.explain("nobody")
    assert (result.exit_code, result.stdout) == (1, "")
    assert result.stderr == "Error: unknown key 'nobody'\n"


def test_a_database_that_cannot_be_asked_is_said_in_a_line_and_the_files_keys_are_explained(desk: Desk) -> None:
    [ours] = {key["name"] for key in msgspec.json.decode(desk.path.read_bytes())["keys"]}
    desk.use("postgresql://tiergate:hunter2@127.0.0.1:1/tiergate")
    result = desk.explain("ci")
    assert (result.exit_code, result.stdout) == (69, "")
    assert result.stderr.startswith("no key of the file is called 'ci', and the database cannot be asked: ")
    assert len(result.stderr.splitlines()) == 1
    assert "hunter2" not in result.stderr
    assert desk.told(ours)["refused"] is None


def test_a_database_that_is_not_there_yet_is_not_made(tmp_path: Path) -> None:
    desk = Desk(tmp_path, f"sqlite:///{tmp_path}/kept/tiergate.db")
    assert desk.explain("ci").exit_code == 1
    assert [path.name for path in tmp_path.iterdir()] == ["gateway.yaml"]
