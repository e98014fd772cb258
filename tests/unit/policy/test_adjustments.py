import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.policy.adjustments import adjust, scoped
from gateway.policy.catalogue import Model, Tier
from gateway.policy.charging import Target
from gateway.policy.means import Capabilities
from gateway.wire.contracts import NEBIUS, OPENAI, Contract
from gateway.wire.request import Endpoint, InferenceRequest, parse
from tests.catalogues import deployment, model


def target(of: Model) -> Target:
    return Target(of, of.deployments[0], Tier.DEFAULT)


SMALL = target(model("m", max_output_tokens=100, capabilities=Capabilities(max_logprobs=5)))


def completions(fields: bytes) -> InferenceRequest:
    return parse(Endpoint.COMPLETIONS, b'{"model":"m","prompt":"x",' + fields + b"}")


def chat(fields: bytes) -> InferenceRequest:
    return parse(Endpoint.CHAT, b'{"model":"m","messages":[{"role":"user","content":"x"}],' + fields + b"}")


@pytest.mark.parametrize(
    ("fields", "lowered"),
    [
        (b'"max_tokens":101', ("max_tokens=100",)),
        (b'"max_completion_tokens":101', ("max_completion_tokens=100",)),
        (b'"max_tokens":101,"max_completion_tokens":102', ("max_tokens=100", "max_completion_tokens=100")),
    ],
)
def test_an_output_bound_beyond_the_model_is_lowered(fields: bytes, lowered: tuple[str, ...]) -> None:
    found = adjust(chat(fields), SMALL, "acme")
    assert (found.request.max_tokens, found.lowered, found.dropped) == (100, lowered, ())


@pytest.mark.parametrize(
    "fields", [b'"max_tokens":100', b'"max_tokens":101,"max_completion_tokens":100', b'"n":1', b'"logprobs":true']
)
def test_what_a_model_can_do_is_left_as_it_is(fields: bytes) -> None:
    asked = chat(fields)
    found = adjust(asked, SMALL, "acme")
    assert found.request is asked
    assert (found.lowered, found.dropped) == ((), ())


def test_a_model_without_a_declared_bound_lowers_nothing() -> None:
    asked = chat(b'"max_tokens":10000000')
    assert adjust(asked, target(model("m")), "acme").request is asked


def test_logprobs_beyond_the_model_are_lowered() -> None:
    found = adjust(completions(b'"logprobs":6'), SMALL, "acme")
    assert (found.request.changes, found.lowered) == ({"logprobs": b"5"}, ("logprobs=5",))
    asked = completions(b'"logprobs":5')
    assert adjust(asked, SMALL, "acme").request is asked


def test_ignore_eos_is_left_out_and_reported_where_the_model_does_not_declare_it() -> None:
    asked = completions(b'"ignore_eos":true')
    found = adjust(asked, SMALL, "acme")
    assert (found.request.changes, found.dropped) == ({"ignore_eos": None}, ("ignore_eos",))
    assert adjust(asked, target(model("m", capabilities=Capabilities(ignore_eos=True))), "acme").request is asked


LESSER = target(
    model("m", deployment("m", capabilities=Capabilities(max_logprobs=3)), capabilities=Capabilities(ignore_eos=True))
)
"""A deployment that can do less than its model."""


def test_what_a_deployment_can_do_bounds_what_is_sent_to_it_alone() -> None:
    asked = completions(b'"logprobs":6,"ignore_eos":true')
    found = adjust(asked, LESSER, "acme")
    assert found.request.changes == {"logprobs": b"3", "ignore_eos": None}
    assert (found.lowered, found.dropped) == (("logprobs=3",), ("ignore_eos",))
    whole = target(model("m", capabilities=LESSER.model.capabilities))
    assert adjust(asked, whole, "acme").request is asked


@given(st.integers(0, 30), st.integers(0, 20), st.integers(0, 20), st.booleans(), st.booleans())
def test_a_deployment_takes_what_a_model_of_its_capabilities_takes(
    asked: int, most: int, less: int, takes: bool, takes_there: bool
) -> None:
    own = Capabilities(max_logprobs=min(most, less), ignore_eos=takes and takes_there)
    whole = Capabilities(max_logprobs=most, ignore_eos=takes)
    request = completions(b'"ignore_eos":true,"logprobs":%d' % asked)
    there = target(model("m", deployment("m", capabilities=own), capabilities=whole))
    assert adjust(request, there, "acme") == adjust(request, target(model("m", capabilities=own)), "acme")


def test_a_cache_key_is_the_orgs_own() -> None:
    found = adjust(chat(b'"prompt_cache_key":"chat-42"'), SMALL, "acme")
    assert found.request.changes == {"prompt_cache_key": b'"%b"' % scoped("chat-42", "acme").encode()}
    assert (found.lowered, found.dropped) == ((), ())
    vectors = parse(Endpoint.EMBEDDINGS, b'{"model":"m","input":"x","prompt_cache_key":"chat-42"}')
    assert adjust(vectors, SMALL, "acme").request.changes == found.request.changes
    keys = {scoped(key, org) for key in ("chat-42", "chat-43", "") for org in ("acme", "other")}
    assert len(keys) == 6
    assert {len(key) for key in keys} == {32}


@pytest.mark.parametrize(
    ("fields", "max_tokens", "lowered"),
    [
        (b'"n":1', 100, ("max_tokens=100",)),
        (b'"n":1,"prompt_cache_key":"a"', 100, ("max_tokens=100",)),
        (b'"max_tokens":7', 7, ()),
        (b'"max_completion_tokens":101', 100, ("max_completion_tokens=100",)),
    ],
)
def test_what_is_bounded_always_has_a_bound(fields: bytes, max_tokens: int, lowered: tuple[str, ...]) -> None:
    found = adjust(chat(fields), SMALL, "acme", is_bounded=True)
    assert (found.request.max_tokens, found.lowered) == (max_tokens, lowered)
    assert ("prompt_cache_key" in found.request.changes) == (b"prompt_cache_key" in fields)


@pytest.mark.parametrize("contract", [OPENAI, NEBIUS])
@pytest.mark.parametrize("is_bounded", [True, False])
def test_what_generates_nothing_gets_no_output_bound(contract: Contract, is_bounded: bool) -> None:
    asked = parse(Endpoint.EMBEDDINGS, b'{"model":"m","input":"x"}', contract)
    assert adjust(asked, SMALL, "acme", is_bounded=is_bounded).request is asked
