from typing import Any

import pytest

from gateway.errors import InvalidValue, Unprocessable, UnsupportedParameter
from gateway.policy.capabilities import check_key_bounds, check_model
from gateway.policy.catalogue import Capabilities
from gateway.wire.request import Endpoint, InferenceRequest, parse
from tests.catalogues import key, model, request

NOTHING = Capabilities(tools=False, vision=False, logprobs=False, regex=False, suffix=False, echo=False, stop=4)


def completions(fields: bytes) -> InferenceRequest:
    return parse(Endpoint.COMPLETIONS, b'{"model":"m","prompt":"x",' + fields + b"}")


def chat(fields: bytes) -> InferenceRequest:
    return parse(Endpoint.CHAT, b'{"model":"m","messages":[{"role":"user","content":"x"}],' + fields + b"}")


@pytest.mark.parametrize(
    ("asked", "param"),
    [
        (chat(b'"tools":[{"type":"function"}]'), "tools"),
        (chat(b'"logprobs":true'), "logprobs"),
        (completions(b'"logprobs":0'), "logprobs"),
        (completions(b'"suffix":"end"'), "suffix"),
        (completions(b'"echo":true'), "echo"),
        (completions(b'"response_format":{"type":"regex","regex":"a+"}'), "response_format"),
        (completions(b'"data":{"image":["data:image/png;base64,AA=="]}'), "data"),
    ],
)
def test_what_a_model_cannot_do_is_refused_by_name(asked: InferenceRequest, param: str) -> None:
    with pytest.raises(UnsupportedParameter, match=f"'m' does not support '{param}'") as raised:
        check_model(model("m", capabilities=NOTHING), asked)
    assert raised.value.param == param
    check_model(model("m", capabilities=Capabilities(regex=True)), asked)


@pytest.mark.parametrize(
    "asked",
    [
        chat(b'"tools":[],"logprobs":false'),
        completions(b'"suffix":"","echo":false,"logprobs":null'),
        completions(b'"response_format":{"type":"json_object"}'),
        completions(b'"stop":["a","b","c","d"]'),
    ],
)
def test_asking_for_nothing_needs_nothing(asked: InferenceRequest) -> None:
    check_model(model("m", capabilities=NOTHING), asked)


def test_stops_are_refused_never_cut() -> None:
    with pytest.raises(InvalidValue, match="up to 4") as raised:
        check_model(model("m", capabilities=NOTHING), completions(b'"stop":["a","b","c","d","e"]'))
    assert raised.value.param == "stop"


def test_top_logprobs_are_refused_never_lowered() -> None:
    few = model("m", capabilities=Capabilities(max_logprobs=5))
    check_model(few, chat(b'"logprobs":true,"top_logprobs":5'))
    with pytest.raises(InvalidValue, match="up to 5") as raised:
        check_model(few, chat(b'"logprobs":true,"top_logprobs":6'))
    assert raised.value.param == "top_logprobs"


@pytest.mark.parametrize(("fields", "error"), [({"n": 3}, InvalidValue), ({"prompts": 33}, Unprocessable)])
def test_a_key_bounds_what_is_asked_at_once(fields: dict[str, Any], error: type[Exception]) -> None:
    with pytest.raises(error):
        check_key_bounds(key(max_n=2), request("m", **fields))
    check_key_bounds(key(max_n=2), request("m", n=2, prompts=32))
