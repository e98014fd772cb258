import msgspec
import pytest

from gateway.errors import UpstreamRejected
from gateway.faults import Failed, Fault, FieldError
from gateway.providers.failures import failure, failure_inside, retry_after_ms
from gateway.wire.envelope import envelope


def failed(status: int, said: object, upstream_model: str = "up-nat") -> Failed:
    return failure(status, {}, said if isinstance(said, bytes) else msgspec.json.encode(said), hidden=[upstream_model])


def envelope_of(message: str = "boom", kind: str = "x", code: object = None, param: object = None) -> dict[str, object]:
    return {"error": {"message": message, "type": kind, "param": param, "code": code}}


@pytest.mark.parametrize(
    ("status", "said", "fault"),
    [
        (401, envelope_of("Incorrect API key provided: sk-up-1234abcd", code="invalid_api_key"), Fault.CREDENTIAL),
        (401, {"detail": "Couldn't authenticate. Reason: Unable authenticate"}, Fault.CREDENTIAL),
        (403, envelope_of("Project not allowed", "permission_error"), Fault.CREDENTIAL),
        (403, {"detail": {"error": "inference prohibited, please enter a payment method"}}, Fault.BILLING),
        (402, {"error": {"code": "BALANCE_ERROR", "message": "Insufficient balance"}}, Fault.BILLING),
        (402, b"", Fault.BILLING),
        (404, envelope_of("The model `up-nat` does not exist", code="model_not_found"), Fault.STALE_MODEL),
        (404, {"detail": "The model `up-nat` does not exist."}, Fault.STALE_MODEL),
        (404, b"<html>no such page</html>", Fault.STALE_MODEL),
        (404, {"detail": "Not Found"}, Fault.STALE_MODEL),
        (404, {"error": {"code": "404", "message": "Resource not found"}}, Fault.STALE_MODEL),
        (404, envelope_of("Invalid URL (POST /v1/chat/completion)"), Fault.STALE_MODEL),
        (404, {"type": "error", "error": {"type": "not_found_error", "message": "model: up-nat"}}, Fault.STALE_MODEL),
        (404, {"error": {"code": 404, "status": "NOT_FOUND", "message": "models/up-nat is not found"}}, Fault.STALE_MODEL),
        (404, {"error": {"code": 404, "message": "No endpoints found for up-nat."}}, Fault.STALE_MODEL),
        (404, {"error": {"code": "DeploymentNotFound", "message": "The API deployment does not exist."}}, Fault.STALE_MODEL),
        (404, envelope_of("File not found: Resource not found"), Fault.REJECTED),
        (400, envelope_of("Your credit balance is too low to access the API"), Fault.CREDENTIAL),
        (400, envelope_of("Insufficient balance, please recharge"), Fault.CREDENTIAL),
        (400, envelope_of("This organization has been disabled."), Fault.CREDENTIAL),
        (400, {"error": {"code": 400, "message": "API key not valid.", "status": "INVALID_ARGUMENT"}}, Fault.CREDENTIAL),
        (400, envelope_of("Incorrect API key provided", code="invalid_api_key"), Fault.CREDENTIAL),
        (400, envelope_of("messages.0: 'your credit balance is too low' is no role"), Fault.REJECTED),
        (404, envelope_of("The file file-123 was not found"), Fault.REJECTED),
        (400, {"error": {"code": "REQUEST_ERROR", "message": "Request error: Model not supported"}}, Fault.STALE_MODEL),
        (
            400,
            envelope_of("Unsupported value: 'service_tier'", param="service_tier", code="unsupported_value"),
            Fault.STALE_MODEL,
        ),
        (400, envelope_of("unknown field stream_options"), Fault.STALE_MODEL),
        (400, envelope_of("property 'stream_options' is unsupported"), Fault.STALE_MODEL),
        (400, envelope_of("stream_options: Extra inputs are not permitted"), Fault.STALE_MODEL),
        (400, envelope_of("'stream_options' is not of type 'array'", param="stop"), Fault.REJECTED),
        (400, envelope_of("Invalid value: 'stream_options' is too long", param="stop"), Fault.REJECTED),
        (
            422,
            {"detail": [{"loc": ["body", "fail_fast"], "msg": "Extra inputs are not permitted", "type": "extra_forbidden"}]},
            Fault.STALE_MODEL,
        ),
        (400, envelope_of("Tool 'service_tier' has no description"), Fault.REJECTED),
        (400, envelope_of("This model does not support tools"), Fault.REJECTED),
        (413, envelope_of("Request too large", code="request_too_large"), Fault.REJECTED),
        (413, envelope_of("Request too large for model on tokens per minute", code="rate_limit_exceeded"), Fault.ACCOUNT_RATE),
        (408, envelope_of("timed out"), Fault.UPSTREAM_TIMEOUT),
        (504, b"", Fault.UPSTREAM_TIMEOUT),
        (500, envelope_of(), Fault.SERVER),
        (502, b"<html>down</html>", Fault.SERVER),
        (520, b"", Fault.SERVER),
        (405, b"", Fault.SERVER),
        (302, b"", Fault.SERVER),
        (423, {"error": {"code": "LOCKED", "message": "stack locked"}}, Fault.BUSY),
        (425, {"error": {"code": "UNAVAILABLE_STACK", "message": "too early"}}, Fault.BUSY),
        (498, envelope_of("Flex tier capacity exceeded", "capacity_error", "capacity_exceeded"), Fault.BUSY),
        (503, envelope_of("The server is overloaded", code="server_is_overloaded"), Fault.BUSY),
        (529, {"type": "error", "error": {"type": "overloaded_error", "message": "Overloaded"}}, Fault.BUSY),
        (429, envelope_of("Model busy, retry later", code="engine_overloaded"), Fault.BUSY),
        (429, envelope_of("Model busy, retry later"), Fault.BUSY),
        (429, envelope_of("Resource Unavailable", "rate_limit_error"), Fault.BUSY),
        (429, envelope_of("Slow down", code="slow_down"), Fault.BUSY),
        (429, {"error": {"code": "CHAT_COMPLETIONS_SERVICE_UNAVAILABLE", "message": "no replica"}}, Fault.BUSY),
        (429, envelope_of("Rate limit reached", "requests", "rate_limit_exceeded"), Fault.ACCOUNT_RATE),
        (429, {"detail": "Rate limited"}, Fault.ACCOUNT_RATE),
        (429, {"error": {"code": 429, "status": "RESOURCE_EXHAUSTED", "message": "Quota"}}, Fault.ACCOUNT_RATE),
        (429, b"", Fault.ACCOUNT_RATE),
        *(
            (429, envelope_of("Limit reached for the account", "insufficient_quota", code), Fault.BILLING)
            for code in ("credit_balance_exhausted", "organization_spend_limit_exceeded", "project_spend_limit_exceeded")
        ),
    ],
)
def test_a_status_and_its_words_name_the_fault(status: int, said: object, fault: Fault) -> None:
    found = failed(status, said)
    assert (found.fault, found.status) == (fault, status)
    assert bool(found.message) <= (fault is Fault.REJECTED)


