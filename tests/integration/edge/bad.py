"""Requests that are no good, and what each hears: data for several tests."""

import gzip
from typing import Any

import msgspec

from tests.fakes.wire import chunked, post, request
from tests.running import SECRET

MARKER = "xq-marker-of-a-prompt"
"""Stands in every body; must never stand in an error or a log line."""

COUNTED = "sk-test-secret-of-counted"
"""A key that may ask once."""

AUTH = ("authorization", f"Bearer {SECRET}")
TYPE = ("content-type", "application/json")
PACKED = ("content-encoding", "gzip")
CHUNKED = ("transfer-encoding", "chunked")
WEBSOCKET = (("connection", "upgrade"), ("upgrade", "websocket"), ("sec-websocket-key", "x"), ("sec-websocket-version", "13"))
DEEP = 10_000
MOST_BYTES = 64 << 10
"""The body's bound in these tests: the same rules as for 10 MiB, in less time."""

encode = msgspec.json.Encoder().encode


def chat(**fields: Any) -> bytes:
    """Return a good chat body with these fields; `...` leaves one out."""
    body = {"model": "m", "messages": [{"role": "user", "content": MARKER}], **fields}
    return encode({name: value for name, value in body.items() if value is not ...})


GOOD = post(chat(), AUTH, TYPE)


class Bad(msgspec.Struct, frozen=True):
    """One request's bytes and the error that it hears."""

    id: str
    data: bytes
    status: int
    code: str
    param: str | None = None
    method: str = "POST"


def body(name: str, data: bytes, status: int, code: str, param: str | None = None) -> Bad:
    """A body that is no good."""
    return Bad(name, post(data, AUTH, TYPE), status, code, param)


def head(name: str, status: int, code: str, *headers: tuple[str, str], param: str | None = None) -> Bad:
    """Headers that are no good, with a good body."""
    return Bad(name, post(chat(), AUTH, *headers), status, code, param)


def raw(field: bytes) -> bytes:
    """Return a chat body with one more member, as it stands."""
    return chat()[:-1] + b"," + field + b"}"


def nest(inner: bytes = b"") -> bytes:
    return b"[" * DEEP + inner + b"]" * DEEP


NO_JSON = (400, "invalid_json")
NO_OBJECT = (422, "invalid_type")

BODIES = (
    body("empty", b"", *NO_JSON),
    body("blank", b" \r\n\t", *NO_JSON),
    body("text", b"hello", *NO_JSON),
    body("half", chat()[:-1], *NO_JSON),
    body("trailing_comma", chat()[:-1] + b",}", *NO_JSON),
    body("single_quotes", b"{'model': 'm'}", *NO_JSON),
    body("comment", b"/* " + MARKER.encode() + b" */" + chat(), *NO_JSON),
    body("two_documents", chat() + chat(), *NO_JSON),
    body("rubbish_behind", chat() + b" x", *NO_JSON),
    body("nul", chat() + b"\0", *NO_JSON),
    body("not_a_number", raw(b'"temperature":NaN'), *NO_JSON),
    body("not_a_number_in_an_unknown_field", raw(b'"x":NaN'), *NO_JSON),
    body("infinity", raw(b'"x":Infinity'), *NO_JSON),
    body("leading_zero", raw(b'"x":01'), *NO_JSON),
    body("raw_newline_in_a_string", raw(b'"x":"a\nb"'), *NO_JSON),
    body("bad_escape", raw(b'"x":"\\q"'), *NO_JSON),
    body("bad_escape_in_a_known_field", raw(b'"user":"\\q"'), *NO_JSON),
    body("bad_escape_in_a_name", raw(b'"\\q":1'), *NO_JSON),
    body("lone_surrogate", raw(b'"user":"\\ud800"'), *NO_JSON),
    body("lone_surrogate_in_a_name", raw(b'"\\ud800":1'), *NO_JSON),
    body("byte_order_mark", b"\xef\xbb\xbf" + chat(), *NO_JSON),
    body("utf_16", chat().decode().encode("utf-16"), *NO_JSON),
    body("bad_utf_8", raw(b'"user":"\xff"'), *NO_JSON),
    body("bad_utf_8_in_an_unknown_field", raw(b'"x":"\xc3("'), *NO_JSON),
    body("bad_utf_8_in_a_message", chat().replace(MARKER.encode(), b"\xed\xa0\x80"), *NO_JSON),
    body("deep", nest(), *NO_JSON),
    body("deep_in_an_unknown_field", raw(b'"x":' + nest()), *NO_JSON),
    body("deep_in_a_known_field", raw(b'"stop":' + nest()), *NO_JSON),
    body("deep_in_messages", b'{"model":"m","messages":' + nest() + b"}", *NO_JSON),
    body("deep_objects", b'{"a":' * DEEP + b"1" + b"}" * DEEP, *NO_JSON),
    body("a_name_twice", raw(b'"model":"n"'), *NO_JSON),
    body("a_name_twice_by_escape", raw(b'"mod\\u0065l":"n"'), *NO_JSON),
    body("an_unknown_name_twice", raw(b'"x":1,"x":1'), *NO_JSON),
    body("null", b"null", *NO_OBJECT),
    body("list", b"[" + chat() + b"]", *NO_OBJECT),
    body("string", b'"' + MARKER.encode() + b'"', *NO_OBJECT),
    body("number", b"1", *NO_OBJECT),
    body("true", b"true", *NO_OBJECT),
    body("nothing_in_it", b"{}", 422, "missing_required_parameter", "model"),
    body("huge_number", raw(b'"temperature":1e999'), 422, "out_of_range", "temperature"),
    body("huge_integer", raw(b'"seed":' + b"9" * 400), 422, "out_of_range", "seed"),
    body("fraction", raw(b'"max_tokens":1.5'), 422, "invalid_type", "max_tokens"),
    body("unknown_model", chat(model="none"), 404, "model_not_found", "model"),
    body("model_with_line_breaks", chat(model="a\r\nx-evil: 1"), 404, "model_not_found", "model"),
)

