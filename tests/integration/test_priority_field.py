"""vLLM's `priority` through the running gateway: what each deployment gets for each tier, whatever clients write there."""

from collections.abc import AsyncIterator
from typing import Any

import httpx
import msgspec
import pytest
import pytest_asyncio

from tests.fakes.anthropic import Both
from tests.fakes.openai import refuses
from tests.integration.fallback.chain import FORGIVING, PRICE
from tests.integration.scene import Scene, scene
from tests.running import config
from tests.valkey import Valkey

pytestmark = pytest.mark.asyncio(loop_scope="module")

CHAT, COMPLETIONS, MESSAGES = "/v1/chat/completions", "/v1/completions", "/v1/messages"
PRIORITIES = {"priority": -1, "default": None, "no-limit": None, "over-limit": 1, "flex": 2}
"""By the tier that serves; None is no field at all."""

OVER = "sk-test-secret-of-one-a-day"
FREE = "sk-test-secret-of-no-limit"


def model(name: str, *providers: str, **fields: Any) -> dict[str, Any]:
    """One model at these providers, tried in this order; `+` and `-` say whether vLLM's field is declared there."""
    said = {"+": {"priority_field": True}, "-": {"priority_field": False}}
    deployments = [
        {"provider": each.rstrip("+-"), "model": f"up-{name}{place}", "order": place, "capabilities": said.get(each[-1])}
        for place, each in enumerate(providers, 1)
    ]
    return {"deployments": deployments, "price": PRICE, **fields}


def settings() -> dict[str, Any]:
    """`both` has completions, `chat` has not; `claude` speaks Anthropic's."""
    declared = {"capabilities": {"priority_field": True}}
    models = {
        "m": model("m", "both", **declared),
        "through": model("through", "chat+"),
        "mixed": model("mixed", "both+", "both2"),
        "but": model("but", "both", "both2-", **declared),
        "plain": model("plain", "both"),
        "claude": model("claude", "claude", "both", **declared),
        "slow": model("slow", "both", tiers=["default"], **declared),
    }
    found = config(dict.fromkeys(("both", "both2", "chat", "claude"), "{upstream}"), models, breaker=FORGIVING)
    found["providers"]["chat"]["endpoints"] = ["chat"]
    found["providers"]["both"] |= {"endpoints": ["chat", "completions", "embeddings"], "tiers": {"flex": "flex"}}
    found["providers"]["claude"] |= {"dialect": "anthropic", "endpoints": ["chat"]}
    keys = [
        {"name": "over", "org": "acme", "secret": OVER, "limits": {"rpd": 1}, "over_limit": {"rpm": 600}},
        {"name": "free", "org": "acme", "secret": FREE, "allow_no_limit": True},
    ]
    return {**found, "keys": [*found["keys"], *keys]}


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def shared(valkey_server: Valkey, tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Scene]:
    async with scene(Both(), settings(), valkey_server, tmp_path_factory.mktemp("priority")) as found:
        yield found


@pytest_asyncio.fixture(loop_scope="module")
async def at(shared: Scene) -> AsyncIterator[Scene]:
    yield shared
    await shared.rest()


async def asked(at: Scene, **fields: Any) -> tuple[httpx.Response, list[dict[str, Any]]]:
    """Ask, and return the answer with the bodies that providers got for it."""
    before = len(at.server.requests)
    answer = await at.ask(**fields)
    assert answer.status_code == 200, answer.text
    return answer, [msgspec.json.decode(request.body) for request in at.server.requests[before:]]


def told(answer: httpx.Response) -> str | None:
    found: str | None = answer.headers.get("x-gateway-dropped-params")
    return found


WAYS = [("m", CHAT, {}), ("m", COMPLETIONS, {}), ("through", COMPLETIONS, {"prompt": ["one", "two"]}), ("through", MESSAGES, {})]
"""As it is asked, by way of chat, and both where a call becomes several."""


