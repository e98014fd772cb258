"""vLLM's `priority`: the gateway's own where a deployment takes it, never the client's; elsewhere there is no such field."""

from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.policy.catalogue import Deployment, Provider, Secret, Tier
from gateway.policy.tiers import PRIORITIES, RANK
from gateway.providers import DIALECTS, NATURES
from gateway.providers.protocol import Call
from gateway.wire.request import TABLES, Endpoint, InferenceRequest, parse

ASKED: dict[Endpoint, dict[str, Any]] = {
    Endpoint.CHAT: {"messages": [{"role": "user", "content": "hi"}]},
    Endpoint.COMPLETIONS: {"prompt": ["one", "two"]},
    Endpoint.EMBEDDINGS: {"input": "hi"},
    Endpoint.MESSAGES: {"messages": [{"role": "user", "content": "hi"}], "max_tokens": 9},
    Endpoint.RESPONSES: {"input": "hi"},
}
EXPECTED = {Tier.PRIORITY: -1, Tier.DEFAULT: None, Tier.NO_LIMIT: None, Tier.OVER_LIMIT: 1, Tier.FLEX: 2}
SILENT = object()

wishes = st.sampled_from((SILENT, None, -1, 0, 2**80, "high", {"deep": [1]}))


def asked(endpoint: Endpoint, wish: object = SILENT, *, hidden: bool = False) -> InferenceRequest:
    """A request whose client has a wish of its own, in the body or in its `extra_body`."""
    own = {} if wish is SILENT else {"priority": wish}
    fields = {"extra_body": own} if hidden else own
    return parse(endpoint, msgspec.json.encode({"model": "m", "user": "u", **ASKED[endpoint], **fields}))


def provider(dialect: str = "openai", served: frozenset[Endpoint] | None = None, **fields: Any) -> Provider:
    nature = NATURES[dialect]
    return Provider(
        name="p",
        dialect=dialect,
        nature=nature,
        base_url="http://up.example/v1",
        api_key=Secret("sk-up"),
        endpoints=nature.endpoints if served is None else served,
        **fields,
    )


def call(request: InferenceRequest, tier: Tier, at: Provider, *, takes: bool) -> Call:
    deployment = Deployment(id="d", provider=at, upstream_model="up", takes_priority=takes)
    return DIALECTS[at.dialect](at).call(request, deployment, tier, last=True)


def bodies(call: Call) -> list[dict[str, Any]]:
    return [msgspec.json.decode(body) for body in (call.body, *call.further)]


@given(
    st.sampled_from(sorted(TABLES)),
    st.sampled_from(Tier),
    wishes,
    st.booleans(),
    st.sampled_from((frozenset({Endpoint.CHAT}), frozenset(Endpoint) - {Endpoint.MESSAGES})),
    st.sampled_from(("openai", "azure")),
    st.booleans(),
)
def test_what_arrives_is_the_gateways_word_for_the_tier_alone(
    endpoint: Endpoint, tier: Tier, wish: object, hidden: bool, served: frozenset[Endpoint], dialect: str, forwards: bool
) -> None:
    if endpoint in (Endpoint.EMBEDDINGS, Endpoint.RESPONSES):
        served |= {endpoint}
    at = provider(dialect, served, forward_unknown_fields=forwards)
    made = call(asked(endpoint, wish, hidden=hidden), tier, at, takes=True)
    assert [body.get("priority") for body in bodies(made)] == [EXPECTED[tier]] * (1 + len(made.further))
    assert all("priority" not in body for body in bodies(made)) == (EXPECTED[tier] is None)
    assert made.dropped.count("priority") == (wish is not SILENT and wish is not None)


@given(st.sampled_from(sorted(TABLES)), st.sampled_from(Tier), wishes)
def test_all_else_is_as_it_was(endpoint: Endpoint, tier: Tier, wish: object) -> None:
    at = provider()
    plain, told = (call(asked(endpoint, own), tier, at, takes=takes) for own, takes in ((SILENT, False), (wish, True)))
    assert (plain.path, plain.headers) == (told.path, told.headers)
    for before, after in zip(bodies(plain), bodies(told), strict=True):
        after.pop("priority", None)
        assert before == after


@pytest.mark.parametrize("endpoint", [Endpoint.CHAT, Endpoint.COMPLETIONS, Endpoint.EMBEDDINGS, Endpoint.RESPONSES])
def test_where_it_is_not_declared_nothing_changes(endpoint: Endpoint) -> None:
    at = provider()
    for tier in Tier:
        found = call(asked(endpoint, -5), tier, at, takes=False)
        assert [body["priority"] for body in bodies(found)] == [-5] * (1 + len(found.further))
        assert found.dropped == ()


def test_anthropics_messages_have_no_such_field() -> None:
    at = provider("anthropic")
    for tier in Tier:
        [body] = bodies(call(asked(Endpoint.CHAT, -5), tier, at, takes=True))
        assert "priority" not in body


def test_a_tier_that_ranks_higher_is_never_later() -> None:
    """Lower is sooner, and 0 is what vLLM takes where nothing is sent."""
    order = sorted(Tier, key=lambda tier: PRIORITIES.get(tier, 0))
    assert [RANK[tier] for tier in order] == sorted(RANK.values(), reverse=True)
    assert 0 not in PRIORITIES.values()
