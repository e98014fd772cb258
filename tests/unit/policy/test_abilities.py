"""Which deployments a request goes to: the law, and the error where there is none."""

from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from gateway.errors import GatewayError, InvalidValue, UnsupportedParameter
from gateway.policy.abilities import differing
from gateway.policy.capabilities import check_model, lacking, together
from gateway.policy.catalogue import Model, Tier
from gateway.policy.means import Capabilities
from gateway.policy.routing import Plan, Planner
from gateway.policy.tiers import Wish
from gateway.providers import NATURES
from gateway.wire.request import Endpoint, InferenceRequest, parse
from tests.catalogues import catalogue, deployment, key, model, provider

PICTURE = {"type": "image_url", "image_url": {"url": "https://pictures.example/a.png"}}


def chat(**fields: Any) -> InferenceRequest:
    asked = {"model": "m", "messages": [{"role": "user", "content": "x"}], **fields}
    return parse(Endpoint.CHAT, msgspec.json.encode(asked))


def completions(**fields: Any) -> InferenceRequest:
    return parse(Endpoint.COMPLETIONS, msgspec.json.encode({"model": "m", "prompt": "x", **fields}))


ASKED = (
    chat(),
    chat(tools=[{"type": "function"}]),
    chat(messages=[{"role": "user", "content": [PICTURE]}]),
    chat(logprobs=True, top_logprobs=6),
    chat(logprobs=True, top_logprobs=2, tools=[{"type": "function"}]),
    chat(stop=["a", "b", "c"]),
    chat(stop=["a"], response_format={"type": "regex", "regex": "a"}),
    completions(logprobs=9),
    completions(echo=True, suffix="x"),
    completions(ignore_eos=True),
)
CAPABLE = st.builds(
    Capabilities,
    endpoints=st.sampled_from((None, (Endpoint.CHAT,), (Endpoint.CHAT, Endpoint.COMPLETIONS))),
    **{name: st.booleans() for name in ("tools", "vision", "logprobs", "regex", "suffix", "echo", "ignore_eos")},
    max_logprobs=st.sampled_from((0, 5, 20)),
    stop=st.sampled_from((0, 2, 16)),
)
EVERY = provider("every", endpoints=frozenset(Endpoint))
WISH = Wish(Tier.DEFAULT)


def planned(request: InferenceRequest, *models: Model) -> Plan:
    return Planner(catalogue(*models)).plan(key(), request, WISH, dice=0)


def ids(plan: Plan) -> list[str]:
    return [candidate.target.deployment.id for candidate in plan.candidates]


def serving(*capable: Capabilities | None, **fields: Any) -> Model:
    """One model with a deployment of each of these capabilities, in this order."""
    deployments = [
        replace(deployment("m", EVERY, order=place, capabilities=can), id=f"d{place}") for place, can in enumerate(capable, 1)
    ]
    return model("m", *deployments, **fields)


def alone(can: Capabilities, request: InferenceRequest) -> bool:
    """Return whether a model that can do just that would serve a request."""
    try:
        check_model(model("m", capabilities=can), request)
    except GatewayError:
        return False
    return True


@given(st.lists(CAPABLE | st.none(), min_size=1, max_size=4), st.sampled_from(ASKED))
def test_a_request_goes_to_those_that_can_do_all_of_it(capable: list[Capabilities | None], request: InferenceRequest) -> None:
    whole = Capabilities(regex=True)
    able = [f"d{place}" for place, can in enumerate(capable, 1) if alone(can or whole, request)]
    one = serving(*capable, capabilities=whole)
    if able:
        assert ids(planned(request, one)) == able
        return
    with pytest.raises((UnsupportedParameter, InvalidValue)) as raised:
        planned(request, one)
    assert raised.value.status == 400
    assert raised.value.param == "model" or raised.value.param in request.fields


@given(st.lists(CAPABLE, min_size=1, max_size=4), st.sampled_from(ASKED))
def test_what_one_of_several_can_do_they_can_do_together(capable: list[Capabilities], request: InferenceRequest) -> None:
    if any(lacking(can, request) is None for can in capable):
        assert lacking(together(capable), request) is None


def test_without_capabilities_of_their_own_deployments_are_not_looked_at() -> None:
    assert not differing(serving(None, None))
    assert differing(serving(None, Capabilities()))


NONE_CAN: tuple[tuple[InferenceRequest, tuple[Capabilities, ...], str, str], ...] = (
    (chat(tools=[{}]), (Capabilities(tools=False),) * 2, "does not support 'tools'", "tools"),
    (chat(stop=["a"] * 5), (Capabilities(stop=2), Capabilities(stop=4)), "takes up to 4 stop sequences", "stop"),
    (
        chat(logprobs=True, top_logprobs=9),
        (Capabilities(max_logprobs=8), Capabilities(max_logprobs=5)),
        "gives up to 8 top_logprobs",
        "top_logprobs",
    ),
    (completions(), (Capabilities(endpoints=(Endpoint.CHAT,)),), "does not serve completions", "model"),
    # Each by another, and none all of it: what the first cannot do is told.
    (chat(tools=[{}], stop=["a"] * 5), (Capabilities(stop=4), Capabilities(tools=False)), "takes up to 4", "stop"),
)


@pytest.mark.parametrize(("request_", "capable", "text", "param"), NONE_CAN)
def test_what_none_can_do_is_refused_as_if_the_model_could_not(
    request_: InferenceRequest, capable: tuple[Capabilities, ...], text: str, param: str
) -> None:
    with pytest.raises((UnsupportedParameter, InvalidValue), match=text) as raised:
        planned(request_, serving(*capable))
    assert (raised.value.status, raised.value.param) == (400, param)


def test_words_and_capabilities_are_both_looked_at() -> None:
    wordless = deployment("m", provider("wordless", nature=NATURES["anthropic"]))
    toolless = deployment("m", provider("toolless"), capabilities=Capabilities(tools=False), order=2)
    both = model("m", wordless, toolless)
    assert ids(planned(chat(tools=[{}]), both)) == ["m/wordless"]
    assert ids(planned(chat(n=2), both)) == ["m/toolless"]
    assert ids(planned(chat(), both)) == ["m/wordless", "m/toolless"]
    with pytest.raises(UnsupportedParameter, match="does not support 'n'"):
        planned(chat(n=2, tools=[{}]), both)


def test_a_fallback_of_the_configuration_whose_deployments_cannot_is_left_out() -> None:
    first = model("m", deployment("m"), fallbacks=("n",))
    other = model("n", deployment("n", capabilities=Capabilities(tools=False)))
    assert ids(planned(chat(tools=[{}]), first, other)) == ["m/p"]
    assert ids(planned(chat(), first, other)) == ["m/p", "n/p"]


def test_a_deployment_for_chat_alone_gets_no_completions_by_way_of_chat() -> None:
    talks = deployment("m", provider("talks"), capabilities=Capabilities(endpoints=(Endpoint.CHAT,)))
    assert ids(planned(completions(), model("m", talks, deployment("m", provider("writes"))))) == ["m/writes"]
    # Nor is it told that chat cannot take the field: completions are not for it at all.
    with pytest.raises(UnsupportedParameter, match="does not serve completions") as raised:
        planned(completions(suffix="x"), model("m", talks))
    assert raised.value.param == "model"
