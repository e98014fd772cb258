"""Secrets planted wherever one may come in, and sought wherever something goes out or stays: none is found, a control always is.

They are in keys, headers, query and body of requests, in what a provider answers, and in the configuration. Looked through are
log lines, errors, heads, metrics, keys of the store, tables of the database, files of the state directory, and the printed
form of every object of the gateway's while a request is under way.
"""

import asyncio
import gc
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import httpx
import pytest
from redis.asyncio import Redis
from sqlalchemy import MetaData, create_engine, select

from gateway.admission.discovery import locator
from gateway.admission.redis_client import open_client
from gateway.policy.record import Outcome
from tests.fakes.http_server import Call
from tests.fakes.openai import Models, answers, error, event, refuses, streams
from tests.integration.scene import Scene, scene
from tests.running import PEPPER, SECRET, config
from tests.valkey import Valkey

CONTROL = "planted-control"
"""A client's own request id, which is there to be found: in logs, store, database and state."""

PLANTED = {
    name: f"zq-planted-{name}-7f3a"
    for name in (
        *("prompt", "system", "user", "tool", "metadata", "query", "cookie", "agent", "custom", "stranger"),
        *("answer", "refusal", "upstream-header", "upstream-credential", "upstream-own-header", "admin", "schema"),
    )
}
SECRETS = {**PLANTED, "key": SECRET, "pepper": PEPPER.decode()}

FORWARDED = {"prompt", "system", "user", "tool", "schema", "metadata", "upstream-credential", "upstream-own-header"}
"""What a provider is sent."""

HELD, ASKED = "held-model", "asked-model"
REFUSALS = (400, 401, 403, 404, 422, 429, 500, 503)


def settings() -> dict[str, Any]:
    models = {name: {"deployments": [{"provider": "p", "model": f"up-{name}"}]} for name in (ASKED, HELD)}
    whole = config({"p": "{upstream}"}, models, ops={"admin_token": PLANTED["admin"]}, plan={"explain": True, "user_hash": True})
    whole["telemetry"] = {"level": "debug", "log": "json"}
    whole["providers"]["p"] |= {
        "api_key": PLANTED["upstream-credential"],
        "headers": {"x-account": PLANTED["upstream-own-header"]},
    }
    return whole


def body(**fields: Any) -> dict[str, Any]:
    """Return a request with something planted in each place that takes words."""
    function = {"name": "f", "description": PLANTED["tool"], "parameters": {"type": "object", "title": PLANTED["schema"]}}
    return {
        "model": ASKED,
        "fail_fast": True,
        "messages": [{"role": "system", "content": PLANTED["system"]}, {"role": "user", "content": PLANTED["prompt"]}],
        "user": PLANTED["user"],
        "metadata": {"note": PLANTED["metadata"]},
        "tools": [{"type": "function", "function": function}],
        **fields,
    }


HEADERS = {
    "cookie": f"session={PLANTED['cookie']}",
    "user-agent": PLANTED["agent"],
    "x-custom": PLANTED["custom"],
    "x-request-id": CONTROL,
    "x-gateway-explain": "true",
}


async def ask(place: Scene, headers: Mapping[str, str] = HEADERS, **fields: Any) -> httpx.Response:
    query = {"api_key": PLANTED["query"]}
    return await place.run.client.post("/v1/chat/completions", params=query, json=body(**fields), headers=headers)


async def requests(place: Scene) -> dict[str, str]:
    """Make requests of all kinds. Return what was told of each but the answers themselves."""
    acts, told = place.models.acts, {}
    gossip = {"x-echo": PLANTED["upstream-header"], "set-cookie": f"a={PLANTED['upstream-header']}"}

    def heads(name: str, answer: httpx.Response, text: str = "") -> None:
        told[name] = f"{answer.status_code} {answer.headers} {text}"

    said = {"index": 0, "message": {"role": "assistant", "content": PLANTED["answer"]}, "finish_reason": "stop"}
    acts[ASKED] = answers(choices=[said])
    heads("whole", whole := await ask(place))
    assert PLANTED["answer"] in whole.text, "the answer itself is its client's"
    acts[ASKED] = streams(event({"content": PLANTED["answer"]}), then=Call.reset)
    heads("broken", broken := await ask(place, stream=True))
    assert PLANTED["answer"] in broken.text
    told["broken"] += broken.text.replace(PLANTED["answer"], "")
    for status in REFUSALS:
        acts[ASKED] = refuses(status, error(PLANTED["refusal"] if status >= 429 else "no"), **gossip)
        refused = await ask(place)
        heads(f"refused {status}", refused, refused.text)
    wrong: dict[str, dict[str, Any]] = {
        "unknown model": {"model": "nobody"},
        "bad body": {"messages": 7},
        "bad tier": {"service_tier": 3},
    }
    for name, fields in wrong.items():
        bad = await ask(place, **fields)
        heads(name, bad, bad.text)
    stranger = await ask(place, {**HEADERS, "authorization": f"Bearer {PLANTED['stranger']}"})
    heads("stranger", stranger, stranger.text)
    del acts[ASKED]
    return told


