"""Several credentials of one provider, through a running gateway: each is left alone for itself, and the others serve."""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import httpx
import msgspec
import pytest
import pytest_asyncio

from gateway.config import load
from gateway.config.carried import Edition
from gateway.policy.admission import Order, Word
from gateway.policy.catalogue import TierTerms
from gateway.policy.charging import upstreams_of
from gateway.processes.desk import open_desk
from tests.fakes.accounts import Accounts, credential_of, credentials, with_credentials
from tests.fakes.http_server import Script
from tests.fakes.openai import BUSY, DONE, completion, error, event, refuses, streams
from tests.integration.scene import Scene, scene
from tests.running import config
from tests.valkey import Valkey

pytestmark = pytest.mark.asyncio(loop_scope="module")

ONE, TWO = credentials("p", 2)
RATE = error("Rate limit reached", code="rate_limit_exceeded")
REVOKED = error("Incorrect API key provided", code="invalid_api_key")
UNPAID = error("You exceeded your current quota", code="insufficient_quota")
OUT = refuses(429, RATE, retry_after="9")

ENOUGH = 30
"""Requests of which chance leaves no credential out: once in 2^29 it would."""

FEW = 12
"""Enough to see that one is left out."""


def settings() -> dict[str, Any]:
    """`m` is at a provider with two credentials, `m1` at the same provider with one of them; `T` has another provider behind."""

    def model(*providers: str, **fields: Any) -> dict[str, Any]:
        deployments = [{"provider": each, "model": "up-x", "order": place, **fields} for place, each in enumerate(providers, 1)]
        return {"deployments": deployments}

    models = {
        "m": model("p"),
        "kin": model("p"),
        "single": model("single"),
        "T": model("p", "q"),
        "narrow": model("p", max_concurrency=1),
        "claude": model("claude"),
        "gpt": model("gpt"),
        "other": model("httpx"),
    }
    names = ("p", "q", "single", "claude", "gpt", "httpx")
    tiers = {"default": {"queue": "3s"}}
    found = config(dict.fromkeys(names, "{upstream}"), models, tiers=tiers, plan={"tiers": ["default"], "explain": True})
    providers = found["providers"]
    providers["claude"] |= {"dialect": "anthropic", "endpoints": ["chat"]}
    providers["gpt"] |= {"dialect": "azure", "base_url": "{upstream}/openai/v1", "endpoints": ["chat"]}
    providers["httpx"] |= {"transport": "httpx"}
    providers["p"] |= {"quirks": {"fail_fast": True}}
    return with_credentials(found, p=2, claude=2, gpt=2, httpx=2)


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def shared(valkey_server: Valkey, tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Scene]:
    async with scene(Accounts(), settings(), valkey_server, tmp_path_factory.mktemp("credentials")) as found:
        yield found


@pytest_asyncio.fixture(loop_scope="module")
async def at(shared: Scene) -> AsyncIterator[Scene]:
    yield shared
    await shared.rest()
    gateway = shared.run.gateway
    models = gateway._corridor.snapshot.catalogue.models.values()
    upstreams = (each for model in models for deployment in model.deployments for each in upstreams_of(deployment, TierTerms()))
    await gateway._admission.order(Order(Word.RESET, tuple(upstreams)))


def provider(at: Scene) -> Accounts:
    assert isinstance(at.models, Accounts)
    return at.models


def outcome(response: httpx.Response) -> tuple[int, str]:
    return response.status_code, response.headers["x-gateway-attempts"]


async def ask(at: Scene, model: str = "m", **fields: Any) -> tuple[int, str]:
    """Ask, and return what became of it once that is known to all."""
    answer = await at.ask(model=model, **fields)
    await at.run.settled()
    return outcome(answer)


async def first_of(at: Scene, credential: str, says: Script, **fields: Any) -> tuple[int, str]:
    """Have a credential hear this, and ask until chance picks it first; return what became of that request."""
    provider(at).of[credential] = says
    for _ in range(ENOUGH):
        provider(at).came.clear()
        found = await ask(at, **fields)
        if provider(at).came[0] == credential:
            return found
    raise AssertionError(f"{credential} was never asked first")


