"""How errors are told: in whose shape, whole and as the last event of a stream."""

import msgspec
import pytest

from gateway import errors
from gateway.errors import GatewayError
from gateway.faults import Failed, Fault, FieldError
from gateway.wire.envelope import Manner, Telling

ANTHROPIC = Telling(Manner.ANTHROPIC, "r-1")


def every_error() -> list[GatewayError]:
    plain = [kind for kind in GatewayError.__subclasses__() if kind.__init__ is GatewayError.__init__]
    return [
        *(kind("It did not work") for kind in plain),
        errors.MethodNotAllowed(allow="POST"),
        errors.Unprocessable((FieldError(("body", "max_tokens"), "Field required", "missing"),)),
        errors.RateLimited("Too many", dimension="requests"),
        errors.EngineOverloaded(),
        errors.FlexNoCapacity(),
        *(errors.UpstreamRejected(Failed(fault=Fault.REJECTED, status=status, message="No")) for status in (400, 413, 422)),
    ]


@pytest.mark.parametrize("error", every_error(), ids=lambda error: type(error).__name__)
def test_every_error_has_anthropics_shape(error: GatewayError) -> None:
    told = msgspec.json.decode(ANTHROPIC.body(error))
    assert (told.keys(), told["type"], told["request_id"]) == ({"type", "error", "request_id"}, "error", "r-1")
    assert (told["error"].keys(), bool(told["error"]["message"])) == ({"type", "message"}, True)
    assert ANTHROPIC.event(error) == b"event: error\ndata: " + ANTHROPIC.body(error) + b"\n\n"


@pytest.mark.parametrize(
    ("error", "kind"),
    [
        (errors.InvalidJson("x"), "invalid_request_error"),
        (errors.Unauthenticated("x"), "authentication_error"),
        (errors.InsufficientQuota("x"), "billing_error"),
        (errors.IpNotAllowed("x"), "permission_error"),
        (errors.ModelNotFound("x"), "not_found_error"),
        (errors.RequestTooLarge("x"), "request_too_large"),
        (errors.UnsupportedMediaType("x"), "invalid_request_error"),
        (errors.RateLimited("x", dimension="tokens"), "rate_limit_error"),
        (errors.EngineOverloaded(), "overloaded_error"),
        (errors.FlexNoCapacity(), "overloaded_error"),
        (errors.Internal("x"), "api_error"),
        (errors.UpstreamUnavailable("x"), "api_error"),
        (errors.Overloaded("x"), "overloaded_error"),
        (errors.UpstreamTimeout("x"), "timeout_error"),
    ],
)
def test_the_kind_says_who_is_at_fault(error: GatewayError, kind: str) -> None:
    assert msgspec.json.decode(ANTHROPIC.body(error))["error"]["type"] == kind


def test_the_field_at_fault_is_named_once() -> None:
    for error, message in (
        (errors.InvalidValue("Input should be 1", param="n"), "n: Input should be 1"),
        (errors.UnsupportedParameter("No 'tools' here", param="tools"), "No 'tools' here"),
    ):
        assert msgspec.json.decode(ANTHROPIC.body(error))["error"]["message"] == message


def test_others_are_told_as_they_were() -> None:
    error = errors.ModelNotFound("Not there", param="model")
    plain = {"message": "Not there", "type": "invalid_request_error", "param": "model", "code": "model_not_found"}
    assert msgspec.json.decode(Telling().body(error)) == {"error": plain}
    assert msgspec.json.decode(Telling(Manner.DETAIL).body(error)) == {"error": plain, "detail": "Not there"}
    for manner in (Manner.OPENAI, Manner.DETAIL):
        assert Telling(manner).event(error) == b"data: " + Telling().body(error) + b"\n\n"


def test_events_of_responses_have_a_name_and_a_number() -> None:
    error = errors.StreamInterrupted("It broke", param="input")
    telling = Telling(Manner.DETAIL, numbered=True)
    event = telling.event(error, 7)
    assert event.startswith(b"event: error\ndata: {")
    assert event.endswith(b"}\n\n")
    told = {"message": "It broke", "param": "input", "code": error.error_code}
    assert msgspec.json.decode(event.partition(b"data: ")[2]) == {
        "type": "error",
        **told,
        "sequence_number": 7,
        "error": {**told, "type": error.error_type},
    }
    assert telling.body(error) == Telling(Manner.DETAIL).body(error)


def test_only_anthropics_clients_look_for_their_own_header() -> None:
    assert ANTHROPIC.headers == [(b"request-id", b"r-1")]
    assert Telling(Manner.OPENAI, "r-1").headers == []