BIG = chat(user="x" * MOST_BYTES)

MESSAGES = (
    Bad("unknown_path", request("GET", "/nowhere"), 404, "unknown_url", method="GET"),
    Bad("unknown_path_below", post(chat(), AUTH, TYPE, path="/v1/chat/completions/more"), 404, "unknown_url"),
    Bad("unknown_endpoint", post(chat(), AUTH, TYPE, path="/v1/images/generations"), 404, "unknown_url"),
    Bad("escaped_slash", post(chat(), AUTH, TYPE, path="/v1/chat%2fcompletions/x"), 404, "unknown_url"),
    Bad("get", request("GET", "/v1/chat/completions", AUTH), 405, "method_not_allowed", method="GET"),
    Bad("head", request("HEAD", "/v1/chat/completions", AUTH), 405, "method_not_allowed", method="HEAD"),
    Bad("options", request("OPTIONS", "/v1/completions", AUTH), 405, "method_not_allowed", method="OPTIONS"),
    Bad("trace", request("TRACE", "/v1/chat/completions", AUTH), 405, "method_not_allowed", method="TRACE"),
    Bad("websocket", request("GET", "/v1/chat/completions", AUTH, *WEBSOCKET), 405, "method_not_allowed", method="GET"),
    Bad("dots", post(chat(), AUTH, TYPE, path="/v1/../v1/chat/completions"), 404, "unknown_url"),
    Bad("escaped_dots", post(chat(), AUTH, TYPE, path="/v1/%2e%2e/v1/chat/completions"), 404, "unknown_url"),
    Bad("escaped_nul", post(chat(), AUTH, TYPE, path="/v1/chat/completions%00"), 404, "unknown_url"),
    Bad("escape_of_no_digits", post(chat(), AUTH, TYPE, path="/v1/%zz"), 404, "unknown_url"),
    Bad("escape_of_bad_utf_8", post(chat(), AUTH, TYPE, path="/v1/%ff%fe"), 404, "unknown_url"),
    Bad("parameter_of_a_path", post(chat(), AUTH, TYPE, path="/v1/chat/completions;x=1"), 404, "unknown_url"),
    Bad("capital_path", post(chat(), AUTH, TYPE, path="/V1/Chat/Completions"), 404, "unknown_url"),
    Bad("a_host_for_a_path", post(chat(), AUTH, TYPE, path="//other.test/v1/chat/completions"), 404, "unknown_url"),
    Bad("options_of_everything", request("OPTIONS", "*", AUTH), 404, "unknown_url", method="OPTIONS"),
    Bad("put", post(chat(), AUTH, TYPE).replace(b"POST", b"PUT", 1), 405, "method_not_allowed", method="PUT"),
    Bad("delete_models", request("DELETE", "/v1/models", AUTH), 405, "method_not_allowed", method="DELETE"),
    Bad("post_models", post(chat(), AUTH, TYPE, path="/v1/models"), 405, "method_not_allowed"),
    head("text_plain", 415, "unsupported_media_type", ("content-type", "text/plain")),
    head("form", 415, "unsupported_media_type", ("content-type", "application/x-www-form-urlencoded")),
    head("multipart", 415, "unsupported_media_type", ("content-type", "multipart/form-data; boundary=x")),
    head("json_in_a_parameter", 415, "unsupported_media_type", ("content-type", "text/plain; application/json")),
    head("deflate", 415, "unsupported_media_type", TYPE, ("content-encoding", "deflate")),
    head("zstd", 415, "unsupported_media_type", TYPE, ("content-encoding", "zstd")),
    head("x_gzip", 415, "unsupported_media_type", TYPE, ("content-encoding", "x-gzip")),
    head("brotli", 415, "unsupported_media_type", TYPE, ("content-encoding", "br")),
    head("two_codings", 415, "unsupported_media_type", TYPE, ("content-encoding", "gzip, gzip")),
    head("no_gzip_though_it_says_so", 400, "invalid_request", TYPE, PACKED),
    Bad("half_a_gzip", post(gzip.compress(chat())[:-9], AUTH, TYPE, PACKED), 400, "invalid_request"),
    Bad("gzip_and_more", post(gzip.compress(chat()) + b"more", AUTH, TYPE, PACKED), 400, "invalid_request"),
    Bad("two_gzips", post(gzip.compress(chat()) * 2, AUTH, TYPE, PACKED), 400, "invalid_request"),
    Bad("gzip_with_a_false_sum", post(gzip.compress(chat())[:-8] + bytes(8), AUTH, TYPE, PACKED), 400, "invalid_request"),
    Bad("gzip_of_nothing", post(gzip.compress(b""), AUTH, TYPE, PACKED), *NO_JSON),
    Bad("one_byte_too_many", post(chat() + b" " * (MOST_BYTES + 1 - len(chat())), AUTH, TYPE), 413, "request_too_large"),
    Bad(
        "one_byte_too_many_in_gzip",
        post(gzip.compress(chat() + b" " * (MOST_BYTES + 1 - len(chat()))), AUTH, TYPE, PACKED),
        413,
        "request_too_large",
    ),
    Bad("gzip_bomb", post(gzip.compress(b" " * 1_000 * MOST_BYTES), AUTH, TYPE, PACKED), 413, "request_too_large"),
    Bad("bad_json_in_gzip", post(gzip.compress(b"{"), AUTH, TYPE, PACKED), *NO_JSON),
    head("header_flood", 431, "request_headers_too_large", *((f"x-{n}", "y" * 100) for n in range(200))),
    head("many_headers", 431, "request_headers_too_large", *((f"x-{n}", "1") for n in range(62))),
    Bad("long_query", post(chat(), AUTH, TYPE, path="/v1/chat/completions?" + "a" * 20_000), 431, "request_headers_too_large"),
    head("one_long_header", 431, "request_headers_too_large", ("cookie", "y" * 20_000)),
    Bad("too_large", post(BIG, AUTH, TYPE), 413, "request_too_large"),
    Bad(
        "too_large_in_chunks",
        post(chunked(BIG[:50_000], BIG[50_000:]), AUTH, TYPE, CHUNKED, framed=False),
        413,
        "request_too_large",
    ),
    Bad("bad_json_in_chunks", post(chunked(b"{", b"]"), AUTH, TYPE, CHUNKED, framed=False), *NO_JSON),
    Bad("nothing_in_chunks", post(chunked(), AUTH, TYPE, CHUNKED, framed=False), *NO_JSON),
    *(
        head(f"deadline_{number}", 400, "invalid_value", ("x-request-timeout", word), param="x-request-timeout")
        for number, word in enumerate(("0", "-1", "nan", "inf", "soon", ""))
    ),
    head("two_keys", 400, "invalid_request", TYPE, ("x-api-key", "sk-other-0123456789")),
    head("two_authorizations", 400, "invalid_request", TYPE, ("authorization", "Bearer sk-other-0123456789")),
    Bad("no_key", post(chat(), TYPE), 401, "invalid_api_key"),
    Bad("wrong_key", post(chat(), TYPE, ("authorization", "Bearer sk-wrong-0123456789")), 401, "invalid_api_key"),
    Bad("key_in_the_query", post(chat(), TYPE, path=f"/v1/chat/completions?api_key={SECRET}"), 401, "invalid_api_key"),
    Bad(
        "no_project",
        post(chat(), AUTH, TYPE, path="/v1/chat/completions?ai_project_id=x"),
        403,
        "project_not_allowed",
        "ai_project_id",
    ),
)

ALL = (*BODIES, *MESSAGES)
