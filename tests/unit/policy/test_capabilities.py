from functools import partial

import pytest

from gateway.errors import ContextLengthExceeded, InvalidValue, UnsupportedParameter
from gateway.policy.capabilities import check_key_bounds, check_model, endpoints_for, refuse_chat, unsaid_in_chat
from gateway.policy.means import Capabilities
from gateway.wire.contracts import NEBIUS
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


@pytest.mark.parametrize(
    ("endpoint", "body", "param"),
    [
        (Endpoint.CHAT, b'"messages":[{"role":"user","content":[{"type":"image_url","image_url":{"url":"u"}}]}]', "messages"),
        (
            Endpoint.MESSAGES,
            b'"max_tokens":1,"messages":[{"role":"user","content":[{"type":"image","source":{"type":"url","url":"u"}}]}]',
            "messages",
        ),
        (Endpoint.RESPONSES, b'"input":[{"role":"user","content":[{"type":"input_image","image_url":"u"}]}]', "input"),
    ],
)
def test_images_are_refused_wherever_they_stand(endpoint: Endpoint, body: bytes, param: str) -> None:
    asked = parse(endpoint, b'{"model":"m",' + body + b"}")
    with pytest.raises(UnsupportedParameter, match="'m' does not support images") as raised:
        check_model(model("m", capabilities=Capabilities(vision=False)), asked)
    assert raised.value.param == param
    check_model(model("m"), asked)


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


def test_a_key_bounds_what_is_asked_at_once() -> None:
    with pytest.raises(InvalidValue):
        check_key_bounds(key(max_n=2), request("m", n=3))
    check_key_bounds(key(max_n=2), request("m", n=2))


@pytest.mark.parametrize(
    ("fields", "field"), [({"n": 3}, "n"), ({"n": 1, "best_of": 3}, "best_of"), ({"n": 3, "best_of": 2}, "n")]
)
def test_answers_that_are_made_count_as_answers_that_are_given(fields: dict[str, int], field: str) -> None:
    asked = request("m", **fields)
    for check in (partial(check_key_bounds, key(max_n=2), asked), partial(check_model, model("m", max_n=2), asked)):
        with pytest.raises(InvalidValue, match=f"{field} up to 2") as raised:
            check()
        assert raised.value.param == field


@pytest.mark.parametrize(
    ("body", "field"),
    [
        (b'"max_tokens":11', "max_tokens"),
        (b'"max_completion_tokens":11', "max_completion_tokens"),
        (b'"max_tokens":12,"max_completion_tokens":11', "max_completion_tokens"),
    ],
)
def test_the_field_is_named_that_the_client_wrote(body: bytes, field: str) -> None:
    asked = parse(Endpoint.CHAT, b'{"model":"m","messages":[{"role":"user"}],' + body + b"}", NEBIUS)
    with pytest.raises(ContextLengthExceeded) as raised:
        check_model(model("m", max_output_tokens=10), asked)
    assert raised.value.param == field


@pytest.mark.parametrize(
    ("prompt", "fields", "field"),
    [
        (b'"x"', b'"echo":true,"best_of":1,"suffix":"","data":{}', None),
        (b'["x","y"]', b'"n":2,"best_of":2,"logprobs":5', None),
        (b'"x"', b'"n":2,"best_of":1', None),
        (b'"x"', b'"data":{"image":["data:image/png;base64,AA"]}', None),
        (b"[1,2]", b'"n":1', "prompt"),
        (b"[[1],[2]]", b'"n":1', "prompt"),
        (b'""', b'"n":1', "prompt"),
        (b'["x",""]', b'"n":1', "prompt"),
        (b"[]", b'"n":1', "prompt"),
        (b'"x"', b'"suffix":"end"', "suffix"),
        (b'"x"', b'"echo":true,"logprobs":0', "echo"),
        (b'"x"', b'"best_of":3', "best_of"),
        (b'"x"', b'"n":3,"best_of":2', "best_of"),
        (b'"x"', b'"data":{"video":["data:video/mp4;base64,AA"]}', "data"),
        (b'["x","y"]', b'"data":{"image":["data:image/png;base64,AA"]}', "data"),
    ],
)
def test_what_chat_cannot_say_goes_by_completions_alone(prompt: bytes, fields: bytes, field: str | None) -> None:
    asked = parse(Endpoint.COMPLETIONS, b'{"model":"m","prompt":' + prompt + b"," + fields + b"}")
    assert unsaid_in_chat(asked) == field
    assert endpoints_for(asked) == ((Endpoint.COMPLETIONS,) if field else (Endpoint.COMPLETIONS, Endpoint.CHAT))


@pytest.mark.parametrize(
    ("turns", "fields", "field"),
    [
        (b'{"role":"user","content":"x"}', b'"tools":[{"name":"f"},{"type":"custom","name":"g"}]', None),
        (b'{"role":"user","content":"x"}', b'"tools":[{"type":"bash_20250124","name":"bash"}]', "tools"),
        (b'{"role":"user","content":"x"},{"role":"assistant","content":"y"}', b'"stream":true', "messages.1.role"),
        (b'{"role":"user","content":[{"type":"search_result"}]}', b'"stream":true', "messages.0.content.0"),
        (b'{"role":"user","content":"x"}', b'"tools":[{"name":"f"}],"tool_choice":{"type":"any"}', None),
        (b'{"role":"user","content":"x"}', b'"tools":[{"name":"f"}],"tool_choice":{"type":"tool","name":"f"}', None),
        (b'{"role":"user","content":"x"}', b'"tools":[{"name":"f"}],"tool_choice":{"type":"of_another_day"}', "tool_choice"),
        (b'{"role":"user","content":"x"}', b'"tool_choice":{"type":"of_another_day"}', None),
        (b'{"role":"user","content":"x"}', b'"output_config":{"effort":"low","format":{"type":"json_schema"}}', None),
        (b'{"role":"user","content":"x"}', b'"output_config":{"format":{"type":"of_another_day"}}', "output_config"),
    ],
)
def test_messages_that_chat_cannot_say_go_by_themselves_alone(turns: bytes, fields: bytes, field: str | None) -> None:
    asked = parse(Endpoint.MESSAGES, b'{"model":"m","max_tokens":1,"messages":[' + turns + b"]," + fields + b"}")
    assert unsaid_in_chat(asked) == field
    assert endpoints_for(asked) == ((Endpoint.MESSAGES, Endpoint.CHAT) if field is None else (Endpoint.MESSAGES,))


def test_chat_goes_by_chat_alone() -> None:
    assert endpoints_for(chat(b'"n":1')) == (Endpoint.CHAT,)


@pytest.mark.parametrize(("field", "code"), [("prompt", "unsupported_prompt"), ("suffix", "unsupported_parameter")])
def test_a_refusal_names_field_model_and_reason(field: str, code: str) -> None:
    told = refuse_chat(model("m"), field)
    assert (told.status, told.error_code, told.param) == (400, code, field)
    assert told.message == f"The model 'm' is served through chat completions, which cannot take this '{field}'"


def test_a_model_may_be_for_some_endpoints_alone() -> None:
    vectors = model("m", capabilities=Capabilities(endpoints=(Endpoint.EMBEDDINGS,)))
    with pytest.raises(UnsupportedParameter, match="'m' does not serve chat") as raised:
        check_model(vectors, chat(b'"n":1'))
    assert raised.value.param == "model"
    check_model(vectors, parse(Endpoint.EMBEDDINGS, b'{"model":"m","input":"x"}'))
    check_model(model("m"), parse(Endpoint.EMBEDDINGS, b'{"model":"m","input":"x"}'))