async def asked_since(at: Scene, count: int, **fields: Any) -> Counter[str]:
    """Ask so often, each time with success at the first attempt; return which credentials were taken."""
    provider(at).came.clear()
    for _ in range(count):
        status, attempts = await ask(at, **fields)
        assert (status, attempts.count(";")) == (200, 1)
    return Counter(provider(at).came)


async def credentials_of(at: Scene, model: str = "m") -> dict[str, str]:
    """Return the state of each credential of a model's one deployment."""
    loaded = load(Path(at.run.gateway._place.state_dir) / "gateway.yaml", {}).config
    async with open_desk(loaded, at.run.gateway._place.redis_url) as desk:
        [standing] = [each for each in await desk.standings() if each.deployment.startswith(f"{model}/")]
    return {each.name: each.state for each in standing.credentials}


@pytest.mark.parametrize(("model", "name"), [("m", "p"), ("claude", "claude"), ("gpt", "gpt"), ("other", "httpx")])
@pytest.mark.parametrize("stream", [False, True], ids=["whole", "streamed"])
async def test_every_dialect_and_transport_takes_each_credential(model: str, name: str, stream: bool, at: Scene) -> None:
    taken = await asked_since(at, ENOUGH, model=model, stream=stream)
    assert set(taken) == set(credentials(name, 2))


async def test_an_account_that_is_out_is_left_alone_while_the_other_serves(at: Scene) -> None:
    assert await first_of(at, ONE, OUT) == (200, "m;429, m;200")
    assert await asked_since(at, FEW) == {TWO: FEW}
    assert await asked_since(at, FEW, model="kin") == {TWO: FEW}, "of all that its provider serves"
    assert await credentials_of(at) == {"p": "cooling", "p#2": "well"}


async def test_an_account_that_is_out_comes_back(at: Scene) -> None:
    assert await first_of(at, ONE, refuses(429, RATE, retry_after_ms="1")) == (200, "m;429, m;200")
    provider(at).of.clear()
    assert set(await asked_since(at, ENOUGH)) == {ONE, TWO}


@pytest.mark.parametrize("model", ["single", "m"])
async def test_all_accounts_out_are_as_one_that_is(model: str, at: Scene) -> None:
    known = credentials("p", 2) if model == "m" else ["sk-up-single"]
    provider(at).of = dict.fromkeys(known, OUT)
    answer = await at.ask(model=model, fail_fast=True)
    await at.run.settled()
    assert outcome(answer) == (429, ", ".join([f"{model};429"] * len(known)))
    assert (answer.json()["error"]["code"], answer.headers["retry-after"]) == ("engine_overloaded", "9")
    assert sorted(provider(at).came) == known
    again = await at.ask(model=model, fail_fast=True)
    assert outcome(again) == (429, f"{model};429")
    assert again.json()["error"] == answer.json()["error"]
    assert 8 <= int(again.headers["retry-after"]) <= 10
    assert sorted(provider(at).came) == known, "nobody is asked"


async def test_a_request_waits_for_the_first_account_that_is_back(at: Scene) -> None:
    heard = [0]

    async def at_first(call: Any) -> None:
        heard[0] += 1
        await (refuses(429, RATE, retry_after_ms="300") if heard[0] == 1 else refuses(200, completion()))(call)

    provider(at).of = {ONE: at_first, TWO: OUT}
    status, attempts = await ask(at)
    assert (status, attempts) == (200, "m;429, m;429, m;200")
    assert Counter(provider(at).came) == {ONE: 2, TWO: 1}


@pytest.mark.parametrize(
    ("status", "said"), [(401, REVOKED), (403, REVOKED), (402, UNPAID), (429, UNPAID)], ids=["401", "403", "402", "unpaid"]
)
async def test_a_credential_that_is_refused_is_passed_over_and_its_deployment_is_well(
    status: int, said: bytes, at: Scene
) -> None:
    assert await first_of(at, ONE, refuses(status, said)) == (200, f"m;{status}, m;200")
    assert await asked_since(at, FEW) == {TWO: FEW}
    assert await credentials_of(at) == {"p": "refused", "p#2": "well"}
    assert await asked_since(at, 5, model="T") == {TWO: 5}, "nor does its deployment stand back for others"


