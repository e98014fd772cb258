"""`make import-litellm`: imported configurations send requests where LiteLLM's own router would.

For each configuration of `configs` and 200 requests each: the models in the order in which they are asked, and of each model its
deployments, those of a lower order first, as `explain` has them here and as the router draws them there. What is left out of an
import is left out there too; configurations whose routing is told to differ are not compared. Then keys: they come out of
LiteLLM's own tables, made by its own migrations, as out of those of the tests. Exit code 1 on a difference.
"""

import json
import os
import random
import re
import sqlite3
import subprocess
import sys
import tempfile
import time
from contextlib import closing
from itertools import groupby
from pathlib import Path
from typing import Any

import msgspec
from click.testing import CliRunner

from gateway.cli import tiergate
from gateway.cli.explain import left_by
from gateway.config import compile_catalogue
from gateway.config.check import check
from gateway.config.parse import parse
from gateway.config.references import Sources
from gateway.config.structs.tenancy import Key
from gateway.importing.source import read
from gateway.importing.translation import Translation, translate
from gateway.policy.catalogue import Catalogue, Secret
from gateway.policy.explain import Asked, explain
from gateway.wire.request import Endpoint
from tests.litellm import ROWS, fill, filled, name_of
from tests.postgres import Postgres

HERE = Path(__file__).parent
REQUESTS = 200
SEED = 20_261_130
DIFFERS = {
    "circle": "two models that stand in for each other, which is an error of our file",
    "wildcards": "names that a wildcard stands for",
}
"""Whose routing is told to differ, and why."""

MIGRATIONS = "lib/python*/site-packages/litellm_proxy_extras/migrations/*/migration.sql"

QUERIES = (
    "SELECT id, name, org, definition, expires_unix_ms, blocked_unix_ms IS NULL FROM api_key",
    "SELECT digest, scheme, key_id, display FROM key_secret",
    "SELECT name, definition FROM org",
    "SELECT org, name, definition FROM project",
    "SELECT scope, nano_usd FROM opening_balance",
)

Walk = list[tuple[str, list[set[tuple[str, str]]]]]
"""Models in their order, each with the deployments of each order: name at the provider, and credential."""


class Ours:
    """An imported configuration as the gateway has it, every variable with a value of its own."""

    def __init__(self, path: Path) -> None:
        self.translation: Translation = translate(read(path), {}, "2099-01-01")
        text = self.translation.text()
        self.environ = {name: f"sk-value-of-{name}" for name in re.findall(r"\$\{(\w+)", text)}
        parsed = parse(text.encode(), Sources(self.environ, lambda name: Path(name).read_bytes()))
        found = check(parsed)
        if found.errors:
            sys.exit(f"{path.name}: {found.errors[0].describe(path.name)}")
        asker = Key(name="asker", secret=Secret("sk-0123456789abcdef"))
        config = msgspec.structs.replace(parsed.config, keys=(asker,), orgs={}, plans={})
        self.catalogue: Catalogue = compile_catalogue(config, b"")
        [self.key] = self.catalogue.keys.values()

    def walk(self, request: dict[str, Any]) -> Walk:
        body = msgspec.json.encode(request)
        asked = Asked(endpoint=Endpoint.CHAT, body=body, project=None, now_unix_s=time.time())
        if "input" in request:
            asked = msgspec.structs.replace(asked, endpoint=Endpoint.EMBEDDINGS)
        found = explain(self.catalogue, self.key, asked, left_by)
        if found.refused is not None:
            sys.exit(f"{request['model']}: {found.refused.message}")
        walk: Walk = []
        for model, targets in groupby(found.targets, lambda target: target.model):
            orders = groupby(targets, lambda target: target.order)
            walk.append((model, [{self._identity(model, target.deployment) for target in each} for _, each in orders]))
        return walk

    def _identity(self, model: str, deployment: str) -> tuple[str, str]:
        [found] = [each for each in self.catalogue.models[model].deployments if each.id == deployment]
        return found.upstream_model.removeprefix("accounts/fireworks/models/"), found.provider.api_key.reveal()


def requests(ours: Ours, dice: random.Random) -> list[dict[str, Any]]:
    """Return requests for every name that clients may ask for, of many sizes and kinds."""
    names = sorted(ours.catalogue.names)
    made = []
    for place in range(REQUESTS):
        name = names[place % len(names)]
        only = ours.catalogue.names[name].capabilities.endpoints
        text = "word " * dice.randint(1, 400)
        if only == (Endpoint.EMBEDDINGS,):
            made.append({"model": name, "input": text})
            continue
        request: dict[str, Any] = {"model": name, "messages": [{"role": "user", "content": text}]}
        request |= {"stream": True} if dice.random() < 0.5 else {}
        request |= {"max_tokens": dice.randint(1, 500)} if dice.random() < 0.5 else {}
        made.append(request)
    return made


