"""The bytes of a request."""

import pytest

from gateway.upstream.http1 import RequestHead, ends_with_connection
from gateway.upstream.origin import parse_origin
from gateway.upstream.transport import Outgoing

HEAD = RequestHead(parse_origin("https://api.example.com/v1"))


def test_writes_a_request_head() -> None:
    outgoing = Outgoing(path="/chat?a=b", headers=((b"authorization", b"Bearer k"), (b"x", b"")), body=b"{}")
    assert HEAD.of(outgoing) == (
        b"POST /v1/chat?a=b HTTP/1.1\r\nhost: api.example.com\r\naccept-encoding: identity\r\ncontent-length: 2\r\n"
        b"authorization: Bearer k\r\nx: \r\n\r\n"
    )


@pytest.mark.parametrize("path", ["/a\r\nx: y", "/a\n", "/a\r", "/a HTTP/1.1"])
def test_refuses_a_line_break_in_the_path(path: str) -> None:
    with pytest.raises(ValueError, match="line break"):
        HEAD.of(Outgoing(path=path, headers=(), body=b""))


@pytest.mark.parametrize("header", [(b"x", b"a\r\nevil: b"), (b"x\r\nevil", b"a"), (b"x", b"a\nevil: b"), (b"x", b"a\rb")])
def test_refuses_a_line_break_in_a_header(header: tuple[bytes, bytes]) -> None:
    with pytest.raises(ValueError, match="line break"):
        HEAD.of(Outgoing(path="/", headers=(header,), body=b""))


@pytest.mark.parametrize(
    ("status", "headers", "expected"),
    [
        (200, [], True),
        (500, [(b"x", b"y")], True),
        (200, [(b"content-length", b"1")], False),
        (200, [(b"transfer-encoding", b"chunked")], False),
        (204, [], False),
        (304, [], False),
    ],
)
def test_a_body_without_framing_ends_with_the_connection(status: int, headers: list[tuple[bytes, bytes]], expected: bool) -> None:
    assert ends_with_connection(status, headers) is expected