@pytest.mark.parametrize(
    ("said", "message", "param", "code"),
    [
        (envelope_of("bad role", "invalid_request_error", "invalid_value", "messages"), "bad role", "messages", "invalid_value"),
        (envelope_of("bad temperature", "BadRequestError", 400, "temperature"), "bad temperature", "temperature", None),
        (
            {"object": "error", "message": "bad stop", "type": "BadRequestError", "param": None, "code": 400},
            "bad stop",
            None,
            None,
        ),
        ({"detail": "bad stop"}, "bad stop", None, None),
        ({"detail": {"error": "bad stop"}}, "bad stop", None, None),
        ({"error": "bad stop"}, "bad stop", None, None),
        ({"error": {"code": "REQUEST_ERROR", "message": "bad stop"}}, "bad stop", None, None),
        (
            {"error": {"code": 400, "message": "bad stop", "metadata": {"raw": "{}", "provider_name": "acme"}}},
            "bad stop",
            None,
            None,
        ),
        ({"type": "error", "error": {"type": "invalid_request_error", "message": "bad stop"}}, "bad stop", None, None),
        ([{"error": {"code": 400, "status": "INVALID_ARGUMENT", "message": "bad stop"}}], "bad stop", None, None),
        (b"<html>nope</html>", "", None, None),
        (b"", "", None, None),
        (b"[]", "", None, None),
        (b"5", "", None, None),
        ({"error": {"message": 5, "param": [], "code": {}}}, "", None, None),
        ({"message": "bad stop"}, "bad stop", None, None),
    ],
)
def test_a_refusal_is_told_in_the_providers_words(said: object, message: str, param: str | None, code: str | None) -> None:
    found = failed(400, said)
    assert (found.fault, found.message, found.param, found.code) == (Fault.REJECTED, message, param, code)