def theirs(jobs: list[dict[str, Any]], environ: dict[str, str]) -> list[Any]:
    """Return what the router says, from a process in its own environment."""
    quiet = {"LITELLM_LOCAL_MODEL_COST_MAP": "True", "LITELLM_LOG": "CRITICAL", "NO_PROXY": "*"}
    ran = subprocess.run(
        [".venv-import/bin/python", HERE / "router.py"],
        input=json.dumps(jobs),
        stdout=subprocess.PIPE,
        text=True,
        check=True,
        env={**os.environ, **environ, **quiet},
    )
    found: list[Any] = json.loads(ran.stdout.splitlines()[-1])
    return found


def difference(ours: Walk, walk: list[Any]) -> str | None:
    """Return in what two walks differ, or None."""
    if [model for model, _ in ours] != [model for model, _ in walk]:
        return f"models {[model for model, _ in ours]} here, {[model for model, _ in walk]} there"
    for (model, orders), (_, drawn) in zip(ours, walk, strict=True):
        identities = [identity(*each) for each in drawn]
        begin = 0
        for order in orders:
            if set(identities[begin : begin + len(order)]) != order:
                return f"{model}: {order} here, {identities[begin : begin + len(order)]} there"
            begin += len(order)
        if begin != len(identities):
            return f"{model}: {begin} deployments here, {len(identities)} there"
    return None


def identity(model: str, key: str) -> tuple[str, str]:
    """Return a deployment's name at its provider, and its credential."""
    return model.partition("/")[2] or model, key


def first_shares(ours: list[Walk], walks: list[list[Any]]) -> str | None:
    """Return who is never drawn first among those that share the traffic here: it would not share it there."""
    sharing = {(model, each) for walk in ours for model, orders in walk for each in orders[0]}
    first = {(model, identity(*drawn[0])) for walk in walks for model, drawn in walk if drawn}
    never = sharing - first
    return f"never first there: {sorted(never)}" if never else None


def main() -> int:
    """Compare all configurations, and print a line for each."""
    compared = [path for path in sorted((HERE / "configs").glob("*.yaml")) if path.stem not in DIFFERS]
    imported = [Ours(path) for path in compared]
    asked = [requests(ours, random.Random(SEED)) for ours in imported]
    environ = {name: value for ours in imported for name, value in ours.environ.items()}
    jobs = []
    for path, ours, each in zip(compared, imported, asked, strict=True):
        left_out = re.findall(r"^model_list\[(\d+)\]$", "\n".join(f.where for f in ours.translation.findings.all()), re.MULTILINE)
        jobs.append({"config": read(path).values, "requests": [as_chat(one) for one in each], "left_out": [*map(int, left_out)]})
    failed = 0
    for path, ours, each, walks in zip(compared, imported, asked, theirs(jobs, environ), strict=True):
        own = [ours.walk(request) for request in each]
        differing = [found for one, walk in zip(own, walks, strict=True) if (found := difference(one, walk)) is not None]
        never = first_shares(own, walks)
        failed += bool(differing or never)
        print(f"{path.stem:20} {len(each) - len(differing)} of {len(each)} alike  {differing[0] if differing else never or ''}")
    for name, why in DIFFERS.items():
        print(f"{name:20} not compared: {why}")
    return 1 if differs_from_the_real_thing() or failed else 0


def keys_of(theirs: str, directory: Path, name: str) -> dict[str, Any]:
    """Return what an import makes of a database: all that the tables of ours then hold, but for times."""
    ours = directory / f"{name}.db"
    command = [
        "import",
        "litellm",
        str(HERE / "configs" / "keys.yaml"),
        "--database",
        theirs,
        "--into",
        f"sqlite:///{ours}",
        "--json",
    ]
    ran = CliRunner().invoke(tiergate, command, obj={}, catch_exceptions=False)
    if ran.exit_code:
        sys.exit(f"{name}: {ran.stderr}")
    with closing(sqlite3.connect(ours)) as tables:
        return {query: sorted(tables.execute(query).fetchall()) for query in QUERIES}


def differs_from_the_real_thing() -> bool:
    """Print whether keys come out of LiteLLM's own tables as they do out of those that our tests make."""
    with Postgres() as postgres, tempfile.TemporaryDirectory() as directory:
        real = postgres.create()
        for migration in sorted(Path(".venv-import").glob(MIGRATIONS)):
            postgres.psql(migration.read_text(), name_of(real))
        fill(postgres, real, ROWS)
        found = [keys_of(url, Path(directory), name) for url, name in ((filled(postgres), "ours"), (real, "theirs"))]
    keys = len(found[1][QUERIES[0]])
    print(f"{'keys':20} {keys} out of LiteLLM's own tables, {'as' if found[0] == found[1] else 'NOT as'} out of our tests'")
    return found[0] != found[1]


def as_chat(request: dict[str, Any]) -> dict[str, Any]:
    """Return a request as the router is asked: only what it chooses by."""
    return {"model": request["model"], "messages": request.get("messages", [{"role": "user", "content": request.get("input")}])}


sys.exit(main())