async def test_credentials_that_are_all_refused_are_our_fault_and_are_asked_where_nothing_else_is(at: Scene) -> None:
    provider(at).of = dict.fromkeys((ONE, TWO), refuses(401, REVOKED))
    answer = await at.ask(model="m")
    await at.run.settled()
    assert outcome(answer) == (502, "m;401, m;401")
    assert answer.json()["error"]["code"] == "upstream_auth_error"
    provider(at).came.clear()
    assert await ask(at) == (502, "m;401")
    assert len(provider(at).came) == 1
    assert await ask(at, model="T") == (200, "T;0, T;200")
    provider(at).of.clear()
    assert await ask(at) == (200, "m;200"), "as one that was refused, it serves again as soon as it may"


@pytest.mark.parametrize(
    ("says", "status"), [(refuses(500), 500), (refuses(503), 503), (refuses(429, BUSY), 429)], ids=["500", "503", "busy"]
)
async def test_what_is_not_the_accounts_is_not_tried_with_another(says: Script, status: int, at: Scene) -> None:
    provider(at).of = dict.fromkeys((ONE, TWO), says)
    assert await ask(at, model="T") == (200, f"T;{status}, T;200")
    assert len(provider(at).came) == 2
    assert await credentials_of(at) == {"p": "well", "p#2": "well"}


async def test_an_account_that_says_so_before_the_first_word_of_a_stream_gives_way_too(at: Scene) -> None:
    said = b"data: " + RATE + b"\n\n"
    assert await first_of(at, ONE, streams(event({"role": "assistant"}), said, DONE), stream=True) == (200, "m;200, m;200")
    assert await asked_since(at, 10) == {TWO: 10}


async def test_an_account_with_nothing_left_gives_way_to_the_other(at: Scene) -> None:
    left = {"x_ratelimit_remaining_requests": "0", "x_ratelimit_reset_requests": "9s"}
    assert await first_of(at, ONE, refuses(200, completion(), **left)) == (200, "m;200")
    assert await asked_since(at, FEW) == {TWO: FEW}


async def test_credentials_share_slots_and_connections(at: Scene) -> None:
    async with at.filled("narrow"):
        assert outcome(await at.ask(model="narrow", fail_fast=True)) == (429, "narrow;429")
    at.server.requests.clear()
    await asked_since(at, ENOUGH, model="narrow")
    assert len({credential_of(each) for each in at.server.requests}) == 2
    assert len({each.connection for each in at.server.requests}) == 1


async def test_fail_fast_goes_along_where_another_deployment_remains_and_not_for_another_credential(at: Scene) -> None:
    for model, sent in (("m", None), ("T", True)):
        await ask(at, model=model)
        assert msgspec.json.decode(at.server.requests[-1].body).get("fail_fast") is sent


async def test_a_credential_that_is_added_is_taken_by_new_requests(at: Scene) -> None:
    place = at.run.gateway._place
    path = Path(place.state_dir) / "gateway.yaml"
    before = path.read_bytes()
    written = msgspec.json.decode(before)
    written["providers"]["single"].pop("api_key")
    written["providers"]["single"]["api_keys"] = ["sk-up-single", "sk-up-one-more"]
    try:
        path.write_bytes(msgspec.json.encode(written))
        await at.run.gateway.take(Edition(number=2, config=load(path, {}).config))
        assert set(await asked_since(at, ENOUGH, model="single")) == {"sk-up-single", "sk-up-one-more"}
    finally:
        path.write_bytes(before)
        await at.run.gateway.take(Edition(number=3, config=load(path, {}).config))
    assert await asked_since(at, 10, model="single") == {"sk-up-single": 10}


async def test_no_credential_shows(at: Scene) -> None:
    said = error(f"Key {ONE} of the account of {TWO} is not valid", code="invalid_value")
    provider(at).of = dict.fromkeys((ONE, TWO), refuses(400, said))
    answer = await at.ask(model="m")
    assert answer.status_code == 400
    shown = [answer.text, str(answer.headers), repr(at.run.gateway._corridor.snapshot.catalogue)]
    assert "[redacted]" in answer.text
    for secret in (ONE, TWO):
        assert not [text for text in shown if secret in text]


async def test_many_at_once_lose_nothing_while_one_account_is_out(at: Scene) -> None:
    provider(at).of[ONE] = OUT
    answers = await asyncio.gather(*(at.ask(model="m") for _ in range(ENOUGH)))
    assert {each.status_code for each in answers} == {200}
    await at.run.settled()
    assert await at.run.leases() == 0