@pytest.mark.parametrize("stream", [False, True], ids=["whole", "streamed"])
@pytest.mark.parametrize("wish", [..., -100, "first"], ids=["silent", "a number", "a word"])
@pytest.mark.parametrize(("name", "path", "fields"), WAYS)
async def test_the_tier_that_serves_is_told_whatever_the_client_writes(
    name: str, path: str, fields: dict[str, Any], wish: Any, stream: bool, at: Scene
) -> None:
    for tier in ("priority", "default", "flex", "no-limit"):
        key = FREE if tier == "no-limit" else None
        answer, bodies = await asked(
            at, key=key, path=path, model=name, service_tier=tier, priority=wish, stream=stream, **fields
        )
        assert answer.headers["x-gateway-service-tier"] == tier
        assert [body.get("priority") for body in bodies] == [PRIORITIES[tier]] * len(fields.get("prompt", ["one"]))
        assert all(("priority" in body) == (PRIORITIES[tier] is not None) for body in bodies)
        assert told(answer) == (None if wish is ... else "priority")


async def test_service_over_the_limit_comes_after_default_and_before_flex(at: Scene) -> None:
    seen = []
    for _ in range(2):
        answer, [body] = await asked(at, key=OVER, model="m", service_tier="auto", priority=-100)
        seen.append((answer.headers["x-gateway-service-tier"], body.get("priority")))
    assert seen == [("default", None), ("over-limit", 1)]


async def test_a_tier_that_the_model_lacks_is_told_as_what_serves_instead(at: Scene) -> None:
    answer, [body] = await asked(at, model="slow", service_tier="priority", priority=-100)
    assert (answer.headers["x-gateway-service-tier"], "priority" in body) == ("default", False)


@pytest.mark.parametrize("name", ["mixed", "but"])
async def test_only_a_deployment_that_declares_it_is_told(name: str, at: Scene) -> None:
    at.models.acts[f"{name}1"] = refuses(503)
    answer, (first, second) = await asked(at, model=name, service_tier="flex", priority=7)
    assert (first["model"], first["priority"]) == (f"up-{name}1", 2)
    # The other one is not known to be vLLM: there it is a field that the gateway does not know.
    assert (second["model"], second["priority"]) == (f"up-{name}2", 7)
    assert told(answer) is None


async def test_where_it_is_not_declared_nothing_changes(at: Scene) -> None:
    for path in (CHAT, COMPLETIONS):
        for tier in ("priority", "flex"):
            answer, [body] = await asked(at, path=path, model="plain", service_tier=tier)
            assert ("priority" in body, told(answer)) == (False, None)
            answer, [body] = await asked(at, path=path, model="plain", service_tier=tier, priority=-100)
            assert (body["priority"], told(answer)) == (-100, None)


async def test_the_providers_own_word_for_the_tier_is_sent_as_well(at: Scene) -> None:
    _, [body] = await asked(at, model="m", service_tier="flex")
    assert (body["service_tier"], body["priority"]) == ("flex", 2)


async def test_it_may_not_be_hidden_in_extra_body(at: Scene) -> None:
    answer, [body] = await asked(at, model="m", service_tier="flex", extra_body={"priority": -100})
    assert (body["priority"], told(answer)) == (2, "priority")
    answer, [body] = await asked(at, model="m", extra_body={"priority": -100})
    assert ("priority" in body, "extra_body" in body, told(answer)) == (False, False, "priority")


async def test_null_asks_for_nothing_and_is_no_news(at: Scene) -> None:
    answer, [body] = await asked(at, model="m", priority=None)
    assert ("priority" in body, told(answer)) == (False, None)


async def test_anthropics_messages_have_no_such_field(at: Scene) -> None:
    answer, [body] = await asked(at, model="claude", service_tier="flex", priority=-100)
    assert answer.headers["x-gateway-provider"] == "claude"
    assert ("priority" in body, told(answer)) == (False, "priority")


async def test_what_is_not_edited_keeps_its_bytes(at: Scene) -> None:
    body = b'{"model": "m",  "messages": [{"role":"user","content":"\\u00e9"}], "priority": -9, "service_tier": "flex", "x": 2e0}'
    assert (await at.run.client.post(CHAT, content=body)).status_code == 200
    assert at.server.requests[-1].body == (
        b'{"model": "up-m1",  "messages": [{"role":"user","content":"\\u00e9"}], "priority": 2, "service_tier": "flex", "x": 2e0}'
    )