@pytest.mark.parametrize(
    "said",
    [
        envelope_of("Too long for us", code="context_length_exceeded"),
        envelope_of("This model's maximum context length is 4096 tokens. However, you requested 5000 tokens.", code=400),
        envelope_of("Input too long: 9000 input tokens, limit is 8192 for this model"),
        {"detail": "This model's maximum context length is 32768 tokens."},
        {"error": {"message": "Provider returned error", "code": 400, "metadata": {"raw": "prompt is too long: 9 tokens"}}},
        envelope_of("Prompt contains 9000 tokens, too large for model with 8192 maximum context length"),
        envelope_of("The input (9000 tokens) is longer than the model's context length (8192 tokens)."),
        envelope_of("The input token count (1200000) exceeds the maximum number of tokens allowed (1048576)."),
        envelope_of("too many tokens: total number of tokens in the prompt cannot exceed 4081 - received 5000"),
        envelope_of("Input validation error: `inputs` must have less than 4096 tokens. Given: 5000"),
        envelope_of("`inputs` tokens + `max_new_tokens` must be <= 8192. Given: 9000 `inputs` tokens"),
        envelope_of("input length and `max_tokens` exceed context limit: 190000 + 20000 > 200000"),
        envelope_of("This model's maximum prompt length is 131072 but the request contains 537812 tokens."),
        envelope_of("Your request exceeded model token limit: 8192"),
        envelope_of("prompt token count of 130000 exceeds the limit of 128000"),
        envelope_of("Range of input length should be [1, 30720]"),
        envelope_of("The decoder prompt (length 9000) is longer than the maximum model length of 8192."),
    ],
)
@pytest.mark.parametrize("status", [400, 413, 422])
def test_context_length_has_one_code_and_one_status(status: int, said: object) -> None:
    found = failed(status, said)
    assert (found.fault, found.status, found.code) == (Fault.REJECTED, 400, "context_length_exceeded")


@pytest.mark.parametrize(
    "message",
    [
        "max_tokens is too large: 100000. This model supports at most 16384 completion tokens",
        "Invalid 'stop': array too long. Expected an array with maximum length 4",
        "The image is too large",
    ],
)
def test_what_is_too_much_of_something_else_is_no_context_length(message: str) -> None:
    assert failed(400, envelope_of(message, code="invalid_value")).code == "invalid_value"


def test_a_code_that_gives_something_away_is_not_shown() -> None:
    assert failed(400, envelope_of("bad", code="up-nat")).code is None


@pytest.mark.parametrize(
    ("status", "said"),
    [
        (400, envelope_of("no", code="content_filter")),
        (400, envelope_of("The response was filtered due to the prompt triggering the content management policy")),
        (403, {"error": {"code": 403, "message": "acme/model requires moderation. Your input was flagged for violence"}}),
    ],
)
def test_a_content_filter_has_one_code_and_is_no_refused_credential(status: int, said: object) -> None:
    found = failed(status, said)
    assert (found.fault, found.status, found.code) == (Fault.REJECTED, 400, "content_filter")


def test_every_field_of_a_422_is_kept_for_detail() -> None:
    items = [
        {"type": "int_type", "loc": ["body", "n"], "msg": "no integer", "input": "x"},
        {"loc": ["body", "stop", 0], "msg": "empty"},
    ]
    found = failed(422, {"detail": items})
    assert (found.message, found.param) == ("no integer", "n")
    assert found.fields == (
        FieldError(("body", "n"), "no integer", "int_type"),
        FieldError(("body", "stop", 0), "empty", "value_error"),
    )
    told = msgspec.json.decode(envelope(UpstreamRejected(found)))
    assert [entry["loc"] for entry in told["detail"]] == [["body", "n"], ["body", "stop", 0]]
    assert told["error"]["code"] == "invalid_type"


@pytest.mark.parametrize(("status", "code"), [(413, "request_too_large"), (400, "invalid_value")])
def test_where_a_provider_gives_no_code_ours_says_what_its_status_does(status: int, code: str) -> None:
    assert UpstreamRejected(failed(status, {"detail": "no"})).error_code == code
    assert UpstreamRejected(failed(status, envelope_of("no", code="their_own"))).error_code == "their_own"


def test_a_422_without_a_list_still_has_its_detail() -> None:
    body = msgspec.json.decode(envelope(UpstreamRejected(failed(422, envelope_of("bad", param="n")))))
    assert body["detail"] == [{"loc": ["body", "n"], "msg": "bad", "type": "value_error"}]


