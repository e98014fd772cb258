"""Fields that a provider refuses: not sent to it, whoever wrote them, and reported where something is lost."""

from typing import Any

import msgspec
import pytest
from msgspec.structs import replace

from gateway.policy.catalogue import Deployment, Provider, Secret, Tier
from gateway.providers import DIALECTS, NATURES
from gateway.providers.protocol import Call
from gateway.wire.request import Endpoint, parse

HI = {"messages": [{"role": "user", "content": "hi"}]}
ASKED: dict[Endpoint, dict[str, Any]] = {
    Endpoint.CHAT: HI,
    Endpoint.COMPLETIONS: {"prompt": "hi"},
    Endpoint.EMBEDDINGS: {"input": "hi"},
    Endpoint.RESPONSES: {"input": "hi"},
    Endpoint.MESSAGES: {**HI, "max_tokens": 9},
}


def at(dialect: str, *lacks: str, endpoints: frozenset[Endpoint] | None = None) -> Provider:
    nature = NATURES[dialect]
    return Provider(
        name="p",
        dialect=dialect,
        nature=nature,
        base_url="http://up.example/v1",
        api_key=Secret("sk-up"),
        endpoints=nature.endpoints if endpoints is None else endpoints,
        lacks=frozenset(lacks),
    )


def called(provider: Provider, endpoint: Endpoint, changes: dict[str, bytes | None], **fields: Any) -> Call:
    request = parse(endpoint, msgspec.json.encode({"model": "m", **ASKED[endpoint], **fields}))
    request = replace(request, changes=changes)
    deployment = Deployment(id="d", provider=provider, upstream_model="up")
    return DIALECTS[provider.dialect](provider).call(request, deployment, Tier.DEFAULT, last=True)


def body(call: Call) -> dict[str, Any]:
    found: dict[str, Any] = msgspec.json.decode(call.body)
    return found


@pytest.mark.parametrize("dialect", ["openai", "azure"])
@pytest.mark.parametrize("endpoint", [Endpoint.CHAT, Endpoint.COMPLETIONS, Endpoint.EMBEDDINGS, Endpoint.RESPONSES])
def test_what_is_lacked_is_not_sent_and_told(dialect: str, endpoint: Endpoint) -> None:
    if endpoint not in NATURES[dialect].endpoints:
        return
    call = called(at(dialect, "user", "x_vendor"), endpoint, {}, user="u", x_vendor=1, x_other=2)
    assert not {"user", "x_vendor"} & body(call).keys()
    assert (body(call)["x_other"], call.dropped) == (2, ("user", "x_vendor"))
    plain = called(at(dialect), endpoint, {}, user="u", x_vendor=1, x_other=2)
    assert (body(plain)["user"], plain.dropped) == ("u", ())


def test_what_asks_for_nothing_goes_without_a_word() -> None:
    call = called(at("openai", "n", "logprobs", "temperature"), Endpoint.CHAT, {}, n=1, logprobs=False, temperature=1)
    assert not {"n", "logprobs", "temperature"} & body(call).keys()
    assert call.dropped == ()


def test_what_the_gateway_made_of_it_is_lacked_no_less() -> None:
    call = called(at("openai", "prompt_cache_key"), Endpoint.CHAT, {"prompt_cache_key": b'"h"'}, prompt_cache_key="k")
    assert ("prompt_cache_key" in body(call), call.dropped) == (False, ("prompt_cache_key",))


def test_a_message_made_into_chat_is_held_to_it_too() -> None:
    chat = at("openai", "user", endpoints=frozenset({Endpoint.CHAT}))
    call = called(chat, Endpoint.MESSAGES, {}, metadata={"user_id": "u"})
    assert ("user" in body(call), call.dropped) == (False, ("user",))


def test_a_completion_made_into_chat_is_held_to_it_too() -> None:
    chat = at("openai", "seed", endpoints=frozenset({Endpoint.CHAT}))
    call = called(chat, Endpoint.COMPLETIONS, {}, seed=1)
    assert ("seed" in body(call), call.dropped) == (False, ("seed",))