def printed() -> Iterator[str]:
    """Yield the printed form of every object of the gateway's there is."""
    for each in gc.get_objects():
        kind = type(each)
        if str(getattr(kind, "__module__", "")).startswith("gateway.") and not isinstance(each, type):
            yield repr(each)


def tables(url: str) -> str:
    """Return all that a database holds."""
    engine = create_engine(url)
    with engine.connect() as connection:
        found = MetaData()
        found.reflect(connection)
        rows = [str(tuple(row)) for table in found.sorted_tables for row in connection.execute(select(table))]
    engine.dispose()
    return "\n".join(rows)


async def stored(redis: Redis) -> str:
    """Return all that the store holds, keys and values."""
    found: list[bytes] = []
    async for key in redis.scan_iter():
        kind: Any = await redis.type(key)
        read: dict[Any, tuple[Any, ...]] = {
            b"string": ("GET", key),
            b"hash": ("HGETALL", key),
            b"zset": ("ZRANGE", key, 0, -1),
            b"list": ("LRANGE", key, 0, -1),
            b"set": ("SMEMBERS", key),
            b"stream": ("XRANGE", key, "-", "+"),
        }
        found.append(key + b" " + repr(await redis.execute_command(*read[kind])).encode())  # type: ignore[no-untyped-call]
    return b"\n".join(found).decode()


def files(directory: Path) -> Iterator[tuple[str, str]]:
    """Yield what the state directory has, but for what secrets are kept in."""
    for path in directory.rglob("*"):
        if path.is_file() and path.name not in ("pepper", "gateway.yaml"):
            yield f"file {path.name}", path.read_bytes().decode("latin-1")


class Looked:
    """What was looked through, by its place; never printed whole where a test fails."""

    def __init__(self) -> None:
        self._texts: dict[str, str] = {}

    def add(self, place: str, text: str) -> None:
        self._texts[place] = text

    def places(self, word: str) -> set[str]:
        """Return where a word stands."""
        return {place for place, text in self._texts.items() if word in text}


async def look(place: Scene, valkey: Valkey, looked: Looked) -> list[dict[str, Any]]:
    """Make requests, and look through what can be asked of a gateway that runs. Return its rows."""
    under_way = asyncio.Event()

    async def held(call: Call) -> None:
        under_way.set()
        await place.models.released()
        await answers()(call)

    place.models.acts[HELD] = held
    redis = open_client(locator(valkey.url), timeout_s=5.0)
    holding = asyncio.create_task(ask(place, model=HELD))
    await under_way.wait()
    for name, text in (await requests(place)).items():
        looked.add(f"told: {name}", text)
    looked.add("store, under way", await stored(redis))
    looked.add("printed", "\n".join(printed()))
    place.models.release()
    assert (await holding).status_code == 200
    rows = await place.run.rows()
    looked.add("metrics", (await place.run.gateway._exposition.render()).decode())
    looked.add("store", await stored(redis))
    await redis.aclose()
    for request in place.server.requests:
        looked.add(f"provider {request.connection}", request.body.decode() + repr(request.headers))
    return rows


async def test_nothing_planted_is_found_anywhere(
    valkey: Valkey, tmp_path: Path, capfdbinary: pytest.CaptureFixture[bytes]
) -> None:
    looked = Looked()
    async with scene(Models(), settings(), valkey, tmp_path) as place:
        rows = await look(place, valkey, looked)
    looked.add("database", tables(f"sqlite:///{tmp_path / 'ledger.db'}"))
    for name, text in files(tmp_path):
        looked.add(name, text)
    out, errors = capfdbinary.readouterr()
    looked.add("log", out.decode())
    looked.add("standard error", errors.decode())
    assert {len(row["user_hash"]) for row in rows if row["route"].endswith("completions")} == {32}
    assert {row["outcome"] for row in rows} >= {Outcome.OK, Outcome.INTERRUPTED, Outcome.CLIENT_ERROR, Outcome.UPSTREAM_ERROR}
    hits = {name: sorted(looked.places(secret)) for name, secret in SECRETS.items()}
    for name, where in hits.items():
        sent = [each for each in where if each.startswith("provider ")]
        assert bool(sent) == (name in FORWARDED), f"{name} goes where it belongs and nowhere else"
        assert where == sent, f"{name} is found in {where}"
    # The control: what is there to be found is found by the same means.
    assert {"log", "database", "store, under way"} <= looked.places(CONTROL)
    assert {"metrics", "printed", "log", "database"} <= looked.places(ASKED)