@pytest.mark.parametrize(
    ("said", "fault", "status"),
    [
        (envelope_of("Model busy, retry later", code="engine_overloaded"), Fault.BUSY, 200),
        ({"error": {"message": "Model busy"}}, Fault.BUSY, 200),
        ({"error": {"code": 502, "message": "worker limit"}}, Fault.SERVER, 200),
        ({"error": {"code": "429", "message": "slow"}}, Fault.ACCOUNT_RATE, 200),
        ({"error": {"code": 401, "message": "no"}}, Fault.CREDENTIAL, 200),
        ({"error": {"message": "quota", "type": "insufficient_quota"}}, Fault.BILLING, 200),
        ({"error": {"message": "oops", "type": "server_error"}}, Fault.SERVER, 200),
        ({"error": {"code": 400, "message": "context length"}}, Fault.REJECTED, 400),
        ({"error": {"code": "context_length_exceeded", "message": "long"}}, Fault.REJECTED, 400),
        ({"error": {"message": "oops", "type": "invalid_request_error"}}, Fault.REJECTED, 400),
        ({"error": {"message": "Model busy", "type": "invalid_request_error"}}, Fault.BUSY, 200),
        ({"error": {"message": "messages: none", "code": "invalid_value", "param": "messages"}}, Fault.REJECTED, 400),
        ({"type": "error", "error": {"type": "request_too_large", "message": "large"}}, Fault.REJECTED, 413),
        ({"type": "error", "error": {"type": "not_found_error", "message": "model: up-nat"}}, Fault.STALE_MODEL, 200),
        ({"type": "error", "error": {"type": "timeout_error", "message": "slow"}}, Fault.UPSTREAM_TIMEOUT, 200),
        ({"detail": [{"loc": ["body", "n"], "msg": "too many", "type": "value_error"}]}, Fault.REJECTED, 422),
        ({"detail": "This model's maximum context length is 10 tokens"}, Fault.REJECTED, 400),
        ([{"error": {"code": 503, "status": "UNAVAILABLE", "message": "later"}}], Fault.BUSY, 200),
        ({"choices": [{"error": {"code": 502, "message": "down"}, "finish_reason": "error"}]}, Fault.SERVER, 200),
        ({"error": "oops"}, Fault.BAD_ANSWER, 200),
        (None, Fault.BAD_ANSWER, 200),
    ],
)
def test_an_error_inside_a_200_is_read_by_its_code(said: object, fault: Fault, status: int) -> None:
    found = failure_inside(said)
    assert (found.fault, found.status) == (fault, status)


@pytest.mark.parametrize(
    ("headers", "expected"),
    [
        ({b"retry-after": b"7"}, 7000),
        ({b"retry-after": b"0.5"}, 500),
        ({b"retry-after-ms": b"350", b"retry-after": b"7"}, 350),
        ({b"retry-after-ms": b"soon", b"retry-after": b"7"}, 7000),
        ({b"retry-after": b"Wed, 21 Oct 2026 07:28:30 GMT", b"date": b"Wed, 21 Oct 2026 07:28:00 GMT"}, 30_000),
        ({b"retry-after": b"Wed, 21 Oct 2026 07:28:30 GMT"}, None),
        ({b"retry-after": b"Wed, 21 Oct 2026 07:28:30 GMT", b"date": b"Wed, 21 Oct 2026 07:28:00 -0000"}, None),
        ({b"retry-after": b"Wed, 21 Oct 2026 07:27:00 GMT", b"date": b"Wed, 21 Oct 2026 07:28:00 GMT"}, None),
        ({b"retry-after": b"nan"}, None),
        ({b"retry-after": b"inf"}, None),
        ({b"retry-after": b"-3"}, None),
        ({b"retry-after": b"\xff"}, None),
        ({b"retry-after": b"99999999"}, 86_400_000),
        ({}, None),
    ],
)
def test_retry_after(headers: dict[bytes, bytes], expected: int | None) -> None:
    assert retry_after_ms(headers) == expected
    assert failure(429, headers, b"").retry_after_ms == expected


SPENT = {b"x-ratelimit-remaining-tokens": b"0", b"x-ratelimit-reset-tokens": b"6m0s"}


@pytest.mark.parametrize(
    ("status", "headers", "code", "expected"),
    [
        (429, SPENT, "rate_limit_exceeded", 360_000),
        (413, SPENT, "rate_limit_exceeded", 360_000),
        (429, SPENT | {b"retry-after": b"7"}, "rate_limit_exceeded", 7000),
        (429, SPENT | {b"retry-after": b"soon"}, "rate_limit_exceeded", 360_000),
        (429, SPENT | {b"x-ratelimit-remaining-tokens": b"12"}, "rate_limit_exceeded", None),
        (429, SPENT, "engine_overloaded", None),
        (500, SPENT, "server_error", None),
    ],
)
def test_an_account_that_has_run_out_waits_for_its_reset(
    status: int, headers: dict[bytes, bytes], code: str, expected: int | None
) -> None:
    assert failure(status, headers, msgspec.json.encode(envelope_of(code=code))).retry_after_ms == expected
